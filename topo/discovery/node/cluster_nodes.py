"""The nodes that the cluster itself lists (Kubernetes: the Node objects), with or without a worker.

A node that the cluster lists is known, even if no worker ever reported it. A node that the cluster
listed and then dropped is known only as long as its worker reports.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from topo.model.errors import require
from topo.model.ids import NodeName


class ClusterNodes:
    """The cluster's list, and what has left it since. Mutable; owned by the discovery state."""

    def __init__(self, listed: Iterable[NodeName] = ()) -> None:
        self._listed = set(listed)
        self._dropped: set[NodeName] = set()

    @property
    def listed(self) -> AbstractSet[NodeName]:
        """The nodes that the cluster lists now."""
        return self._listed

    def replace(self, nodes: Iterable[NodeName]) -> set[NodeName]:
        """Take a whole list; the nodes that came or went. O(nodes)."""
        now = set(nodes)
        changed = self._listed ^ now
        self._dropped = (self._dropped | self._listed) - now
        self._listed = now
        return changed

    def add(self, node: NodeName) -> set[NodeName]:
        """Take one more node; itself where it was not listed before."""
        come = {node} - self._listed
        self._listed |= come
        self._dropped -= come
        return come

    def drop(self, node: NodeName) -> set[NodeName]:
        """Take a node out; itself where it was listed before."""
        gone = {node} & self._listed
        self._listed -= gone
        self._dropped |= gone
        return gone

    def has_dropped(self, node: NodeName) -> bool:
        """Whether the cluster listed this node once and no longer does."""
        return node in self._dropped

    def forget(self, node: NodeName) -> None:
        """Drop what is kept of a node that left and that no worker reports."""
        self._dropped.discard(node)

    def validate(self, reporting: AbstractSet[NodeName]) -> None:
        """A node is remembered as dropped only while a worker reports it."""
        require(not self._dropped & self._listed, "a node is both listed and dropped")
        require(self._dropped <= reporting, "a dropped node that no worker reports is remembered")
