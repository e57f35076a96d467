"""An edit: what of one forest makes another, as plain JSON. `apply_edit(edit(a, b), a) == b`.

A forest is four sequences: roots, unplaced nodes, conflicts, unjoined machines. The edit of a
sequence is a list, in the order of the new one, whose items are

- `[start, stop]`: the items of the old sequence from `start` up to before `stop`, as they are;
- `{"new": row}`: one that was not there so;
- `{"of": index, "head": row, "child": edit}`: the old group at `index` with these words of its own
  and this edit of its children; without `head` its words are the same.

Subtrees that are one object on both sides are not looked into, so the work follows the change and
the number of its siblings, not the cluster. The edit from the empty forest is the whole forest.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from topo.history import rows
from topo.history.rows import BrokenEditError
from topo.model.forest import Conflict, Forest, Group, Node, UnjoinedMachine, Unplaced

Json = Any
T = TypeVar("T")
Vertex = Group | Node


def edit(old: Forest, new: Forest) -> list[list[Json]]:
    """Return the edit that makes `new` of `old`."""
    return [
        _sequence(old.roots, new.roots, _VERTICES),
        _sequence(old.unplaced, new.unplaced, _UNPLACED),
        _sequence(old.conflicts, new.conflicts, _CONFLICTS),
        _sequence(old.unjoined, new.unjoined, _UNJOINED),
    ]


def apply_edit(found: Json, old: Forest) -> Forest:
    """Apply an edit to a forest; raise `BrokenEditError` where it does not fit."""
    tops: Sequence[Vertex] = old.roots
    try:
        roots, unplaced, conflicts, unjoined = found
        return Forest(
            tuple(map(_root, _edited(roots, tops, _vertex, _group))),
            tuple(_edited(unplaced, old.unplaced, rows.unplaced)),
            tuple(_edited(conflicts, old.conflicts, rows.conflict)),
            tuple(_edited(unjoined, old.unjoined, rows.unjoined)),
        )
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise BrokenEditError(f"no edit of this forest: {error!r}") from error


@dataclass(frozen=True, slots=True)
class _Items(Generic[T]):
    """The items of a sequence: `key` finds the old one of an item, `part` is what differs in it."""

    key: Callable[[T], Hashable]
    row: Callable[[T], Json]
    part: Callable[[T, T], Json | None] = lambda _old, _new: None


def _sequence(old: Sequence[T], new: Sequence[T], items: _Items[T]) -> list[Json]:
    """Return the edit of one sequence. O(items), where those at one place are mostly one object."""
    if old is new:
        return [[0, len(old)]] if old else []
    found: list[Json] = []
    places: dict[Hashable, int] | None = None
    at = 0
    for item in new:
        place: int | None = at
        # Items mostly stay in place: the index is only built where one does not.
        if at >= len(old) or (old[at] is not item and items.key(old[at]) != items.key(item)):
            if places is None:
                places = {items.key(each): index for index, each in enumerate(old)}
            place = places.get(items.key(item))
        if place is None:
            found.append({"new": items.row(item)})
            continue
        at = place + 1
        # Identity first: comparing two equal subtrees would cost all of their nodes.
        if old[place] is item or old[place] == item:
            _keep(found, place)
        elif (part := items.part(old[place], item)) is not None:
            found.append({"of": place, **part})
        else:
            found.append({"new": items.row(item)})
    return found


def _keep(found: list[Json], place: int) -> None:
    """Add one more item of the old sequence, to the last run where it follows on it."""
    last = found[-1] if found else None
    if isinstance(last, list) and last[1] == place:
        last[1] = place + 1
    else:
        found.append([place, place + 1])


def _of_vertex(vertex: Vertex) -> Json:
    if isinstance(vertex, Node):
        return rows.of_node(vertex)
    return {"head": rows.of_head(vertex), "child": _sequence((), vertex.children, _VERTICES)}


def _of_group(old: Vertex, new: Vertex) -> Json | None:
    if isinstance(old, Node) or isinstance(new, Node):
        return None
    part: dict[str, Json] = {"child": _sequence(old.children, new.children, _VERTICES)}
    head = rows.of_head(new)
    return part if head == rows.of_head(old) else {"head": head, **part}


def _edited(
    found: Json,
    old: Sequence[T],
    item: Callable[[Json], T],
    part: Callable[[Json, T], T] | None = None,
) -> list[T]:
    """Return the sequence that an edit makes of the old one."""
    made: list[T] = []
    for each in found:
        if isinstance(each, list):
            start, stop = each
            if not 0 <= start < stop <= len(old):
                raise BrokenEditError(f"items {start} to {stop} of {len(old)}")
            made += old[start:stop]
        elif "new" in each:
            made.append(item(each["new"]))
        elif part is not None and 0 <= each["of"] < len(old):
            made.append(part(each, old[each["of"]]))
        else:
            raise BrokenEditError(f"no item of {len(old)}")
    return made


def _root(vertex: Vertex) -> Group:
    if isinstance(vertex, Node):
        raise BrokenEditError(f"{vertex.name} is a root and no group")
    return vertex


def _vertex(row: Json) -> Vertex:
    if isinstance(row, list):
        return rows.node(row)
    return rows.group(row["head"], tuple(_edited(row["child"], (), _vertex, _group)))


def _group(part: Json, old: Vertex) -> Vertex:
    if isinstance(old, Node):
        raise BrokenEditError(f"{old.name} is not a group")
    children = tuple(_edited(part["child"], old.children, _vertex, _group))
    head = part["head"] if "head" in part else rows.of_head(old)
    return rows.group(head, children)


def _name(vertex: Vertex) -> Hashable:
    return isinstance(vertex, Node), vertex.name


def _node_name(entry: Unplaced) -> Hashable:
    return entry.node.name


def _itself(entry: Hashable) -> Hashable:
    return entry


_VERTICES: _Items[Vertex] = _Items(_name, _of_vertex, _of_group)
_UNPLACED: _Items[Unplaced] = _Items(_node_name, rows.of_unplaced)
_CONFLICTS: _Items[Conflict] = _Items(_itself, rows.of_conflict)
_UNJOINED: _Items[UnjoinedMachine] = _Items(_itself, rows.of_unjoined)
