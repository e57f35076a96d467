"""The nodes that the cluster itself lists (Kubernetes: the Node objects), with or without a worker.

A node that the cluster lists is known, even if no worker ever reported it. A node that the cluster
listed and then dropped is known only as long as its worker reports.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from topo.model.conditions.tree import NodeCondition
from topo.model.errors import require
from topo.model.forest import Reason
from topo.model.ids import NodeName
from topo.model.observation import ListedNode

NOT_LISTED = Reason.of(NodeCondition.NOT_IN_CLUSTER)


class ClusterNodes:
    """The cluster's list, and what has left it since. Mutable; owned by the discovery state."""

    def __init__(self, listed: Iterable[ListedNode] = ()) -> None:
        self._listed = {node.name: node for node in listed}
        self._dropped: set[NodeName] = set()
        self.is_complete = bool(self._listed)
        """Whether the cluster has listed all of its nodes: any other is not among them."""

    @property
    def listed(self) -> AbstractSet[NodeName]:
        """The nodes that the cluster lists now."""
        return self._listed.keys()

    @property
    def statements(self) -> tuple[ListedNode, ...]:
        """What the cluster says of each node that it lists, in the order of their names."""
        return tuple(self._listed[name] for name in sorted(self._listed))

    def find(self, node: NodeName) -> ListedNode | None:
        """Return what the cluster says of a node; None where it does not list it."""
        return self._listed.get(node)

    def trouble(self, node: NodeName) -> Reason | None:
        """Return why no job can start on a node, as far as the cluster is concerned; None where one
        can.

        What the cluster says counts at once, down and up. It has waited already: a node is silent
        for 40 s or more before its condition says so. And who binds pods goes by the same.
        """
        listed = self._listed.get(node)
        if listed is None:
            return NOT_LISTED if self.is_complete else None
        return Reason(NodeCondition.NODE_NOT_READY, listed.not_ready) if listed.not_ready else None

    def replace(self, nodes: Iterable[ListedNode]) -> set[NodeName]:
        """Take a whole list; the nodes that came, went or are said to be otherwise. O(nodes)."""
        before, now = self._listed, {node.name: node for node in nodes}
        self._dropped = (self._dropped | before.keys()) - now.keys()
        self._listed, self.is_complete = now, True
        same = {name for name, node in now.items() if before.get(name) is node}
        rest = (before.keys() | now) - same
        return {name for name in rest if before.get(name) != now.get(name)}

    def put(self, node: ListedNode) -> set[NodeName]:
        """Take what is said of one node; its name where that is new."""
        if self._listed.get(node.name) == node:
            return set()
        self._listed[node.name] = node
        self._dropped.discard(node.name)
        return {node.name}

    def drop(self, node: NodeName) -> set[NodeName]:
        """Take a node out; itself where it was listed before."""
        if self._listed.pop(node, None) is None:
            return set()
        self._dropped.add(node)
        return {node}

    def has_dropped(self, node: NodeName) -> bool:
        """Return whether the cluster listed this node once and no longer does."""
        return node in self._dropped

    def forget(self, node: NodeName) -> None:
        """Drop what is kept of a node that left and that no worker reports."""
        self._dropped.discard(node)

    def validate(self, reporting: AbstractSet[NodeName]) -> None:
        """Check that a node is remembered as dropped only while a worker reports it."""
        require(self._dropped.isdisjoint(self._listed), "a node is both listed and dropped")
        require(self._dropped <= reporting, "a dropped node that no worker reports is remembered")
