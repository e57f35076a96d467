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

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from topo.model.errors import require
from topo.model.forest import Path
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
    """The path at which a node is shown, and the keys of its groups by each other source."""

    path: Path
    stated: Mapping[SourceName, Keys]

    def shown_groups(self) -> list[tuple[GroupPath, SourceName]]:
        """Return the groups that are shown, outermost first, each with who states it."""
        names = tuple([group.name for group in self.path])
        return [
            (GroupPath(names[: depth + 1]), group.source) for depth, group in enumerate(self.path)
        ]

    def stated_groups(self) -> list[StatedGroup]:
        """Return the groups of all sources, of each outermost first."""
        return [
            StatedGroup(source, keys[: depth + 1])
            for source, keys in self.stated.items()
            for depth in range(len(keys))
        ]


@dataclass(slots=True)
class _Shown:
    """A group that is shown: its nodes, how many of them stand in which stated group, and how many
    each source places.
    """

    source: SourceName
    nodes: set[NodeName] = field(default_factory=set)
    parts: dict[StatedGroup, int] = field(default_factory=dict)
    placed_by: dict[SourceName, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Stated:
    """A group as stated: its nodes, the groups shown that it meets, and how many of its nodes are
    shown in groups of each source.
    """

    size: int = 0
    meets: set[GroupPath] = field(default_factory=set)
    placed_by: dict[SourceName, int] = field(default_factory=dict)


class _Part(NamedTuple):
    """A stated group that crosses a group shown; whether it holds most of that."""

    group: StatedGroup
    is_most: bool


_NOWHERE = _Placing((), {})


class Agreement:
    """The groups of all sources by node. Mutable; owned by the discovery state.

    `measuring`: the sources that measure groups. What these and others say differently is found
    where it is measured, so only groups that two sources write down are checked for crossing.
    """

    confirmed: Mapping[GroupPath, tuple[SourceName, ...]]
    """By group the sources that state exactly its nodes; the same object while nothing changed."""

    def __init__(self, measuring: AbstractSet[SourceName]) -> None:
        self._measuring = measuring
        self._placings: dict[NodeName, _Placing] = {}
        self._shown: dict[GroupPath, _Shown] = {}
        self._stated: dict[StatedGroup, _Stated] = {}
        self._touched: set[GroupPath] = set()
        self._crossing: dict[GroupPath, tuple[_Part, ...]] = {}
        self.confirmed = {}

    def put(self, node: NodeName, path: Path, stated: Mapping[SourceName, Keys]) -> None:
        """Take where a node is shown, and the groups of every source that places it."""
        before, after = self._placings.get(node, _NOWHERE), _Placing(path, stated)
        if after == before:
            return
        if before is not _NOWHERE:
            self._count(node, before, -1)
            del self._placings[node]
        if path or stated:
            self._count(node, after, 1)
            self._placings[node] = after

    def settle(self) -> bool:
        """Judge the groups that were touched; return whether a disagreement may differ."""
        touched, self._touched = self._touched, set()
        may_differ = any(path in self._crossing for path in touched)
        changed = {}
        for path in touched:
            found = self._confirming(path)
            if found != self.confirmed.get(path, ()):
                changed[path] = found
            _set(self._crossing, path, self._parts_across(path))
        if changed:
            merged = {**self.confirmed, **changed}
            self.confirmed = {path: found for path, found in merged.items() if found}
        return may_differ or any(path in self._crossing for path in touched)

    @property
    def disagreements(self) -> tuple[Disagreement, ...]:
        """All of them, each told of the innermost group that shows it. O(groups that cross)."""
        told = {
            (part.group, self._shown[path].source)
            for path, parts in self._crossing.items()
            for part in parts
            if not part.is_most
        }
        found: dict[tuple[SourceName, frozenset[NodeName]], Disagreement] = {}
        for path in sorted(self._crossing, key=lambda each: (len(each), each)):
            followed = self._shown[path].source
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
        recount = Agreement(self._measuring)
        for node, placing in self._placings.items():
            recount._count(node, placing, 1)
        recount.settle()
        require(recount.confirmed == self.confirmed, "confirmations differ from a recount")
        require(recount._crossing == self._crossing, "crossing groups differ from a recount")
        require(recount._stated == self._stated, "stated groups differ from a recount")

    def _count(self, node: NodeName, placing: _Placing, step: int) -> None:
        shown, stated = placing.shown_groups(), placing.stated_groups()
        for group in stated:
            entry = self._stated.get(group)
            if entry is None:
                entry = self._stated[group] = _Stated()
            self._touch(entry)
            entry.size += step
        for path, source in shown:
            self._touched.add(path)
            self._meet(node, path, source, step)
            others = [group for group in stated if group.source != source]
            if others:
                self._share(path, others, step)
        written = {source for _, source in shown} - self._measuring
        for group in stated:
            entry = self._stated[group]
            for source in written:
                _add(entry.placed_by, source, step)
            self._touch(entry)
            if not entry.size:
                del self._stated[group]
        self._drop_empty(shown)

    def _meet(self, node: NodeName, path: GroupPath, source: SourceName, step: int) -> None:
        entry = self._shown.get(path)
        if entry is None:
            entry = self._shown[path] = _Shown(source)
        if step > 0:
            entry.source = source
            entry.nodes.add(node)
        else:
            entry.nodes.discard(node)

    def _share(self, path: GroupPath, stated: list[StatedGroup], step: int) -> None:
        entry = self._shown[path]
        for group in stated:
            _add(entry.parts, group, step)
            meets = self._stated[group].meets
            if group in entry.parts:
                meets.add(path)
            else:
                meets.discard(path)
        if entry.source not in self._measuring:
            for other in {group.source for group in stated}:
                _add(entry.placed_by, other, step)

    def _drop_empty(self, shown: list[tuple[GroupPath, SourceName]]) -> None:
        for path, _ in shown:
            if not self._shown[path].nodes:
                del self._shown[path]

    def _touch(self, entry: _Stated) -> None:
        if len(entry.meets) <= _FEW:
            self._touched |= entry.meets

    def _confirming(self, path: GroupPath) -> tuple[SourceName, ...]:
        shown = self._shown.get(path)
        if shown is None or len(shown.nodes) < 2:
            return ()
        number, stated = len(shown.nodes), self._stated
        equal = {g.source for g, n in shown.parts.items() if n == number == stated[g].size}
        return tuple(sorted(equal))

    def _parts_across(self, path: GroupPath) -> tuple[_Part, ...]:
        shown = self._shown.get(path)
        if shown is None or shown.source in self._measuring:
            return ()
        found = []
        for group, common in shown.parts.items():
            if group.source in self._measuring:
                continue
            both = shown.placed_by[group.source]
            if common < both and common < self._stated[group].placed_by[shown.source]:
                found.append(_Part(group, 2 * common > both))
        return tuple(sorted(found))

    def _disagreement(
        self, path: GroupPath, crossing: AbstractSet[StatedGroup], other: SourceName
    ) -> Disagreement:
        nodes: set[NodeName] = set()
        groups: set[Keys] = set()
        for node in self._shown[path].nodes:
            stated = self._placings[node].stated_groups()
            if own := [group for group in stated if group in crossing]:
                nodes.add(node)
                groups.add(own[-1].keys)
        names = tuple(sorted(groups))
        return Disagreement(path, self._shown[path].source, other, frozenset(nodes), names)


def _add(counts: dict[K, int], key: K, step: int) -> None:
    """Count, and keep no zero: two ways to the same counts give equal values."""
    number = counts.get(key, 0) + step
    if number:
        counts[key] = number
    else:
        del counts[key]


def _set(values: dict[K, tuple[V, ...]], key: K, found: tuple[V, ...]) -> None:
    if found:
        values[key] = found
    else:
        values.pop(key, None)
