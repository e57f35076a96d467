"""Which groups other sources confirm, and which they contradict.

Result: for each group that is shown the sources that state exactly its nodes, and the
disagreements: the nodes that one source puts into a group while another puts them among others.

How: sources call groups by names of their own, so groups are compared by their nodes. Two groups
of two sources are compatible if one holds the other or they share no node; if they *cross*, no
hierarchy has both, and one source is wrong about somebody. Nodes that only one of the two sources
places say nothing and are left out of that. A group is *confirmed* by a source that states a group
of the same nodes, all of them and no other.

Why counts suffice: with c nodes in both groups, of s and t nodes that both sources place, they
cross if 0 < c < s and c < t. The nodes to name are those in crossing parts, but for a part that
holds most of the group and crosses another group, too: there it is the others that stand wrong.

Why few groups are looked at again after a change: groups of one source and level share no node. If
a node of another group changes the verdict on g and h, the rest of h lies in g alone; so h meets
few groups, and those are all marked.

Cost: O(depths of both sources) for each node that moves; O(parts of it) for each group touched.
Nothing where one source alone says anything. Memory: an entry for each pair of groups that meet.

Example: the file has d1 = {a, b} and d2 = {c, d}; labels have l1 = {a, b, c} and l2 = {d}. l1 and
d2 share c, l1 has a beside it and d2 has d: they cross, and c is told. l1 and d1 are compatible,
so are l2 and d2. Were c labelled l2, labels would confirm both groups of the file.
"""

from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple, TypeVar

from topo.discovery.groups.path import Path
from topo.model.errors import require
from topo.model.ids import GroupPath, NodeName, SourceName

K = TypeVar("K")
V = TypeVar("V")
Keys = tuple[str, ...]
_FEW = 16
"""More groups than two levels deep can hold where the verdict on one of them may turn."""


class StatedGroup(NamedTuple):
    """A group as one source states it: its keys from the outermost in."""

    source: SourceName
    keys: Keys


class Disagreement(NamedTuple):
    """Nodes of a group that is shown, which another source puts into groups that cross it.

    `followed` states the group at `path`; `other` puts the nodes into `groups`.
    """

    path: GroupPath
    followed: SourceName
    other: SourceName
    nodes: frozenset[NodeName]
    groups: tuple[Keys, ...]


class _Placing(NamedTuple):
    """The groups of a node as shown, each with its source, and as the other sources state them."""

    shown: tuple[tuple[GroupPath, SourceName], ...]
    stated: tuple[StatedGroup, ...]


class _Part(NamedTuple):
    """A stated group that crosses a group shown; whether it holds most of that."""

    group: StatedGroup
    is_most: bool


_NOWHERE = _Placing((), ())


class Agreement:
    """The groups of all sources by node. Mutable; owned by the discovery state.

    `measuring`: the sources that measure groups. What these and others say differently is found
    where it is measured, so only groups that two sources write down are checked for crossing.
    """

    confirmed: Mapping[GroupPath, tuple[SourceName, ...]]
    """By group the sources that state exactly its nodes; the same object while nothing changed."""

    def __init__(self, measuring: AbstractSet[SourceName]) -> None:
        self._measuring = measuring
        self._entries: dict[NodeName, _Placing] = {}
        self._members: dict[GroupPath, set[NodeName]] = {}
        self._source_of: dict[GroupPath, SourceName] = {}
        self._sizes: Counter[StatedGroup] = Counter()
        self._parts: dict[GroupPath, Counter[StatedGroup]] = {}
        self._meets: dict[StatedGroup, set[GroupPath]] = {}
        self._placed_by: Counter[tuple[GroupPath | StatedGroup, SourceName]] = Counter()
        """How many nodes of a group another source places."""
        self._touched: set[GroupPath] = set()
        self._crossing: dict[GroupPath, tuple[_Part, ...]] = {}
        self.confirmed = {}

    def put(self, node: NodeName, path: Path, stated: Mapping[SourceName, Keys]) -> None:
        """Take where a node is shown, and the groups of every source that places it."""
        before, after = self._entries.get(node, _NOWHERE), _entry(path, stated)
        if after == before:
            return
        self._count(node, before, -1)
        self._count(node, after, 1)
        if after == _NOWHERE:
            del self._entries[node]
        else:
            self._entries[node] = after

    def settle(self) -> bool:
        """Judge the groups that were touched; return whether a disagreement may differ."""
        touched, self._touched = self._touched, set()
        if not touched:
            return False
        confirmed = dict(self.confirmed)
        known = {path for path in touched if path in self._crossing}
        for path in touched:
            _set(confirmed, path, self._confirming(path))
            _set(self._crossing, path, self._parts_across(path))
        if confirmed != self.confirmed:
            self.confirmed = confirmed
        return bool(known) or any(path in self._crossing for path in touched)

    @property
    def disagreements(self) -> tuple[Disagreement, ...]:
        """All of them, each told of the innermost group that shows it. O(groups that cross)."""
        told = {
            (part.group, self._source_of[path])
            for path, parts in self._crossing.items()
            for part in parts
            if not part.is_most
        }
        found: dict[tuple[SourceName, frozenset[NodeName]], Disagreement] = {}
        for path in sorted(self._crossing, key=lambda each: (len(each), each)):
            followed = self._source_of[path]
            named = [
                part.group
                for part in self._crossing[path]
                if not part.is_most or (part.group, followed) not in told
            ]
            for other in sorted({group.source for group in named}):
                each = self._disagreement(path, {g for g in named if g.source == other}, other)
                found[other, each.nodes] = each
        return tuple(found.values())

    def validate(self) -> None:
        """Check that counting anew gives the same verdicts. O(nodes)."""
        require(not self._touched, "a group was touched and not judged")
        anew = Agreement(self._measuring)
        for node, entry in self._entries.items():
            anew._count(node, entry, 1)
        anew.settle()
        require(anew.confirmed == self.confirmed, "a confirmation is out of date")
        require(anew._crossing == self._crossing, "a disagreement is out of date")

    def _count(self, node: NodeName, entry: _Placing, step: int) -> None:
        shown, stated = entry
        for group in stated:
            self._touch(group)
            _add(self._sizes, group, step)
        for path, source in shown:
            self._touched.add(path)
            self._take(path, source, node, step)
            self._meet(path, [group for group in stated if group.source != source], step)
        for group in stated:
            for source in {source for _, source in shown}:
                _add(self._placed_by, (group, source), step)
            self._touch(group)

    def _take(self, path: GroupPath, source: SourceName, node: NodeName, step: int) -> None:
        members = self._members.setdefault(path, set())
        if step > 0:
            members.add(node)
            self._source_of[path] = source
            return
        members.discard(node)
        if not members:
            del self._members[path], self._source_of[path]

    def _meet(self, path: GroupPath, stated: list[StatedGroup], step: int) -> None:
        if not stated:
            return
        parts = self._parts.setdefault(path, Counter())
        for group in stated:
            meets = self._meets.setdefault(group, set())
            _add(parts, group, step)
            if group in parts:
                meets.add(path)
            else:
                meets.discard(path)
            if not meets:
                del self._meets[group]
        if not parts:
            del self._parts[path]
        for other in {group.source for group in stated}:
            _add(self._placed_by, (path, other), step)

    def _touch(self, group: StatedGroup) -> None:
        meets = self._meets.get(group, ())
        if len(meets) <= _FEW:
            self._touched.update(meets)

    def _confirming(self, path: GroupPath) -> tuple[SourceName, ...]:
        number = len(self._members.get(path, ()))
        if number < 2:
            return ()
        sizes, parts = self._sizes, self._parts.get(path, Counter())
        return tuple(sorted({g.source for g, n in parts.items() if n == number == sizes[g]}))

    def _parts_across(self, path: GroupPath) -> tuple[_Part, ...]:
        followed = self._source_of.get(path)
        if followed is None or followed in self._measuring:
            return ()
        found = []
        for group, common in self._parts.get(path, Counter()).items():
            both = self._placed_by[path, group.source]
            is_crossing = common < both and common < self._placed_by[group, followed]
            if is_crossing and group.source not in self._measuring:
                found.append(_Part(group, 2 * common > both))
        return tuple(sorted(found))

    def _disagreement(
        self, path: GroupPath, crossing: AbstractSet[StatedGroup], other: SourceName
    ) -> Disagreement:
        nodes: set[NodeName] = set()
        groups: set[Keys] = set()
        for node in self._members[path]:
            if own := [group for group in self._entries[node].stated if group in crossing]:
                nodes.add(node)
                groups.add(own[-1].keys)
        names = tuple(sorted(groups))
        return Disagreement(path, self._source_of[path], other, frozenset(nodes), names)


def _entry(path: Path, stated: Mapping[SourceName, Keys]) -> _Placing:
    names = tuple(group.name for group in path)
    shown = tuple((GroupPath(names[: depth + 1]), group.source) for depth, group in enumerate(path))
    groups = tuple(
        StatedGroup(source, keys[: depth + 1])
        for source, keys in stated.items()
        for depth in range(len(keys))
    )
    return _Placing(shown, groups)


def _add(counts: Counter[K], key: K, step: int) -> None:
    """Count, and keep no zero: two ways to the same counts give equal values."""
    counts[key] += step
    if not counts[key]:
        del counts[key]


def _set(values: dict[K, tuple[V, ...]], key: K, found: tuple[V, ...]) -> None:
    if found:
        values[key] = found
    else:
        values.pop(key, None)
