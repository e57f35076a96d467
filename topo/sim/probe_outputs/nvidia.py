"""What the NVIDIA tools would print on a simulated tray of an NVLink rack.

`library` is the JSON that our own NVML probe writes; `smi_topo` and `smi_fabric` follow public
outputs of GB200 trays.
"""

import json

from topo.sim.probe_outputs.addresses import bdf, cpus, numa
from topo.sim.worlds.presets import SimNode

FABRIC_COMPLETED, NVML_SUCCESS = 3, 0
HEALTHY_MASK = 0xAA
"""Every two-bit field says FALSE: nothing degraded (nvml.h, nvmlGpuFabricInfo_v2_t)."""
SUMMARY_HEALTHY = 1

_SYSTEM, _INTERNAL = 50, 0
_LINK_UP, _REMOTE_SWITCH = 1, 2
_COUNTERS = (
    "Malformed packet Errors",
    "Buffer overrun Errors",
    "Rx Errors",
    "Rx remote Errors",
    "Rx General Errors",
    "Local link integrity Errors",
    "Tx discards",
    "Link recovery successful events",
    "Link recovery failed events",
    "Total link recovery events",
    "Effective Errors",
    "Symbol Errors",
)


def library(node: SimNode) -> str:
    """Return the `nvml` text: devices, fabric, platform and links of a tray."""
    gpus = range(node.hardware.gpus)
    text = {
        "format": "nvml",
        "driver": "570.124.06",
        "devices": [_device(node, index) for index in gpus],
        "topology": [[_INTERNAL if a == b else _SYSTEM for b in gpus] for a in gpus],
        "errors": [],
    }
    return json.dumps(text, indent=1) + "\n"


def smi_topo(node: SimNode) -> str:
    """`nvidia-smi topo -m`: every pair bonded over all links."""
    gpus = range(node.hardware.gpus)
    bonded = f"NV{node.hardware.ports}"
    columns = [*(f"GPU{i}" for i in gpus), "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]
    rows = [
        "\t".join(
            [
                f"GPU{a}",
                *(" X " if a == b else bonded for b in gpus),
                cpus(numa(node, a)),
                f"{numa(node, a)}\t\tN/A",
            ]
        )
        for a in gpus
    ]
    legend = [
        "",
        "Legend:",
        "",
        "  X    = Self",
        "  NV#  = Connection traversing a bonded set of #",
    ]
    return "\n".join(["\t" + "\t".join(columns), *rows, *legend, ""])


def smi_nvlink_errors(node: SimNode) -> str:
    """`nvidia-smi nvlink -e`, with the counters' names of driver 595."""
    lines: list[str] = []
    for index in range(node.hardware.gpus):
        lines.append(f"GPU {index}: {node.hardware.model} (UUID: {node.gpu_uuid(index)})")
        for link in range(node.hardware.ports):
            lines += [f"\t Link {link}: {counter}: 0" for counter in _COUNTERS]
    return "\n".join([*lines, ""])


def smi_fabric(node: SimNode) -> str:
    """Return the fabric part of `nvidia-smi -q`."""
    lines = [
        "==============NVSMI LOG==============",
        "",
        f"Attached GPUs                             : {node.hardware.gpus}",
    ]
    for index in range(node.hardware.gpus):
        lines += [f"GPU 0000{bdf(index)}".upper(), *_fabric_lines(node)]
    return "\n".join([*lines, ""])


def _fabric_lines(node: SimNode) -> list[str]:
    if node.fabric is None:
        return ["    Fabric", _field("State", "N/A"), _field("Status", "N/A")]
    return [
        "    Fabric",
        _field("State", "Completed"),
        _field("Status", "Success"),
        _field("CliqueId", str(node.fabric.clique)),
        _field("ClusterUUID", node.fabric.cluster_uuid),
        "        Health",
        "            Summary                       : Healthy",
        "            Bandwidth                     : Full",
        "            Route Recovery in progress    : False",
        "            Route Unhealthy               : False",
        "            Access Timeout Recovery       : False",
    ]


def _field(name: str, value: str) -> str:
    return f"        {name:<34}: {value}"


def _device(node: SimNode, index: int) -> dict[str, object]:
    return {
        "index": index,
        "uuid": node.gpu_uuid(index),
        "bdf": bdf(index),
        "name": node.hardware.model,
        "memory_bytes": node.hardware.memory_bytes,
        "numa": numa(node, index),
        "fabric": _fabric(node),
        "platform": _platform(node, index),
        "links": [
            {"link": link, "state": _LINK_UP, "remote_bdf": None, "remote_type": _REMOTE_SWITCH}
            for link in range(node.hardware.ports)
        ],
    }


def _fabric(node: SimNode) -> dict[str, object] | None:
    if node.fabric is None:
        return None
    return {
        "version": 3,
        "state": FABRIC_COMPLETED,
        "status": NVML_SUCCESS,
        "cluster_uuid": node.fabric.cluster_uuid,
        "clique": node.fabric.clique,
        "health_mask": HEALTHY_MASK,
        "summary": SUMMARY_HEALTHY,
    }


def _platform(node: SimNode, index: int) -> dict[str, object] | None:
    if node.fabric is None:
        return None
    return {
        "chassis_serial": node.fabric.rack,
        "slot": node.fabric.tray + 1,
        "tray": node.fabric.tray,
        "host": 1,
        "peer_type": 1,
        "module": index + 1,
        "ib_guid": None,
    }
