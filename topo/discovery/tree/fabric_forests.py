"""One forest for each fabric of a published forest: the tree itself, and those beside it.

Each node says where it stands in further fabrics (`Node.elsewhere`), so their forests are that of
any moment of which there is a tree, also one of the past. They are made when somebody asks:
O(nodes), 40 ms of 10,000. Who asks of one forest often keeps what `forests_beside` returned.

Result: a strict tree for each, with all nodes: one without groups there is in `unplaced`, with the
reason of what feeds the fabric. Conflicts are those of the whole.
"""

from collections import Counter
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from typing import NamedTuple

from topo.discovery.groups.fabrics import FIRST, reason_without
from topo.discovery.tree.forest import Tree
from topo.model.forest import Forest, Node, Path, Reason, Unplaced
from topo.model.ids import SCALE_OUT, SCALE_UP, FabricName, Kind, NodeName, SourceName, natural_key


def forests_beside(forest: Forest) -> Mapping[FabricName, Forest]:
    """Return the forest of each fabric but that of the tree. O(nodes)."""
    paths: dict[FabricName, dict[NodeName, Path]] = {}
    for node in forest.nodes():
        for fabric, path in node.elsewhere:
            paths.setdefault(fabric, {})[node.name] = path
    return {fabric: _forest(forest, fabric, paths[fabric]) for fabric in sorted(paths)}


def forests_by_fabric(
    forest: Forest,
    mode: str,
    beside: Callable[[Forest], Mapping[FabricName, Forest]] = forests_beside,
) -> Mapping[FabricName, Forest]:
    """Return the forest of each fabric that has groups, the tree itself first.

    Empty where only one fabric is known. `beside` returns those beside the tree. O(nodes).
    """
    others = beside(forest)
    return {first_fabric(mode, others): forest, **others} if others else {}


def fabric_of_tree(forest: Forest, mode: str) -> FabricName | None:
    """Return the fabric of the tree; None where only one is known. O(nodes)."""
    others = {fabric for node in forest.nodes() for fabric, _ in node.elsewhere}
    return first_fabric(mode, others) if others else None


def first_fabric(mode: str, others: Container[FabricName]) -> FabricName:
    """Return the fabric of the tree; that of a moment of another mode is the one that is left."""
    named = (FIRST.get(mode, SCALE_UP), SCALE_UP, SCALE_OUT)
    return next(fabric for fabric in named if fabric not in others)


def _forest(forest: Forest, fabric: FabricName, paths: Mapping[NodeName, Path]) -> Forest:
    nodes = {node.name: node for node in forest.nodes()}
    tree = Tree()
    for name, path in paths.items():
        tree.place(name, path)
    why = reason_without(fabric, next(iter(paths.values()))[0].source)
    alone = sorted(nodes.keys() - paths.keys(), key=natural_key)
    unplaced = tuple(Unplaced(nodes[name], why) for name in alone)
    return replace(forest, roots=tree.build(nodes.__getitem__), unplaced=unplaced, confirmed={})


class FabricSummary(NamedTuple):
    """A fabric: the kinds of its groups, outermost first, their number, and that of their nodes.

    Of one beside the tree also its source, the nodes with GPUs in none of its groups, and why.
    """

    fabric: FabricName
    kinds: tuple[Kind, ...]
    groups: int
    nodes: int
    source: SourceName = SourceName("")
    unplaced: tuple[NodeName, ...] = ()
    reason: Reason | None = None


def summaries(forest: Forest, mode: str) -> tuple[FabricSummary, ...]:
    """Return what there is of each fabric, the tree first; empty where only one is known. O(nodes).

    Without making the forests: a path is one object for all nodes of a group.
    """
    beside = summaries_beside(forest)
    if not beside:
        return ()
    of_tree = [(path, group.kind) for path, group in forest.groups()]
    of_tree.sort(key=lambda each: len(each[0]))
    placed = sum(isinstance(vertex, Node) for _, vertex in forest.walk())
    kinds = tuple(dict.fromkeys(kind for _, kind in of_tree))
    first = first_fabric(mode, {each.fabric for each in beside})
    return FabricSummary(first, kinds, len(of_tree), placed), *beside


def summaries_beside(forest: Forest) -> tuple[FabricSummary, ...]:
    """Return what there is of each fabric but that of the tree. O(nodes)."""
    paths: dict[FabricName, Counter[Path]] = {}
    for node in forest.nodes():
        for fabric, path in node.elsewhere:
            paths.setdefault(fabric, Counter())[path] += 1
    if not paths:
        return ()
    found = []
    for fabric in sorted(paths):
        groups = {
            tuple(g.key for g in p[: n + 1]): p[n].kind
            for p in paths[fabric]
            for n in range(len(p))
        }
        by_depth = sorted(groups.items(), key=lambda each: len(each[0]))
        kinds = tuple(dict.fromkeys(kind for _, kind in by_depth))
        source = next(iter(paths[fabric]))[0].source
        unplaced = tuple(
            node.name
            for node in forest.nodes()
            if node.gpus and all(each != fabric for each, _ in node.elsewhere)
        )
        why = reason_without(fabric, source)
        size = len(groups), paths[fabric].total()
        found.append(FabricSummary(fabric, kinds, *size, source, unplaced, why))
    return tuple(found)
