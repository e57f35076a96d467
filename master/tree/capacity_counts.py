"""Where the GPUs of groups are: counts over whole subtrees, every node counted once. O(nodes)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from topo.model.forest import Forest, Group, Status
from topo.model.ids import GroupPath, NodeName
from topo.model.rest.topology import CapacityCounts
from topo.placement.capacity.node_usage import NO_COUNTS, NodeCounts, NodeUsage

Row = tuple[int, int, int, int, int, int, int, int]
"""The fields of `topo.model.rest.topology.CapacityCounts`, in their order."""


class SubtreeCounts:
    """The counts of groups, each computed once, on demand; `nodes` has those of the leaves.

    Groups are told apart by identity: all of them must be of one forest.
    """

    def __init__(self, usage: NodeUsage) -> None:
        self.nodes = usage.counts
        self._groups: dict[int, Row] = {}

    def of(self, group: Group) -> Row:
        """Return the counts of all nodes below a group."""
        if (found := self._groups.get(id(group))) is not None:
            return found
        known, below = self.nodes, []
        nodes = ready = gpus = ready_gpus = free = used = held = cordoned = 0
        for child in group.children:
            if isinstance(child, Group):
                below.append(self.of(child))
                continue
            nodes += 1
            counts = known.get(child.name, NO_COUNTS)
            own_gpus = child.gpus or counts.gpus
            gpus += own_gpus
            if child.status is Status.READY:
                ready += 1
                ready_gpus += own_gpus
            free += counts[0]
            if counts[1] or counts[2] or counts[3]:
                used += counts[1]
                held += counts[2]
                cordoned += counts[3]
        own = nodes, ready, gpus, ready_gpus, free, used, held, cordoned
        counted = self._groups[id(group)] = _sum([own, *below]) if below else own
        return counted


def _sum(rows: Sequence[Row]) -> Row:
    nodes, ready, gpus, ready_gpus, free, used, held, cordoned = map(sum, zip(*rows, strict=True))
    return nodes, ready, gpus, ready_gpus, free, used, held, cordoned


def capacity_document(row: Row) -> CapacityCounts:
    """Return a row as the documents have it."""
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


def count_forest(forest: Forest, usage: NodeUsage) -> CountedForest:
    """Return all counts of a forest."""
    counts = SubtreeCounts(usage)
    groups = {path: counts.of(group) for path, group in forest.groups()}
    return CountedForest(groups, counts.nodes)
