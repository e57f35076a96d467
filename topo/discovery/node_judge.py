"""Where one node belongs and whether it is Ready, by what is known of all nodes.

Each question is asked for one node, reads what all share and changes nothing of it. So an error is
that of the node: it is in no group, or NotReady, with the error as its reason, until it is asked
again without one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from topo.discovery.groups.fabrics import Fabrics
from topo.discovery.groups.membership import Membership
from topo.discovery.groups.tiers import Position
from topo.discovery.modes import DiscoverySettings
from topo.discovery.node.cluster_nodes import ClusterNodes
from topo.discovery.node.record import NodeRecord
from topo.discovery.sources import REPORTED
from topo.discovery.tree import conflicts, node_status
from topo.discovery.tree.gpu_counts import GpuPlace, GroupGpuCounts, gpu_place
from topo.discovery.tree.node_status import NO_WORKER
from topo.discovery.tree.placed import PlacedNodes
from topo.model.forest import Conflict, Node
from topo.model.ids import NodeName
from topo.model.isolation import ObjectError, attempt


@dataclass(slots=True, kw_only=True)
class NodeJudge:
    """Answers by the indices of the discovery state, which owns it."""

    settings: DiscoverySettings
    fabrics: Fabrics
    membership: Membership
    cluster: ClusterNodes
    placed: PlacedNodes
    gpu_counts: GroupGpuCounts
    _place_errors: dict[NodeName, ObjectError] = field(default_factory=dict)
    _judge_errors: dict[NodeName, ObjectError] = field(default_factory=dict)

    @property
    def errors(self) -> Mapping[NodeName, ObjectError]:
        """The nodes of which the last answer was an error. O(such nodes)."""
        return {**self._judge_errors, **self._place_errors}

    def has_error(self, node: NodeName) -> bool:
        """Return whether the last answer about a node was an error."""
        return node in self._place_errors or node in self._judge_errors

    def forget(self, node: NodeName) -> None:
        """Forget the errors of a node."""
        self._place_errors.pop(node, None)
        self._judge_errors.pop(node, None)

    # -- answers, an error among them ---------------------------------------------------------

    def place(self, node: NodeName, record: NodeRecord | None) -> Position:
        """Return where a node belongs; in no group if that raises an error."""
        self._place_errors.pop(node, None)
        found = attempt(partial(self.position, node, record))
        if isinstance(found, ObjectError):
            self._place_errors[node] = found
            return Position((), node_status.unusable_report(found))
        return found

    def find_conflicts(self, node: NodeName, record: NodeRecord | None) -> tuple[Conflict, ...]:
        """Return the conflicts that a node owns; none if that raises an error."""
        found = attempt(partial(self.conflicts_of, record))
        if isinstance(found, ObjectError):
            self._place_errors[node] = found
            return ()
        return found

    def count_gpus(self, node: NodeName, record: NodeRecord | None) -> GpuPlace | None:
        """Return where the GPUs of a node count; nowhere if that raises an error."""
        self._judge_errors.pop(node, None)
        found = attempt(partial(self.gpu_place, node, record))
        if isinstance(found, ObjectError):
            self._judge_errors[node] = found
            return None
        return found

    def judge(self, node: NodeName, record: NodeRecord | None) -> Node:
        """Return a node as readers see it; NotReady if that raises an error."""
        found = attempt(partial(self.judged, node, record))
        if isinstance(found, ObjectError):
            self._judge_errors[node] = found
            return node_status.judge_unjudged(record, node, found)
        return found

    # -- what they are made of ------------------------------------------------------------------

    def is_named(self, node: NodeName) -> bool:
        """Return whether the config file or the cluster names this node."""
        return self.membership.declares(node) or node in self.cluster.listed

    def position(self, node: NodeName, record: NodeRecord | None) -> Position:
        """Return where a node belongs; one that only the cluster names waits for its worker."""
        membership, mode = self.membership, self.settings.mode
        waits = record is None and not membership.declares(node) and mode in REPORTED.needed_in
        return self.fabrics.position(membership, node, NO_WORKER if waits else None)

    def conflicts_of(self, record: NodeRecord | None) -> tuple[Conflict, ...]:
        """Return the conflicts that the node of a record owns."""
        if record is None:
            return ()
        return conflicts.of_node(self.membership, record, self.settings)

    def gpu_place(self, node: NodeName, record: NodeRecord | None) -> GpuPlace | None:
        """Return where the GPUs of a node count; None where nobody misses GPUs."""
        if "gpus" not in self.settings.missed:
            return None
        return gpu_place(record, self.placed.path(node))

    def judged(self, node: NodeName, record: NodeRecord | None) -> Node:
        """Return a node with its status and all reasons."""
        membership, settings = self.membership, self.settings
        of_cluster = self.cluster.trouble(node)
        if record is None:
            listed = self.cluster.find(node)
            gpus = 0 if listed is None else listed.gpus
            return node_status.judge_unreported(
                membership, settings, node, of_cluster=of_cluster, gpus=gpus
            )
        return node_status.judge_reported(
            membership,
            settings,
            record,
            of_cluster=of_cluster,
            missing_tier=self.placed.missing_tier(node),
            expected_gpus=self.gpu_counts.expected(node),
        )
