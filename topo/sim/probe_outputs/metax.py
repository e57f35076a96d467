"""What the MetaX tools would print on a simulated host, in the tools' own formats.

Layouts follow public outputs of mx-smi 2.2.9 and the metric names of mx-exporter 0.13.2; the
library's text is the JSON that our own probe writes. Everything is derived from the host's value:
the same host prints the same text.
"""

import json
from types import MappingProxyType

from topo.sim.probe_outputs.addresses import bdf, cpus, numa
from topo.sim.worlds.presets import SimNode

METAXLINK_SPEED_GTS = 32.0
METAXLINK_WIDTH = 16
PORT_UP, PORT_NO_USE = 1, 5

_MX, _NODE, _SYS = 5, 4, 6
_CODES = MappingProxyType({0: "X", _NODE: "NODE", _MX: "MX", _SYS: "SYS"})
_BANNER = "=================== MetaX System Management Interface Log ==================="
_STAMP = "Timestamp                                         : Wed Feb 11 16:37:10 2026"
_LEGEND = """
Legend:
  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  MX   = Connection traversing MetaXLink
  ETH  = Connection traversing Eth
  NA   = Connection type is unknown
"""  # noqa: E501 - the tool's own line length


def library(node: SimNode) -> str:
    """Return the `mxsml` text: what libmxsml would say of every device, link and server."""
    hardware = node.hardware
    devices = [
        {
            "index": index,
            "uuid": node.gpu_uuid(index),
            "bdf": bdf(index),
            "name": hardware.model,
            "state": 1,
            "unavailable_reason": "",
            "numa_affinity": numa(node, index),
            "memory_bytes": hardware.memory_bytes,
            "links": _links(node, index),
        }
        for index in range(hardware.gpus)
    ]
    text = {
        "format": "mxsml",
        "version": "2.3.1",
        "devices": devices,
        "topology": _levels(node),
        "servers": {"local": node.server_uuid, "remotes": [*node.peers, "", ""][:2]},
        "errors": [],
    }
    return json.dumps(text, indent=1) + "\n"


def smi_topo(node: SimNode) -> str:
    """`mx-smi topo -m`."""
    gpus = node.hardware.gpus
    header = "".join(f"GPU{i}".ljust(8) for i in range(gpus))
    rows = [
        f"GPU{i}".ljust(8)
        + "".join(_CODES[level].ljust(8) for level in row)
        + f"{numa(node, i)!s:<15}{cpus(numa(node, i))}"
        for i, row in enumerate(_levels(node))
    ]
    return "\n".join(
        [
            _BANNER,
            _STAMP,
            "",
            f"Attached GPUs                                     : {gpus}",
            "Device link type matrix",
            f"{'':8}{header}Node Affinity  CPU Affinity",
            *rows,
            _LEGEND,
        ]
    )


def smi_list(node: SimNode) -> str:
    """`mx-smi -L`."""
    lines = [
        f"GPU#{i}    {node.hardware.model}      {bdf(i)}   Available (UUID: {node.gpu_uuid(i)})"
        for i in range(node.hardware.gpus)
    ]
    return "\n".join(["mx-smi  version: 2.2.9", *lines, ""])


def smi_table(node: SimNode) -> str:
    """`mx-smi`: the table of mx-smi 2.2.9."""
    name = f"MetaX {node.hardware.model.removeprefix('MX')}"
    total_mib = node.hardware.memory_bytes >> 20
    rule = "+------------------+-----------------+---------------------+----------------------+"
    lines = [
        _BANNER,
        _STAMP,
        "",
        f"Attached GPUs                                     : {node.hardware.gpus}",
        "+---------------------------------------------------------------------------------+",
        "| MX-SMI 2.2.9                       Kernel Mode Driver Version: 3.4.4            |",
        "| MACA Version: 3.3.0.15             BIOS Version: 1.30.0.0                       |",
        "|------------------+-----------------+---------------------+----------------------|",
        "| Board       Name | GPU   Persist-M | Bus-id              | GPU-Util      sGPU-M |",
        "| Pwr:Usage/Cap    | Temp       Perf | Memory-Usage        | GPU-State            |",
        "|==================+=================+=====================+======================|",
    ]
    for index in range(node.hardware.gpus):
        memory = f"826/{total_mib} MiB"
        lines += [
            f"| {index:<6}{name} | {index:<12}Off | {bdf(index):<19} | 0%          Disabled |",
            f"| 57W / 350W       | 35C          P0 | {memory:<19} | Available            |",
            rule,
        ]
    return "\n".join([*lines, ""])


def exporter(node: SimNode) -> str:
    """Return the topology part of a scrape of mx-exporter."""
    host = f'Hostname="{node.identity.hostname}"'
    families: dict[str, list[str]] = {
        "mx_device_type": [],
        "mx_gpu_state": [],
        "mx_topo_info": [],
        "mx_mxlk_speed": [],
        "mx_mxlk_width": [],
        "mx_mxlk_aer_count": [],
        "mx_server_info": [],
        "mx_server_conn_status": [],
    }
    for index in range(node.hardware.gpus):
        _export_gpu(node, index, families)
    if node.server_uuid is not None:
        families["mx_server_info"] += [
            f'{{kind="local",server_uuid="{node.server_uuid}",{host}}} 1.0',
            *(
                f'{{kind="remote",server_uuid="{peer}",{host}}} {slot}.0'
                for slot, peer in enumerate(node.peers, start=1)
            ),
        ]
        families["mx_server_conn_status"].append(f'{{server_uuid="{node.server_uuid}",{host}}} 1.0')
    lines: list[str] = []
    for name, samples in families.items():
        lines += [f"# HELP {name} {name}", f"# TYPE {name} gauge"]
        lines += [name + sample for sample in samples]
    return "\n".join([*lines, ""])


def _export_gpu(node: SimNode, index: int, families: dict[str, list[str]]) -> None:
    device = (
        f'deviceId="{index}",deviceType="{node.hardware.model}",uuid="{node.gpu_uuid(index)}",'
        f'bdfId="{bdf(index)}"'
    )
    island, socket = divmod(index, node.hardware.island)
    families["mx_device_type"].append(f"{{{device}}} 1.0")
    families["mx_gpu_state"].append(f'{{{device},unavailable_reason=""}} 1.0')
    families["mx_topo_info"].append(
        f'{{{device},topology_id="{island}",socket_id="{socket}",die_id="0"}} 1.0'
    )
    for link in _links(node, index):
        port = f'{{{device},mxlkId="{int(str(link["link"])) + 1}"}}'
        families["mx_mxlk_speed"].append(f"{port} {link['speed']}")
        families["mx_mxlk_width"].append(f"{port} {link['width']}.0")
        families["mx_mxlk_aer_count"] += [
            f'{{type="{word}",{port.removeprefix("{")} {link[name]}.0'
            for word, name in (("ce", "corrected"), ("ue", "uncorrected"))
        ]


def _levels(node: SimNode) -> list[list[int]]:
    """Return the topology level of every pair of GPUs, in the library's numbers."""
    gpus = range(node.hardware.gpus)
    return [[_level(node, a, b) for b in gpus] for a in gpus]


def _level(node: SimNode, a: int, b: int) -> int:
    if a == b:
        return 0
    if a // node.hardware.island == b // node.hardware.island:
        return _MX
    return _NODE if numa(node, a) == numa(node, b) else _SYS


def _links(node: SimNode, index: int) -> list[dict[str, object]]:
    """The ports of one GPU: its island first, two optical ones per remote host, unused ones."""
    hardware = node.hardware
    first = index // hardware.island * hardware.island
    island = [i for i in range(first, min(first + hardware.island, hardware.gpus)) if i != index]
    optical = 2 * len(node.peers)
    links: list[dict[str, object]] = []
    for port in range(hardware.ports):
        used = port < len(island) + optical
        links.append(
            {
                "link": port,
                "speed": METAXLINK_SPEED_GTS if used else 0.0,
                "width": METAXLINK_WIDTH if used else 0,
                "port_state": PORT_UP if used else PORT_NO_USE,
                "corrected": 0,
                "uncorrected": 0,
                "remote_bdf": bdf(island[port]) if port < len(island) else None,
            }
        )
    return links
