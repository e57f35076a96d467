"""PCI addresses, NUMA nodes and CPU lists of a simulated host, as all of its tools show them."""

from topo.sim.worlds.presets import SimNode


def bdf(index: int) -> str:
    """Return the PCI address of the index-th GPU: four to a bus segment, 28 to a PCI domain."""
    domain, place = divmod(index, 28)
    return f"{domain:04x}:{0x0E + place // 4 * 32 + place % 4:02x}:00.0"


def numa(node: SimNode, index: int) -> int:
    """Return the NUMA node of a GPU: GPUs spread evenly, in order."""
    return index * node.hardware.numa_nodes // node.hardware.gpus


def cpus(numa_node: int) -> str:
    """Return the CPU list of a NUMA node of 32 cores with two threads each."""
    first = numa_node * 32
    return f"{first}-{first + 31},{first + 512}-{first + 543}"
