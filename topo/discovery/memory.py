"""What survives a restart: the judgement so far, without the bulk that workers send again."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from topo.discovery.groups.fabric.uplinks import GoneCable
from topo.discovery.groups.membership import Membership
from topo.discovery.groups.naming import NameRecord
from topo.discovery.modes import DiscoverySettings
from topo.discovery.node.memory import NodeMemory
from topo.discovery.suspicion.memory import SuspicionMemory
from topo.model.forest import PathGroup
from topo.model.ids import Generation, GroupName, Kind, NodeName
from topo.model.observation import FABRIC, DeclaredForest, ListedNode, ManagedTopology

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Memory:
    """Everything that `Discovery.restore` needs; about 700 bytes of JSON a node."""

    format: int
    generation: Generation
    nodes: tuple[NodeMemory, ...]
    links: tuple[tuple[NodeName, NodeName], ...]
    names: tuple[NameRecord, ...]
    topology: ManagedTopology | None
    declared: DeclaredForest | None
    cluster_nodes: tuple[ListedNode, ...] = ()
    label_family: str = ""
    fabric: tuple[tuple[NodeName, tuple[tuple[Kind, GroupName], ...]], ...] = ()
    suspicions: SuspicionMemory | None = None
    gone_cables: tuple[GoneCable, ...] = ()


def membership_of(memory: Memory, settings: DiscoverySettings) -> Membership:
    """Return the membership that begins with what was kept, before anything is stated."""
    paths = {
        node: tuple(PathGroup(kind, name, name, FABRIC) for kind, name in groups)
        for node, groups in memory.fabric
    }
    membership = Membership(settings, memory.names, memory.label_family, paths)
    membership.fabric.uplinks.restore(memory.gone_cables)
    return membership


def memory_of(
    generation: Generation,
    nodes: tuple[NodeMemory, ...],
    cluster: Iterable[ListedNode],
    membership: Membership,
    *,
    suspicions: SuspicionMemory,
) -> Memory:
    """Return what is kept of these nodes, of the cluster's, and of all statements. O(nodes)."""
    topology, labelled = membership.machines.topology, membership.labelled
    return Memory(
        format=FORMAT,
        generation=generation,
        nodes=nodes,
        links=tuple(membership.wiring.edges()),
        names=membership.names,
        topology=topology if topology.groups or topology.machines else None,
        declared=membership.declared.forest,
        cluster_nodes=tuple(
            replace(each, labels=labelled.counted(each.name, each.labels)) for each in cluster
        ),
        label_family=labelled.followed,
        suspicions=suspicions,
        gone_cables=membership.fabric.uplinks.gone(),
        fabric=tuple(
            (node, tuple((group.kind, group.name) for group in path))
            for node, path in sorted(membership.fabric.paths.items())
        ),
    )
