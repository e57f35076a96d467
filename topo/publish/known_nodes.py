"""Nodes with known state: published values of all other nodes stay as they are.

A master that starts without its state knows nothing of a node whose worker does not run. That is no
reason to take the node out of the group in which its predecessor saw it.
"""

from topo.model.conditions.tree import NodeCondition
from topo.model.forest import Forest, Group
from topo.model.ids import NodeName


def known_nodes(forest: Forest) -> frozenset[NodeName]:
    """Return the nodes of which a source has said something, be it that they are in no group.
    O(nodes).
    """
    placed = [vertex.name for _, vertex in forest.walk() if not isinstance(vertex, Group)]
    others = [
        each.node.name for each in forest.unplaced if each.reason.code != NodeCondition.NO_WORKER
    ]
    return frozenset((*placed, *others))
