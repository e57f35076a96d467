"""Where the GPUs of groups are: counts over whole subtrees, every node counted once. O(nodes)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from topo.model.forest import Forest, Group, Node, Status
from topo.model.ids import GroupPath, NodeName
from topo.placement.capacity.node_usage import NO_COUNTS, NodeCounts, NodeUsage

Row = tuple[int, int, int, int, int, int, int, int]
"""The fields of `topo.model.rest.topology.Capacity`, in their order."""


class SubtreeCounts:
    """The counts of groups as they are asked for, each worked out once; `nodes` has the leaves'.

    Groups are told apart by identity: all of them must be of one forest.
    """

    def __init__(self, usage: NodeUsage) -> None:
        self.nodes = usage.counts()
        self._groups: dict[int, Row] = {}

    def of(self, group: Group) -> Row:
        """The counts of all nodes below a group."""
        if (found := self._groups.get(id(group))) is not None:
            return found
        nodes = ready = gpus = ready_gpus = free = used = held = cordoned = 0
        for child in group.children:
            row = self.of(child) if isinstance(child, Group) else self._leaf(child)
            nodes += row[0]
            ready += row[1]
            gpus += row[2]
            ready_gpus += row[3]
            free += row[4]
            used += row[5]
            held += row[6]
            cordoned += row[7]
        counted = nodes, ready, gpus, ready_gpus, free, used, held, cordoned
        self._groups[id(group)] = counted
        return counted

    def _leaf(self, node: Node) -> Row:
        free, used, held, cordoned, _ = self.nodes.get(node.name, NO_COUNTS)
        if node.status is Status.READY:
            return 1, 1, node.gpus, node.gpus, free, used, held, cordoned
        return 1, 0, node.gpus, 0, free, used, held, cordoned


def capacity_document(row: Row) -> dict[str, Any]:
    """A row as the documents have it."""
    nodes, ready, gpus, ready_gpus, free, used, held, cordoned = row
    return {
        "nodes": nodes,
        "ready": ready,
        "gpus": gpus,
        "ready_gpus": ready_gpus,
        "free_gpus": free,
        "used_gpus": used,
        "held_gpus": held,
        "cordoned_gpus": cordoned,
    }


@dataclass(frozen=True, slots=True)
class CountedForest:
    """The counts of every group by its path, and of every node."""

    groups: Mapping[GroupPath, Row]
    nodes: Mapping[NodeName, NodeCounts]


def counted(forest: Forest, usage: NodeUsage) -> CountedForest:
    """All counts of a forest."""
    counts = SubtreeCounts(usage)
    groups = {
        GroupPath((*above, vertex.name)): counts.of(vertex)
        for above, vertex in forest.walk()
        if isinstance(vertex, Group)
    }
    return CountedForest(groups, counts.nodes)
