"""Worlds of hosts whose adapters beside GPUs are on leaves, told by LLDP or by a dump."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.builders import facts
from tests.discovery.fabrics import dumped, fours
from tests.support.fabric import Fabric
from topo.model.ids import Bdf
from topo.model.machine import Link, LinkKind, LinkMatrix, NetworkPort, NicNeighbour
from topo.model.observation import Event, WorkerReported

GPUS = 8
NEAR, FAR = Link(LinkKind.PIX, "PIX"), Link(LinkKind.SYSTEM, "SYS")


@dataclass
class World:
    """Of each host the leaf of each adapter; of all hosts the GPUs beside each adapter.

    `cards`: of all hosts the PCI address of each adapter; every adapter is one of its own without.
    """

    beside: Sequence[tuple[int, ...]]
    cards: Sequence[str] = ()
    leaves: dict[str, list[str]] = field(default_factory=dict)
    wrong: dict[str, set[int]] = field(default_factory=dict)
    """The adapters of each host that are on a wrong rail."""

    def address(self, adapter: int) -> str:
        """The PCI address of an adapter."""
        return self.cards[adapter] if self.cards else f"0000:{adapter:02x}:00.0"

    def exchange(self, host: str, one: int, other: int) -> None:
        """Plug the cables of two adapters each into the leaf of the other one."""
        leaves = self.leaves[host]
        leaves[one], leaves[other] = leaves[other], leaves[one]
        self.wrong[host] = {one, other}


def matrix(beside: Sequence[tuple[int, ...]]) -> LinkMatrix:
    """A matrix in which adapter i is near these GPUs."""
    size = GPUS + len(beside)
    rows = tuple(
        tuple(
            NEAR
            if b >= GPUS and a in beside[b - GPUS]
            else FAR
            if a != b
            else Link(LinkKind.SELF, "X")
            for b in range(size)
        )
        for a in range(GPUS)
    )
    nics = tuple(f"mlx5_{at}" for at in range(len(beside)))
    return LinkMatrix(tuple(f"GPU{at}" for at in range(GPUS)), nics, rows)


def by_lldp(world: World) -> list[WorkerReported]:
    """A report for each host, which sees its leaves; and a switch of management."""
    shown = matrix(world.beside)
    events: list[WorkerReported] = []
    for host, leaves in world.leaves.items():
        nics = [
            NetworkPort(f"mlx5_{n}", 1, up=True, interfaces=(f"eth{n}",), bdf=Bdf(world.address(n)))
            for n in range(len(leaves))
        ]
        ends = [
            NicNeighbour(f"eth{n}", f"mac {leaf}", leaf, f"swp-{host}-{n}")
            for n, leaf in enumerate(leaves)
        ]
        ends.append(NicNeighbour("mgmt0", "mac management", "management", "1"))
        said = replace(facts(host), matrix=shown, nics=tuple(nics), nic_neighbours=tuple(ends))
        events.append(WorkerReported(said))
    return events


def by_infiniband(world: World) -> list[Event]:
    """A dump, and a report for each host with the GUIDs of its adapters."""
    shown, fabric = matrix(world.beside), Fabric()
    spine = fabric.switch("spine", ports=513)
    switches = {
        leaf: fabric.switch(leaf)
        for leaf in sorted({x for found in world.leaves.values() for x in found})
    }
    for switch in switches.values():
        fabric.trunk(switch, spine)
    events: list[Event] = []
    for host, leaves in world.leaves.items():
        guids = [fabric.adapter(f"{host} mlx5_{n}") for n in range(len(leaves))]
        for guid, leaf in zip(guids, leaves, strict=True):
            fabric.plug(guid, switches[leaf])
        nics = [
            NetworkPort(f"mlx5_{n}", 1, up=True, node_guid=fours(guid), bdf=Bdf(world.address(n)))
            for n, guid in enumerate(guids)
        ]
        events.append(WorkerReported(replace(facts(host), matrix=shown, nics=tuple(nics))))
    return [dumped(fabric.dump(spine)), *events]


def wired(
    units: Mapping[str, Sequence[str]], rails: int, planes: int, each: int, shared: int = 1
) -> World:
    """Units in which each rail has a leaf for each plane.

    Each rail has a card of a port for each plane; beside `each` GPUs there are `shared` cards.
    """
    ends = [(rail, plane) for rail in range(rails) for plane in range(planes)]
    first = [rail // shared * each for rail, _ in ends]
    cards = [f"0000:{rail:02x}:00.{plane}" for rail, plane in ends]
    world = World([tuple(range(at, at + each)) for at in first], cards)
    for unit, hosts in units.items():
        for host in hosts:
            world.leaves[host] = [f"{unit}-leaf-{rail:02}-{plane}" for rail, plane in ends]
    return world
