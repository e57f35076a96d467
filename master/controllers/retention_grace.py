"""Grace for published data of nodes without any report since this master started.

A master that starts without its state, while workers do not run, knows nothing of their nodes. Its
predecessor did. So silence counts for such a node as for one that was known: until the time after
which the forest forgets a silent node.
"""

from collections.abc import Callable
from dataclasses import dataclass

from master.kube.objects import NodeObject
from master.kube.store import Store
from topo.model.forest import Forest
from topo.model.ids import NodeName
from topo.publish.known_nodes import known_nodes


@dataclass(slots=True, eq=False)
class RetentionGrace:
    """The cluster's nodes whose published data stays until `until_s` without a report."""

    nodes: Store[NodeObject]
    until_s: float
    clock: Callable[[], float]
    _heard: tuple[Forest | None, frozenset[NodeName]] = (None, frozenset())

    @property
    def is_on(self) -> bool:
        """Whether silence may still be that of a master which has just started."""
        return self.clock() < self.until_s

    def covers(self, forest: Forest, name: str) -> bool:
        """Return whether a node is in grace. O(1), and O(nodes) for a new forest."""
        return self.is_on and name not in self._heard_in(forest)

    def covered_nodes(self, forest: Forest) -> frozenset[NodeName]:
        """Return all nodes in grace. O(nodes)."""
        if not self.is_on:
            return frozenset()
        return frozenset(NodeName(name) for _, name in self.nodes.objects) - self._heard_in(forest)

    def _heard_in(self, forest: Forest) -> frozenset[NodeName]:
        if forest is not self._heard[0]:
            self._heard = forest, known_nodes(forest)
        return self._heard[1]
