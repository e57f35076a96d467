"""Small worlds for tests: nodes, cables and managers in one line each."""

from collections.abc import Iterable

from topo.discovery.modes import DiscoverySettings, Mode
from topo.discovery.state import Discovery
from topo.model.forest import Group, Node, Status
from topo.model.ids import BootId, GroupName, Kind, NodeName, ServerUuid
from topo.model.machine import (
    Gpu,
    GpuFabric,
    NodeFacts,
    NodeIdentity,
    Peer,
    ServerPeers,
)
from topo.model.observation import (
    DeclaredForest,
    DeclaredGroup,
    DeclaredNode,
    ManagedGroup,
    ManagedMachine,
    ManagedTopology,
    WorkerReported,
)


def server(node: str) -> ServerUuid:
    """The server UUID of a node of this world."""
    return ServerUuid(f"server-of-{node}")


def facts(
    node: str,
    peers: Iterable[str] = (),
    *,
    boot: str = "boot-1",
    gpus: int = 8,
    sick: Iterable[int] = (),
    local: ServerUuid | None = None,
    unplugged: Iterable[str] = (),
) -> NodeFacts:
    """A node that sees `peers` (node names), with `unplugged` ones named but not connected."""
    out = set(unplugged)
    remotes = tuple(
        Peer(slot, server(peer), connected=False if peer in out else None)
        for slot, peer in enumerate(peers, start=1)
    )
    ill = set(sick)
    return NodeFacts(
        identity=NodeIdentity(NodeName(node), BootId(boot), hostname=node),
        gpus=tuple(Gpu(i, healthy=i not in ill) for i in range(gpus)),
        peers=ServerPeers(local or server(node), remotes),
    )


def fabric_facts(node: str, cluster: str, clique: int = 1, gpus: int = 4) -> NodeFacts:
    """A node whose GPUs all state one NVLink domain."""
    fabrics = tuple(
        GpuFabric(i, "Completed", "Success", cluster or None, clique) for i in range(gpus)
    )
    identity = NodeIdentity(NodeName(node), BootId("boot-1"))
    return NodeFacts(identity, tuple(Gpu(i) for i in range(gpus)), fabrics=fabrics)


def report(node: str, peers: Iterable[str] = (), **more: object) -> WorkerReported:
    """The event of one reading."""
    return WorkerReported(facts(node, peers, **more))  # type: ignore[arg-type]


def ring(names: list[str]) -> list[WorkerReported]:
    """Nodes cabled in a ring (a pair for two): each sees its neighbours."""
    if len(names) == 2:
        return [report(names[0], [names[1]]), report(names[1], [names[0]])]
    return [
        report(name, [names[i - 1], names[(i + 1) % len(names)]]) for i, name in enumerate(names)
    ]


def managed(switchboxes: dict[str, list[str]]) -> ManagedTopology:
    """A manager that knows switchboxes and the nodes in them by name."""
    groups = tuple(
        ManagedGroup(f"id-{name}", GroupName(name), Kind("switchbox")) for name in switchboxes
    )
    machines = tuple(
        ManagedMachine(f"machine-{node}", (("node_name", node),), f"id-{name}")
        for name, nodes in switchboxes.items()
        for node in nodes
    )
    return ManagedTopology(groups, machines)


def declared(switchboxes: dict[str, dict[str, list[str]]]) -> DeclaredForest:
    """A config file of switchbox → dragonfly → nodes."""
    return DeclaredForest(
        tuple(
            DeclaredGroup(
                GroupName(box),
                Kind("switchbox"),
                tuple(
                    DeclaredGroup(
                        GroupName(fly),
                        Kind("dragonfly"),
                        tuple(DeclaredNode(NodeName(n)) for n in nodes),
                    )
                    for fly, nodes in flies.items()
                ),
            )
            for box, flies in switchboxes.items()
        )
    )


def discovery(mode: Mode = Mode.DRAGONFLY, **settings: object) -> Discovery:
    """A discovery state in a mode."""
    return Discovery(DiscoverySettings(mode, **settings))  # type: ignore[arg-type]


def shape(state: Discovery) -> dict[str, list[str]]:
    """Which nodes stand in which group: path → node names, unplaced ones under an empty path."""
    found: dict[str, list[str]] = {}
    for above, vertex in state.snapshot.forest.walk():
        if isinstance(vertex, Node):
            found.setdefault("/".join(above), []).append(vertex.name)
    for entry in state.snapshot.forest.unplaced:
        found.setdefault("", []).append(entry.node.name)
    return found


def together(state: Discovery) -> set[frozenset[str]]:
    """The sets of nodes that share an innermost group."""
    return {frozenset(nodes) for path, nodes in shape(state).items() if path}


def nodes(state: Discovery) -> dict[str, Node]:
    """All nodes of the forest by name, unplaced ones included."""
    forest = state.snapshot.forest
    placed = [v for _, v in forest.walk() if isinstance(v, Node)]
    return {node.name: node for node in [*placed, *(u.node for u in forest.unplaced)]}


def groups(state: Discovery) -> dict[str, Group]:
    """All groups of the forest by path."""
    return {
        "/".join((*above, v.name)): v
        for above, v in state.snapshot.forest.walk()
        if isinstance(v, Group)
    }


def not_ready(state: Discovery) -> set[str]:
    """The names of the nodes that are NotReady."""
    return {n for n, node in nodes(state).items() if node.status is Status.NOT_READY}


def codes(state: Discovery) -> set[str]:
    """The codes of the conflicts listed."""
    return {c.code for c in state.snapshot.forest.conflicts}


def why(state: Discovery, node: str) -> str:
    """The reasons of a node in one line."""
    return "; ".join(reason.text for reason in nodes(state)[node].reasons)


def listed(state: Discovery, code: str) -> tuple[str, ...]:
    """The subjects of the one conflict of that code."""
    (found,) = [c for c in state.snapshot.forest.conflicts if c.code == code]
    assert found.text
    assert found.fix
    return found.subjects
