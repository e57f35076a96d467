"""What differs between two forests, and the net of several differences."""

from collections.abc import Iterable, Iterator, Sequence

from topo.model.forest import Change, Conflict, Forest, Group, Node, Reason
from topo.model.ids import Generation, NodeName, natural_key

NodeView = tuple[str, str, str]
"""(path joined with `/`, status, why)."""
GroupView = tuple[str, str]
"""(status, why)."""


def compare(before: Forest, after: Forest, generation: Generation) -> tuple[Change, ...]:
    """The changes that lead from one forest to the next, in a stable order.

    Subtrees that are the same object on both sides are skipped, so the cost follows the change.
    """
    old, new = _Views(before, after), _Views(after, before)
    return tuple(
        sorted(
            [
                *_nodes(old, new, generation),
                *_groups(old, new, generation),
                *_conflicts(before.conflicts, after.conflicts, generation),
            ],
            key=lambda c: (c.what, natural_key(c.subject), c.before, c.after),
        )
    )


class _Views:
    """Nodes and groups of one forest, without what the other forest shares."""

    def __init__(self, forest: Forest, other: Forest) -> None:
        self.nodes: dict[NodeName, NodeView] = {}
        self.groups: dict[str, GroupView] = {}
        self._walk(forest.roots, other.roots, "")
        shared = {id(u) for u in other.unplaced}
        for entry in forest.unplaced:
            if id(entry) not in shared:
                why = entry.reason.text
                self.nodes[entry.node.name] = ("", entry.node.status, why)

    def _walk(
        self, children: Sequence[Group | Node], others: Sequence[Group | Node], above: str
    ) -> None:
        for child, twin in _paired(children, others):
            if child is twin:
                continue
            if isinstance(child, Node):
                self.nodes[child.name] = (above, child.status, _why(child.reasons))
                continue
            path = f"{above}/{child.name}" if above else child.name
            self.groups[path] = (child.status, _why(child.reasons))
            self._walk(child.children, twin.children if isinstance(twin, Group) else (), path)


def _paired(
    children: Sequence[Group | Node], others: Sequence[Group | Node]
) -> Iterator[tuple[Group | Node, Group | Node | None]]:
    """Each child with the one of the same name and key on the other side.

    Mostly nothing was added or removed and the pairs stand at the same positions.
    """
    if len(children) == len(others) and all(
        a is b or _identity(a) == _identity(b) for a, b in zip(children, others, strict=True)
    ):
        yield from zip(children, others, strict=True)
        return
    by_identity = {_identity(o): o for o in others}
    for child in children:
        yield child, by_identity.get(_identity(child))


def _identity(vertex: Group | Node) -> tuple[str, str]:
    return vertex.name, vertex.key if isinstance(vertex, Group) else ""


def _why(reasons: tuple[Reason, ...]) -> str:
    return "; ".join(r.text for r in reasons)


def _nodes(old: _Views, new: _Views, generation: Generation) -> Iterator[Change]:
    for name in old.nodes.keys() | new.nodes.keys():
        was, now = old.nodes.get(name), new.nodes.get(name)
        if was is None and now is not None:
            yield Change(generation, "node-added", name, "", now[0], now[2])
        elif was is not None and now is None:
            yield Change(generation, "node-removed", name, was[0], "")
        elif was is not None and now is not None:
            if was[0] != now[0]:
                yield Change(generation, "node-moved", name, was[0], now[0], now[2])
            if was[1:] != now[1:]:
                yield Change(generation, "node-status", name, was[1], now[1], now[2])


def _groups(old: _Views, new: _Views, generation: Generation) -> Iterator[Change]:
    for path in old.groups.keys() | new.groups.keys():
        was, now = old.groups.get(path), new.groups.get(path)
        if was is None and now is not None:
            yield Change(generation, "group-added", path, "", now[0], now[1])
        elif was is not None and now is None:
            yield Change(generation, "group-removed", path, was[0], "")
        elif was is not None and now is not None and was != now:
            yield Change(generation, "group-status", path, was[0], now[0], now[1])


def _conflicts(
    before: tuple[Conflict, ...], after: tuple[Conflict, ...], generation: Generation
) -> Iterator[Change]:
    old, new = set(before), set(after)
    for what, conflicts in (("conflict-added", new - old), ("conflict-removed", old - new)):
        for conflict in conflicts:
            yield Change(
                generation,
                what,
                ", ".join(conflict.subjects),
                after=conflict.code,
                why=conflict.text,
            )


_ENDS = {"added": "removed", "removed": "added"}


def net(changes: Iterable[Change]) -> tuple[Change, ...]:
    """What is left of consecutive changes: there-and-back is nothing, two moves are one.

    Each change left carries the generation and the why of the last one it stands for.
    """
    folded: dict[tuple[str, str, str], Change] = {}
    for change in changes:
        sort, _, verb = change.what.rpartition("-")
        code = change.after if sort == "conflict" else ""
        aspect = verb if verb in ("moved", "status") else "life"
        key = (f"{sort}-{aspect}", change.subject, code)
        before = folded.pop(key, None)
        merged = change if before is None else _fold(before, change)
        if merged is not None:
            folded[key] = merged
    order = lambda c: (c.what, natural_key(c.subject), c.after)  # noqa: E731
    return tuple(sorted(folded.values(), key=order))


def _fold(before: Change, after: Change) -> Change | None:
    verbs = before.what.rpartition("-")[2], after.what.rpartition("-")[2]
    returned = _ENDS.get(verbs[0]) == verbs[1]
    if before.before == after.after or (returned and after.what.startswith("conflict")):
        return None
    what = after.what
    if returned:
        what = "node-moved" if what.startswith("node") else "group-status"
    return Change(after.generation, what, after.subject, before.before, after.after, after.why)
