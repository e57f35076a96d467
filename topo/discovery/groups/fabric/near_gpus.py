"""Which GPUs of its node each network adapter is nearest to, as the link matrix says.

Result: for each adapter, and each interface of one, the numbers of the GPUs at its least distance
over PCIe. Equal distances are all the nearest: four adapters for eight GPUs have two each. Where no
distance is known, or every GPU is across a socket (on a GB200 no GPU is on the adapters' PCIe), it
is near the GPUs of its NUMA node; one without GPUs there is near none, most likely for management.

Cost: O(GPUs * adapters) for a matrix, which equal hosts share; else the same for a node.

Example: mlx5_0 prints PIX to GPU 0 and NODE to GPU 1, mlx5_1 NODE to both, mlx5_2 SYS to both, and
is on a NUMA node without a GPU. They are near GPU 0, near GPUs 0 and 1, and near none.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from topo.discovery.groups.fabric.switch_ports import interface_id
from topo.discovery.node.per_object import once_per_object
from topo.facts.vendors import device
from topo.model.fabric import Guid, normalized_guid
from topo.model.ids import NodeName
from topo.model.machine import Gpu, LinkKind, LinkMatrix, NetworkPort, NodeFacts

_BY_DISTANCE = (LinkKind.PIX, LinkKind.PXB, LinkKind.PHB, LinkKind.NUMA_NODE)
"""The nearest first; SYS crosses sockets."""
_ETHERNET = "Ethernet"
"""Such a port is in no dump. Source: `link_layer` of ABI/stable/sysfs-class-infiniband."""


class NearAdapter(NamedTuple):
    """An adapter or an interface of one: the identity that its cable has, its names, its GPUs.

    `interface` is empty for the adapter itself, `name` where no adapter is known for an interface.
    `card` is the PCI address that its ports have in common, empty where it is not known. `gbps` is
    its speed as the host reads it, 0 while it is down.
    """

    identity: Guid
    name: str
    interface: str
    gpus: tuple[int, ...]
    card: str = ""
    gbps: float = 0.0


def near_adapters(node: NodeName, facts: NodeFacts) -> tuple[NearAdapter, ...]:
    """Return the adapters of a node and their interfaces, virtual functions left out."""
    near = {} if facts.matrix is None else near_gpus(facts.matrix)
    speeds = adapter_speeds(facts.nics)
    found: dict[NearAdapter, None] = {}
    for nic in facts.nics:
        if nic.virtual:
            continue
        gpus = near.get(nic.hca) or _of_numa_node(nic.numa, facts.gpus)
        card = (nic.bdf or "").partition(".")[0]
        guid = None if nic.link_layer == _ETHERNET else normalized_guid(nic.node_guid)
        ends = [(guid, "")] if guid is not None else []
        ends += [(interface_id(node, name), name) for name in nic.interfaces]
        for identity, name in ends:
            near_it = NearAdapter(identity, nic.hca, name, gpus, card, speeds[nic.hca])
            found[near_it] = None
    return tuple(found)


def adapter_speeds(nics: Iterable[NetworkPort]) -> dict[str, float]:
    """Return the Gbit/s of each adapter by its name, 0 where its ports are down or differ.

    Of an adapter with several ports nobody says which interface is whose.
    """
    found: dict[str, float] = {}
    for nic in nics:
        speed = nic.rate_gbps or 0.0 if nic.up else 0.0
        found[nic.hca] = speed if found.get(nic.hca, speed) == speed else 0.0
    return found


def _of_numa_node(numa: int | None, gpus: Iterable[Gpu]) -> tuple[int, ...]:
    return () if numa is None else tuple(gpu.index for gpu in gpus if gpu.numa == numa)


@once_per_object
def near_gpus(matrix: LinkMatrix) -> Mapping[str, tuple[int, ...]]:
    """Return the numbers of the GPUs nearest to each adapter of a matrix, by its name."""
    numbers = [device(name) for name in matrix.gpus]
    size = len(numbers)
    found: dict[str, tuple[int, ...]] = {}
    for at, name in enumerate(matrix.nics, start=size):
        kinds = [
            (row[at].kind, number[1])
            for number, row in zip(numbers, matrix.links, strict=False)
            if number is not None and at < len(row)
        ]
        least = next((k for k in _BY_DISTANCE if any(kind is k for kind, _ in kinds)), None)
        found[name] = tuple(sorted(number for kind, number in kinds if kind is least))
    return found
