"""What differs between two forests, and the net of several differences.

`compare` walks both forests side by side. It relies on subtrees that nothing touched being the same
object on both sides: those are skipped, so the cost follows the change, not the cluster.

`net` folds consecutive changes. Each change is about one *aspect* of one subject: its life (where a
node stands, whether a group or conflict is there) or a node's status. For each aspect only the
first `before` and the last `after` count; where they are equal, nothing is left to tell. That is
right because changes of one aspect follow on each other: one's `after` is the next one's `before`.
O(changes).

A place in a further fabric (`Node.elsewhere`) is an aspect of its own. There a node that comes or
goes moves, too: from or to `UNPLACED`, so that its moves follow on each other like all changes. A
group there lives while a node is in it, so only groups of nodes that moved can have come or gone,
and a look at the nodes of the other forest, until each of these was seen, says which did. Where
nobody moved that costs nothing, else O(nodes).

Example: node a moves box-1 → (unplaced) → box-2, and turns NotReady and Ready again. The net is one
`node-moved` from box-1 to box-2; the two changes of status cancel.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

from topo.discovery.groups.fabrics import reason_without
from topo.model.forest import Change, Conflict, Forest, Group, Node, Path, Reason
from topo.model.ids import FabricName, Generation, Kind, NodeName, natural_key

NodeView = tuple[str, str, str, str]
"""(path joined with `/`, status, why that status, why that path where it is none)."""
GroupView = tuple[str, str]
"""(status, why)."""

_FabricGroup = tuple[FabricName, Kind, str]
"""A group of a further fabric: that, its kind, its path there joined with `/`."""

UNPLACED = "(unplaced)"
"""Stands for the path of a node in no group; an empty path is a node that is not there."""


def compare(before: Forest, after: Forest, generation: Generation) -> tuple[Change, ...]:
    """Return the changes that lead from one forest to the next: groups, nodes, conflicts.

    Each in the order of the new forest, what is gone last. Subtrees that are the same object on
    both sides are skipped, so the cost follows the change.
    """
    old, new = _Views(before, after), _Views(after, before)
    return (
        *_groups(old, new, generation),
        *_nodes(old, new, generation),
        *_groups_in_fabrics((before, old), (after, new), generation),
        *_in_fabrics(old, new, generation),
        *_conflicts(before.conflicts, after.conflicts, generation),
    )


class _Views:
    """Nodes and groups of one forest, without what the other forest shares."""

    def __init__(self, forest: Forest, other: Forest) -> None:
        self.nodes: dict[NodeName, NodeView] = {}
        self.groups: dict[str, GroupView] = {}
        self.elsewhere: dict[tuple[NodeName, FabricName], Path] = {}
        self._walk(forest.roots, other.roots, "")
        # Identity first: an unchanged list of 10,000 nodes costs nothing.
        if forest.unplaced is other.unplaced:
            return
        shared = set(map(id, other.unplaced))
        for entry in [each for each in forest.unplaced if id(each) not in shared]:
            self._see(entry.node, UNPLACED, entry.reason.text)

    def _see(self, node: Node, path: str, why_there: str = "") -> None:
        self.nodes[node.name] = (path, node.status, _why(node.reasons), why_there)
        for fabric, groups in node.elsewhere:
            self.elsewhere[node.name, fabric] = groups

    def _walk(
        self, children: Sequence[Group | Node], others: Sequence[Group | Node], above: str
    ) -> None:
        for child, twin in _paired(children, others):
            # The same object on both sides: nothing below differs.
            if child is twin:
                continue
            if isinstance(child, Node):
                self._see(child, above)
                continue
            path = f"{above}/{child.name}" if above else child.name
            self.groups[path] = (child.status, _why(child.reasons))
            self._walk(child.children, twin.children if isinstance(twin, Group) else (), path)


def _paired(
    children: Sequence[Group | Node], others: Sequence[Group | Node]
) -> Iterator[tuple[Group | Node, Group | Node | None]]:
    """Return each child with the one of the same name and key on the other side.

    Mostly nothing was added or removed and the pairs stand at the same positions.
    """
    # Positions first: an index by identity is only needed where the set of children changed.
    if len(children) == len(others) and all(
        a is b or _identity(a) == _identity(b) for a, b in zip(children, others, strict=True)
    ):
        yield from zip(children, others, strict=True)
        return
    if not others:
        yield from zip(children, repeat(None))
        return
    by_identity = {_identity(o): o for o in others}
    for child in children:
        yield child, by_identity.get(_identity(child))


def _identity(vertex: Group | Node) -> tuple[str, str]:
    return vertex.name, vertex.key if isinstance(vertex, Group) else ""


def _why(reasons: tuple[Reason, ...]) -> str:
    return "; ".join([r.text for r in reasons]) if reasons else ""


def _nodes(old: _Views, new: _Views, generation: Generation) -> Iterator[Change]:
    for name in {**new.nodes, **old.nodes}:  # what is gone comes last
        was, now = old.nodes.get(name), new.nodes.get(name)
        if was is not None and now is not None:
            if was[0] != now[0]:
                yield Change(generation, "node-moved", name, was[0], now[0], now[3])
            if was[1:3] != now[1:3]:
                yield Change(generation, "node-status", name, was[1], now[1], now[2])
        elif now is not None:
            yield Change(generation, "node-added", name, "", now[0], now[3], now[1])
        elif was is not None:
            yield Change(generation, "node-removed", name, was[0], "", "", was[1])


def _in_fabrics(old: _Views, new: _Views, generation: Generation) -> Iterator[Change]:
    for place in {**new.elsewhere, **old.elsewhere}:
        was, now = old.elsewhere.get(place, ()), new.elsewhere.get(place, ())
        before, after = (_joined(path) or UNPLACED for path in (was, now))
        if before != after:
            node, fabric = place
            is_lost = not now and node in new.nodes
            why = reason_without(fabric, was[0].source).text if is_lost else ""
            yield Change(generation, "fabric-moved", node, before, after, why, fabric=fabric)


def _groups_in_fabrics(
    before: tuple[Forest, _Views], after: tuple[Forest, _Views], generation: Generation
) -> Iterator[Change]:
    (was, old), (now, new) = before, after
    places = {**new.elsewhere, **old.elsewhere}
    moved = [at for at in places if old.elsewhere.get(at) != new.elsewhere.get(at)]
    left, reached = (
        dict.fromkeys(g for at in moved for g in _groups_of(at[1], views.elsewhere.get(at, ())))
        for views in (old, new)
    )
    for fabric, kind, path in _without_nodes((g for g in reached if g not in left), was):
        yield Change(generation, "fabric-group-added", path, "", kind, fabric=fabric)
    for fabric, kind, path in _without_nodes((g for g in left if g not in reached), now):
        yield Change(generation, "fabric-group-removed", path, kind, "", fabric=fabric)


def _groups_of(fabric: FabricName, path: Path) -> Iterator[_FabricGroup]:
    for depth, group in enumerate(path, 1):
        yield fabric, group.kind, _joined(path[:depth])


def _without_nodes(groups: Iterable[_FabricGroup], forest: Forest) -> Iterator[_FabricGroup]:
    """Yield those of the groups that no node of a forest is in, in their order."""
    left, seen = dict.fromkeys(groups), set[int]()
    rest: list[Sequence[Group | Node]] = [[e.node for e in forest.unplaced], forest.roots]
    while left and rest:
        for child in rest.pop():
            if isinstance(child, Group):
                rest.append(child.children)
                continue
            for fabric, path in child.elsewhere:
                if id(path) not in seen:  # one object for most nodes of a group
                    seen.add(id(path))
                    for group in _groups_of(fabric, path):
                        left.pop(group, None)
    yield from left


def _joined(path: Path) -> str:
    return "/".join(group.name for group in path)


def _groups(old: _Views, new: _Views, generation: Generation) -> Iterator[Change]:
    for path in {**new.groups, **old.groups}:  # what is gone comes last
        was, now = old.groups.get(path), new.groups.get(path)
        if was is not None and now is not None:
            if was != now:
                yield Change(generation, "group-status", path, was[0], now[0], now[1])
        elif now is not None:
            yield Change(generation, "group-added", path, "", now[0], now[1])
        elif was is not None:
            yield Change(generation, "group-removed", path, was[0], "")


def _conflicts(
    before: tuple[Conflict, ...], after: tuple[Conflict, ...], generation: Generation
) -> Iterator[Change]:
    old, new = set(before), set(after)
    for c in (c for c in after if c not in old):
        subjects = ", ".join(c.subjects)
        yield Change(generation, "conflict-added", subjects, after=c.code, why=c.text)
    for c in (c for c in before if c not in new):
        yield Change(generation, "conflict-removed", ", ".join(c.subjects), before=c.code)


_LIFE_CHANGE = {
    "node": "node-moved",
    "fabric": "fabric-moved",
    "fabric-group": "fabric-group-added",
    "group": "group-status",
    "conflict": "conflict-added",
}
"""What a change of an aspect "life" is called when the subject exists before and after."""


def net(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Return what is left of consecutive changes: there-and-back is nothing, two moves are one.

    Each change left carries the generation and the why of the last one it stands for. The status of
    a node that is new or gone is part of its coming or going.
    """
    folded: dict[tuple[str, ...], Change] = {}
    for whole in changes:
        for change in _split_status(whole):
            key = _aspect(change)
            first = folded.get(key)
            folded[key] = change if first is None else change._replace(before=first.before)
    left = [_renamed(key, c) for key, c in folded.items() if c.before != c.after]
    # A node that came or went reports its status with that change.
    ends = {c.subject for c in left if c.what in ("node-added", "node-removed")}
    kept = (c for c in left if c.what != "node-status" or c.subject not in ends)
    return tuple(sorted(kept, key=_order))


def _split_status(change: Change) -> Iterator[Change]:
    """Return the change, and apart from it the status that a node came or went with."""
    yield change
    if change.what == "node-added":
        yield change._replace(what="node-status", before="", after=change.status, why="")
    elif change.what == "node-removed":
        yield change._replace(what="node-status", before=change.status, after="", why="")


def _order(change: Change) -> tuple[object, ...]:
    return change.what, natural_key(change.subject), change.before, change.after, change.fabric


def _aspect(change: Change) -> tuple[str, ...]:
    """Return what it is about: a node's status or place, or the life of a group or conflict."""
    sort = change.what.rpartition("-")[0]
    if change.what == "node-status":
        return sort, "status", change.subject
    if sort in ("conflict", "fabric-group"):
        return sort, "life", change.subject, change.before or change.after, change.fabric
    if change.fabric:
        return sort, "life", change.subject, change.fabric
    return sort, "life", change.subject


def _renamed(aspect: tuple[str, ...], change: Change) -> Change:
    """Return the change under the name that fits its two ends; an empty end is absence."""
    sort, about = aspect[:2]
    if about == "status":
        return change
    what = _LIFE_CHANGE[sort]
    if not change.before:
        what = f"{sort}-added"
    elif not change.after:
        what = f"{sort}-removed"
    return change._replace(what=what)
