"""What sysfs would show on a simulated host, as the lines `path: content` that our probe writes."""

from types import MappingProxyType

from topo.sim.probe_outputs.addresses import bdf, cpus, numa
from topo.sim.worlds.presets import SimNode

_VENDORS = MappingProxyType({"metax": "0x9999", "nvidia": "0x10de"})
_CLASS = "0x030200"
"""3D controller."""


def pci(node: SimNode) -> str:
    """GPUs under /sys/bus/pci/devices, each behind a bridge of its own."""
    lines: list[str] = []
    for index in range(node.hardware.gpus):
        address, home = bdf(index), numa(node, index)
        root = f"/sys/bus/pci/devices/{address}"
        lines += [
            f"{root}/class: {_CLASS}",
            f"{root}/device: 0x4001",
            f"{root}/local_cpulist: {cpus(home)}",
            f"{root}/numa_node: {home}",
            f"{root}/realpath: {_chain(address, home)}",
            f"{root}/vendor: {_VENDORS[node.hardware.maker]}",
        ]
    return "\n".join([*lines, ""])


def infiniband(node: SimNode) -> str:
    """NICs under /sys/class/infiniband: RoCE beside MetaX GPUs, InfiniBand beside NVIDIA ones."""
    roce = node.hardware.maker == "metax"
    lines: list[str] = []
    for nic in range(node.hardware.nics):
        name = f"xscale_{nic}" if roce else f"mlx5_{nic}"
        root = f"/sys/class/infiniband/{name}"
        home = nic * node.hardware.numa_nodes // node.hardware.nics
        address = f"0000:{0xC0 + nic:02x}:00.0"
        lines += [
            f"{root}/device/numa_node: {home}",
            f"{root}/device/realpath: {_chain(address, home)}",
            f"{root}/node_guid: {node.number:04x}:00ff:fe00:{nic:04x}",
            f"{root}/ports/1/link_layer: {'Ethernet' if roce else 'InfiniBand'}",
            f"{root}/ports/1/phys_state: 5: LinkUp",
            f"{root}/ports/1/rate: {'200 Gb/sec (4X HDR)' if roce else '400 Gb/sec (4X NDR)'}",
            f"{root}/ports/1/state: 4: ACTIVE",
        ]
    return "\n".join([*lines, ""])


def _chain(address: str, home: int) -> str:
    domain, bus, _ = address.split(":")
    return f"/sys/devices/pci{domain}:{home:02x}/{domain}:{home:02x}:{bus[1]}.0/{address}"
