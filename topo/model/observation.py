"""Facts and events as the sources state them, before discovery judges them."""

from dataclasses import dataclass
from enum import StrEnum

from topo.model.conditions.tree import ConflictCondition
from topo.model.errors import Refusal
from topo.model.fabric import FabricDump
from topo.model.forest import SourceWarning, Status
from topo.model.ids import GroupName, Kind, NodeName, SourceName
from topo.model.machine import (
    Gpu,
    GpuFabric,
    LinkCount,
    LinkErrors,
    LinkMatrix,
    LinkPort,
    NetworkPort,
    NicNeighbour,
    NodeFacts,
    PortErrors,
    ServerPeers,
)

CONFIG_FILE = SourceName("config-file")
CLUSTER_MANAGER = SourceName("cluster-manager")
WORKERS = SourceName("workers")
CLUSTER_NODES = SourceName("cluster-nodes")
FABRIC = SourceName("fabric")


@dataclass(frozen=True, slots=True)
class DeclaredNode:
    """A leaf of a written file; `status=None` when it was left out."""

    name: NodeName
    status: Status | None = None


@dataclass(frozen=True, slots=True)
class DeclaredGroup:
    """A group of a written file, with its children in the order written."""

    name: GroupName
    kind: Kind
    children: "tuple[DeclaredGroup | DeclaredNode, ...]" = ()
    status: Status | None = None


@dataclass(frozen=True, slots=True)
class DeclaredForest:
    """The body of `nodegroup.yaml`; bare nodes at the root are nodes in no group."""

    roots: tuple[DeclaredGroup | DeclaredNode, ...] = ()


ProbeFact = (
    LinkMatrix
    | ServerPeers
    | DeclaredForest
    | FabricDump
    | tuple[Gpu, ...]
    | tuple[LinkPort, ...]
    | tuple[LinkErrors, ...]
    | tuple[PortErrors, ...]
    | tuple[GpuFabric, ...]
    | tuple[NetworkPort, ...]
    | tuple[NicNeighbour, ...]
)
"""What one probe output can state. Empty tuples are not stated: a parser leaves them out."""


@dataclass(frozen=True, slots=True)
class ParsedProbe:
    """One parsed probe output: the name of its format, the facts, the warnings.

    `absent_links`: what it says of GPUs in place of a list of links, which makes no fact.
    """

    format: str
    facts: tuple[ProbeFact, ...]
    warnings: tuple[str, ...] = ()
    absent_links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ManagedGroup:
    """A group as the cluster manager states it; `id` is the manager's own key."""

    id: str
    name: GroupName
    kind: Kind
    parent_id: str | None = None


@dataclass(frozen=True, slots=True)
class ManagedMachine:
    """A machine as the cluster manager states it: its names, its group, its health if said.

    `names` maps a join key (`node_name`, `hostname`, `internal_ip`, `provider_id`,
    `system_uuid`, `server_uuid`) to the manager's value for it.
    """

    id: str
    names: tuple[tuple[str, str], ...]
    group_id: str | None = None
    status: Status | None = None


@dataclass(frozen=True, slots=True)
class ManagedTopology:
    """One full answer of a cluster manager."""

    groups: tuple[ManagedGroup, ...] = ()
    machines: tuple[ManagedMachine, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigLoaded:
    """Event: the configured forest was read and is valid."""

    declared: DeclaredForest


@dataclass(frozen=True, slots=True)
class FabricLoaded:
    """Event: the dumps of a switched fabric were read, all that there are, by their names."""

    dumps: tuple[tuple[str, FabricDump], ...]


@dataclass(frozen=True, slots=True)
class ManagerReported:
    """Event: the cluster manager gave a full, valid answer (or events were applied to one)."""

    topology: ManagedTopology


@dataclass(frozen=True, slots=True)
class WorkerReported:
    """Event: one reading of a node. Sent for a full report and for every change."""

    facts: NodeFacts


@dataclass(frozen=True, slots=True)
class WorkerBeat:
    """Event: one more reading of a node, equal to the one before."""

    node: NodeName


@dataclass(frozen=True, slots=True)
class WorkerRefused:
    """Event: a report was not accepted; `code` is that of a conflict, the rest is for people."""

    node: NodeName
    code: ConflictCondition
    text: str
    fix: str = "see the log of the refused worker"


@dataclass(frozen=True, slots=True)
class LinksCounted:
    """Event: the counters of errors of a node's links that are not zero, all that there are."""

    node: NodeName
    counts: tuple[LinkCount, ...]


class OperatorAct(StrEnum):
    """What an operator decides about a node or a link, suspected or not."""

    QUARANTINE = "quarantine"
    CONFIRM = "confirm"
    CLEAR = "clear"


@dataclass(frozen=True, slots=True)
class OperatorDecided:
    """Event: an operator's word on a node, or on one link of it (`link`; empty: the whole node)."""

    node: NodeName
    act: OperatorAct
    link: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SourceFailed:
    """Event: a source gave no usable answer; what it said before stays.

    `refusal` says what is wrong and where, `fix` the next step.
    """

    source: SourceName
    refusal: str
    fix: str = ""

    @classmethod
    def of(cls, source: SourceName, refusal: Refusal) -> "SourceFailed":
        """Return the failure that a refusal describes."""
        return cls(source, f"{refusal.what} (at {refusal.where})", refusal.fix)


@dataclass(frozen=True, slots=True)
class SourceRecovered:
    """Event: a source answers again with nothing new to say."""

    source: SourceName


@dataclass(frozen=True, slots=True)
class SourceWarned:
    """Event: what is odd about a source although it may answer, in the place of what was before.

    It stands for `lasts_s` after it was said last (None: until the next such event).
    """

    source: SourceName
    warnings: tuple[SourceWarning, ...]
    lasts_s: float | None = None


@dataclass(frozen=True, slots=True)
class ListedNode:
    """A node as the cluster itself lists it (Kubernetes: a Node object).

    `not_ready` says in words why the cluster finds it not Ready, and is empty where it is Ready.
    `names` are join keys with the names that the cluster has for the node, as `ManagedMachine` has
    the manager's. `labels` are those that name groups, in order. `gpus` are those that pods may
    ask for, 0 where the cluster says nothing.
    """

    name: NodeName
    not_ready: str = ""
    names: tuple[tuple[str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class ClusterNodesListed:
    """Event: the cluster's own list of all its nodes.

    A node that only this list names is known, in no group until its worker speaks.
    """

    nodes: tuple[ListedNode, ...]


@dataclass(frozen=True, slots=True)
class ClusterNodesTold:
    """Event: some of a list that is about to come whole, so that it need not be taken at once.

    Nothing is known of nodes that are not in it, and the source has not answered yet.
    """

    nodes: tuple[ListedNode, ...]


@dataclass(frozen=True, slots=True)
class ClusterNodeSeen:
    """Event: the cluster lists a node that it did not list before, or says otherwise of it."""

    node: ListedNode


@dataclass(frozen=True, slots=True)
class ClusterNodeGone:
    """Event: the cluster no longer lists a node. It stays known while its worker speaks."""

    node: NodeName


@dataclass(frozen=True, slots=True)
class NodeRemoved:
    """Event: a node is gone for good; all that its worker and the cluster said is forgotten."""

    node: NodeName


@dataclass(frozen=True, slots=True)
class StoodStill:
    """Event: this process did not run for so long that a silence until now proves nothing."""


@dataclass(frozen=True, slots=True)
class Ticked:
    """Event: time passed and nothing else happened."""


Event = (
    ConfigLoaded
    | FabricLoaded
    | ManagerReported
    | WorkerReported
    | WorkerBeat
    | WorkerRefused
    | LinksCounted
    | OperatorDecided
    | SourceFailed
    | SourceRecovered
    | SourceWarned
    | ClusterNodesListed
    | ClusterNodesTold
    | ClusterNodeSeen
    | ClusterNodeGone
    | NodeRemoved
    | StoodStill
    | Ticked
)
