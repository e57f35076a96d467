"""Simulated clusters: who is wired to whom in machines that exist, as plain frozen values.

A `World` is the ground truth that everything else of the simulation derives from: the recordings
that workers replay (`topo.sim.bundles`), the cluster manager's view (`managed_topology`), and
what a test expects to come out. Nothing here is random: the same call gives the same world, so
server UUIDs and addresses are hashes of names.

Sizes follow published systems: C500X optical dragonflies of 2, 4 and 8 hosts, the 2x2 C550 cube
(each host sees a neighbour in X and one in Y), NVL72 racks of 18 trays with 4 GPUs, Atlas 900 A3
servers of 8 chips with two dies each (a super pod has up to 24 of them, ours 4).
"""

import ipaddress
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from topo.model.forest import Status
from topo.model.ids import SWITCHBOX, BootId, GpuUuid, GroupName, NodeName, ServerUuid
from topo.model.machine import NodeIdentity
from topo.model.observation import ManagedGroup, ManagedMachine, ManagedTopology

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "supernode-topology.sim")
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Hardware:
    """What one host is built of: `gpus` GPUs in full meshes of `island`, `ports` links per GPU.

    `model` is the name that the vendor's library gives; GPUs spread evenly over `numa_nodes`.
    """

    maker: Literal["metax", "nvidia", "ascend"]
    model: str
    gpus: int
    island: int
    ports: int
    memory_bytes: int
    numa_nodes: int = 2
    nics: int = 4


C500X = Hardware("metax", "MXC500", gpus=8, island=4, ports=7, memory_bytes=64 * _GIB)
"""An optical host: three ports of a GPU stay on its board, the others may leave the host."""
C550 = Hardware("metax", "MXC550", gpus=8, island=8, ports=7, memory_bytes=64 * _GIB, numa_nodes=4)
GB200 = Hardware("nvidia", "NVIDIA GB200", gpus=4, island=4, ports=18, memory_bytes=189471 << 20)
A3 = Hardware("ascend", "Ascend910", gpus=16, island=16, ports=0, memory_bytes=64 * _GIB, nics=0)
"""Its NPUs are the dies; their ports are not the host's."""


@dataclass(frozen=True, slots=True)
class SimFabric:
    """The NVLink domain that a host's GPUs belong to."""

    cluster_uuid: str
    clique: int
    rack: str
    tray: int


@dataclass(frozen=True, slots=True)
class SimSuperPod:
    """The super pod that a host's NPUs belong to, of `size` NPUs; `server` is the host in it."""

    number: int
    server: int
    size: int


@dataclass(frozen=True, slots=True)
class SimNode:
    """One host. `peers` holds the neighbours' server UUIDs by remote slot, slot 1 first.

    `switchbox` and `dragonfly` say where the host truly is; no probe of the host prints them.
    """

    name: NodeName
    number: int
    hardware: Hardware
    server_uuid: ServerUuid | None = None
    peers: tuple[ServerUuid, ...] = ()
    switchbox: GroupName | None = None
    dragonfly: GroupName | None = None
    fabric: SimFabric | None = None
    super_pod: SimSuperPod | None = None

    @property
    def identity(self) -> NodeIdentity:
        """The names of this host, all derived from its name and number."""
        return NodeIdentity(
            name=self.name,
            boot_id=BootId(_uuid("boot", self.name)),
            hostname=self.name,
            internal_ip=str(ipaddress.IPv4Address("10.0.0.0") + self.number),
            system_uuid=_uuid("system", self.name),
        )

    def gpu_uuid(self, index: int) -> GpuUuid:
        """Return the UUID of one GPU, in the vendors' form."""
        return GpuUuid(f"GPU-{_uuid('gpu', f'{self.name}/{index}')}")


@dataclass(frozen=True, slots=True)
class World:
    """A simulated cluster: its hosts in the order of their numbers."""

    name: str
    nodes: tuple[SimNode, ...]


def world(
    switchboxes: int, dragonflies: int, nodes_per_dragonfly: int, gpus: int = 8, *, stem: str = ""
) -> World:
    """Return a MetaX cluster: `dragonflies` per switchbox, `nodes_per_dragonfly` hosts in each.

    With `switchboxes=0` the dragonflies stand alone. Names count through the whole cluster
    (`node-7`); `stem` goes before the number (`node-sample7`). O(nodes).
    """
    hardware = replace(C500X, gpus=gpus)
    nodes: list[SimNode] = []
    for box in range(max(switchboxes, 1)):
        switchbox = GroupName(f"switchbox-{stem}{box + 1}") if switchboxes else None
        for fly in range(dragonflies):
            dragonfly = GroupName(f"dragonfly-{stem}{box * dragonflies + fly + 1}")
            first = len(nodes) + 1
            numbers = range(first, first + nodes_per_dragonfly)
            members = _dragonfly([NodeName(f"node-{stem}{n}") for n in numbers], first, hardware)
            nodes += [replace(m, switchbox=switchbox, dragonfly=dragonfly) for m in members]
    return World(f"metax-{max(switchboxes, 1)}x{dragonflies}x{nodes_per_dragonfly}", tuple(nodes))


def nvlink_world(racks: int, trays: int, *, cliques: int = 1) -> World:
    """NVLink racks: every rack has a cluster UUID of its own, its trays share `cliques` evenly."""
    nodes = [
        SimNode(
            NodeName(f"node-{rack * trays + tray + 1}"),
            rack * trays + tray + 1,
            GB200,
            fabric=SimFabric(
                _uuid("fabric", str(rack)),
                32766 - tray * cliques // trays,
                f"18216242000{rack:02d}",
                tray,
            ),
        )
        for rack in range(racks)
        for tray in range(trays)
    ]
    return World(f"nvl-{racks}x{trays}x{GB200.gpus}", tuple(nodes))


def super_pod_world(pods: int, servers: int) -> World:
    """Ascend super pods of A3 servers, numbered from 0 as their management does."""
    nodes = [
        SimNode(
            NodeName(f"node-{pod * servers + server + 1}"),
            pod * servers + server + 1,
            A3,
            super_pod=SimSuperPod(pod, server, servers * A3.gpus),
        )
        for pod in range(pods)
        for server in range(servers)
    ]
    return World(f"ascend-{pods}x{servers}x{A3.gpus}", tuple(nodes))


def demo_world() -> World:
    """Two switchboxes x two dragonflies x two hosts of 8 GPUs: node-sample1 … node-sample8."""
    return replace(world(2, 2, 2, 8, stem="sample"), name="demo")


def _cube() -> World:
    plain = world(0, 1, 4)
    return replace(plain, nodes=tuple(replace(n, hardware=C550) for n in plain.nodes))


_PRESETS: Mapping[str, Callable[[], World]] = MappingProxyType(
    {
        "demo": demo_world,
        "metax-c500-2x8": lambda: world(0, 1, 2),
        "metax-c550-cube-4x8": _cube,
        "metax-8x8": lambda: world(0, 1, 8),
        "nvl72-18x4": lambda: nvlink_world(1, 18),
        "nvl36x2-18x4": lambda: nvlink_world(1, 18, cliques=2),
        "ascend-a3-2x4x16": lambda: super_pod_world(2, 4),
    }
)
PRESET_NAMES = tuple(_PRESETS)
"""The names that `preset` knows, `demo` first."""


def preset(name: str) -> World | None:
    """Return the world of that name, None where no preset is called so."""
    make = _PRESETS.get(name)
    return None if make is None else replace(make(), name=name)


def managed_topology(world: World) -> ManagedTopology:
    """What a healthy cluster manager says of the world: its switchboxes and the machines in them.

    The manager knows machines by host name, address, board UUID and server UUID, not by the
    Kubernetes node name; dragonflies are the workers' business and are not listed.
    """
    boxes = dict.fromkeys(node.switchbox for node in world.nodes if node.switchbox is not None)
    ids = {box: f"box-{number}" for number, box in enumerate(boxes, start=1)}
    return ManagedTopology(
        groups=tuple(ManagedGroup(id=ids[box], name=box, kind=SWITCHBOX) for box in boxes),
        machines=tuple(
            ManagedMachine(
                id=f"machine-{node.number}",
                names=_manager_names(node),
                group_id=ids[node.switchbox] if node.switchbox is not None else None,
                status=Status.READY,
            )
            for node in world.nodes
        ),
    )


def _manager_names(node: SimNode) -> tuple[tuple[str, str], ...]:
    keys = ("hostname", "internal_ip", "system_uuid")
    named = tuple((key, getattr(node.identity, key)) for key in keys)
    return named if node.server_uuid is None else (*named, ("server_uuid", node.server_uuid))


def _dragonfly(names: list[NodeName], first: int, hardware: Hardware) -> list[SimNode]:
    """Hosts wired as their number asks: a pair, the 2x2 of the cube, else a ring.

    Four hosts sit on a square; slot 1 is the neighbour in Y and slot 2 the one in X, as the
    public FabricNode records of a C550 cube show them.
    """
    uuids = [ServerUuid(_uuid("server", name)) for name in names]
    count = len(names)

    def peers(at: int) -> tuple[ServerUuid, ...]:
        if count == 4:
            return uuids[at ^ 2], uuids[at ^ 1]
        around = dict.fromkeys(((at + 1) % count, (at - 1) % count))
        return tuple(uuids[other] for other in around if other != at)

    return [
        SimNode(name, first + at, hardware, server_uuid=uuids[at], peers=peers(at))
        for at, name in enumerate(names)
    ]


def _uuid(what: str, name: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, f"{what}/{name}"))
