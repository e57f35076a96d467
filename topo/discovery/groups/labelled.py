"""Groups that labels of nodes name, as the path of each node in them.

Result: for each node its groups, outermost first, or the reason why labels place it nowhere.

How: the values of a family's levels, from the outermost in, are the node's path. A level that says
nothing (`label_families.SENTINELS`) ends the path; if a level below it says something, the path is
broken and the node has none. Of several families that are looked for, the whole cluster follows
one: the one with the most whole paths, then with the most nodes, when the cluster is listed first.
It is followed until a family that replaces it places all of its nodes as well, or until it places
none.

Why that is right: identity is the whole path, so equal names under two parents are two groups, and
no value that stands for "unknown" joins anybody. One family for all nodes means that a writer which
renames its labels node by node moves all groups at once, at the end. A label that vanishes says
less than a label with another value: it keeps its last value for a while, since writers take labels
off and put them on again, and a new value of any level counts at once.

Cost: O(keys) for each node that changes; O(nodes) where the family that is followed may change.

Example: a and b have block=b1, subblock=s1, c has block=b1, d has subblock=s1 alone. a and b are in
b1/s1, c is in b1 itself, and d is in no group: it has no block, and s1 of another block is another
group.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from topo.discovery.label_families import LabelFamily, LabelLevel, LabelSource
from topo.model.conditions.tree import NodeCondition
from topo.model.errors import require
from topo.model.forest import Path, PathGroup, Reason
from topo.model.ids import FabricName, GroupName, NodeName, natural_key
from topo.model.observation import CLUSTER_NODES

Labels = tuple[tuple[str, str], ...]
_Values = tuple[str, ...]
"""One for each level of a family, "" where the labels say nothing."""
SHOWN_KEYS = 3


class _Stated(NamedTuple):
    """A node's labels, and what counts of them by family."""

    labels: Labels
    values: Mapping[str, _Values]


class _Counted(NamedTuple):
    """The nodes that a family places, and those of them with a value at each level that needs one.

    Two families may share the key of a level: the first says less of a family than the second.
    """

    placed: set[NodeName]
    whole: set[NodeName]

    @classmethod
    def none(cls) -> "_Counted":
        return cls(set(), set())

    @property
    def size(self) -> tuple[int, int]:
        return len(self.whole), len(self.placed)

    def covers(self, other: "_Counted") -> bool:
        return self.placed >= other.placed and self.whole >= other.whole


class Labelled:
    """The labels by node, and the family that is followed. Mutable; owned by the discovery state.

    `followed` is the family of an earlier process, "" without one.
    """

    def __init__(self, source: LabelSource, followed: str = "") -> None:
        self._families = {family.name: family for family in source.families}
        self._is_exclusive = source.is_exclusive
        self._stated: dict[NodeName, _Stated] = {}
        self._kept_since_s: dict[NodeName, float] = {}
        """The nodes of which more counts than their labels say, and since when."""
        self._counted = {name: _Counted.none() for name in self._families}
        self._unsettled = False
        self.followed = followed if followed in self._families else ""

    @property
    def is_used(self) -> bool:
        """Return whether any label is read."""
        return bool(self._families)

    def update(self, node: NodeName, labels: Labels | None, now_s: float) -> bool:
        """Take a node's labels, None where the node is gone; whether its place may differ."""
        before = self._stated.get(node)
        if not self._families or labels == (None if before is None else before.labels):
            return False
        if labels is None:
            return self._put(node, None)
        actual = self._values(labels)
        if before is None:
            return self._put(node, _Stated(labels, actual))
        names = before.values.keys() | actual.keys()
        values = {n: _merged(before.values.get(n, ()), actual.get(n, ())) for n in sorted(names)}
        since_s = self._kept_since_s.get(node, now_s)
        differs = self._put(node, _Stated(labels, values))
        if values != actual:
            self._kept_since_s[node] = since_s
        return differs

    def expire(self, before_s: float) -> set[NodeName]:
        """Drop values that vanished before that time; return their nodes."""
        late = [node for node, since_s in self._kept_since_s.items() if since_s < before_s]
        for node in late:
            labels = self._stated[node].labels
            self._put(node, _Stated(labels, self._values(labels)))
        return set(late)

    def settle(self, *, is_complete: bool) -> set[NodeName]:
        """Choose the family to follow; the nodes that may have moved by that.

        `is_complete`: the cluster has listed all of its nodes. Until then the choice is open.
        """
        self._unsettled = self._is_exclusive and not is_complete
        if not self._is_exclusive:
            return set()
        before, self.followed = self.followed, self._choice(is_complete=is_complete)
        return set() if self.followed == before else set(self._stated)

    def find(self, node: NodeName, *, of_switches: bool = False) -> Path | Reason | None:
        """Return a node's groups, or why it has none; None where no label is read.

        `of_switches`: the levels of switches alone, of families that have some.
        """
        if not self._families:
            return None
        stated = self._stated.get(node)
        why: Reason | None = None
        for family in self._followed() if stated is not None else ():
            values = stated.values.get(family.name, ())  # type: ignore[union-attr]
            found = _path(family.of_switches, values) if of_switches else _path(family, values)
            if not isinstance(found, Reason):
                return found
            why = why or found
        return why or Reason.of(NodeCondition.NO_GROUP_LABEL)

    def counted(self, node: NodeName, labels: Labels) -> Labels:
        """Return a node's labels with the kept values, for the state file."""
        if node not in self._kept_since_s:
            return labels
        kept = dict(labels)
        for name, values in self._stated[node].values.items():
            levels = zip(self._families[name].levels, values, strict=True)
            kept |= {level.key: value for level, value in levels if value and not level.until}
        return tuple(sorted(kept.items()))

    @property
    def fabric(self) -> FabricName | None:
        """Return the fabric of the first of several named families; None of those that are found.

        It never changes: which family is found may.
        """
        first = None if self._is_exclusive else next(iter(self._families.values()), None)
        return first.fabric if first is not None else None

    @property
    def kept(self) -> tuple[NodeName, ...]:
        """The nodes that stand where labels put them that are no longer there, in natural order."""
        return tuple(sorted(self._kept_since_s, key=natural_key))

    @property
    def other_families(self) -> Mapping[str, int]:
        """The families that place nodes and are not followed, each with the number of nodes."""
        followed = {family.name for family in self._followed()}
        sizes = {name: len(each.placed) for name, each in self._counted.items()}
        return {name: nodes for name, nodes in sizes.items() if nodes and name not in followed}

    @property
    def detail(self) -> str:
        """Return which labels are followed, for people."""
        return ", ".join(f"labels of {family.name}" for family in self._followed())

    @property
    def is_unsettled(self) -> bool:
        """Return whether labels changed since `settle`, or the choice is open."""
        return self._unsettled

    def validate(self) -> None:
        """Check that the nodes of each family are those whose values make a path."""
        counted = {name: _Counted.none() for name in self._families}
        for node, stated in self._stated.items():
            self._count(counted, node, stated)
        require(counted == self._counted, "nodes are counted under labels that do not place them")
        kept = {n for n, each in self._stated.items() if each.values != self._values(each.labels)}
        require(kept == self._kept_since_s.keys(), "values are kept that labels state, or not told")

    def _followed(self) -> tuple[LabelFamily, ...]:
        if not self._is_exclusive:
            return tuple(self._families.values())
        return (self._families[self.followed],) if self.followed else ()

    def _values(self, labels: Labels) -> dict[str, _Values]:
        """Return what the labels say, of each family of which they say anything."""
        of_key = dict(labels)
        found = {
            name: tuple(level.value(of_key) for level in family.levels)
            for name, family in self._families.items()
        }
        return {name: values for name, values in found.items() if any(values)}

    def _put(self, node: NodeName, stated: _Stated | None) -> bool:
        before = self._stated.pop(node, None)
        self._kept_since_s.pop(node, None)
        for name in before.values if before is not None else ():
            self._counted[name].placed.discard(node)
            self._counted[name].whole.discard(node)
        if stated is not None:
            self._stated[node] = stated
            self._count(self._counted, node, stated)
        self._unsettled = True
        return (before and before.values) != (stated and stated.values)

    def _count(self, counted: Mapping[str, _Counted], node: NodeName, stated: _Stated) -> None:
        for name, values in stated.values.items():
            family = self._families[name]
            if isinstance(_path(family, values), Reason):
                continue
            counted[name].placed.add(node)
            levels = zip(family.levels, values, strict=True)
            if all(value or level.is_optional for level, value in levels):
                counted[name].whole.add(node)

    def _choice(self, *, is_complete: bool) -> str:
        """Return the family to follow; "" while none places a node."""
        current = self._counted.get(self.followed)
        if current is not None and current.placed:
            newer = (n for n in self._families if self._replaces(n, self.followed))
            better = next((n for n in newer if self._counted[n].covers(current)), None)
            if better is not None or is_complete:
                return better or self.followed
        placing = [name for name, counted in self._counted.items() if counted.placed]
        return max(placing, key=lambda name: self._counted[name].size, default="")

    def _replaces(self, newer: str, older: str) -> bool:
        """Return whether a family replaces another, directly or through others."""
        name = self._families[newer].replaces
        while name and name != older:
            name = self._families[name].replaces if name in self._families else ""
        return bool(name)


def doubts(labelled: Labelled) -> Iterator[str]:
    """Yield a sentence for families that are there and not followed."""
    others = [f"{name} ({nodes} nodes)" for name, nodes in labelled.other_families.items()]
    if others:
        yield f"groups follow the labels of {labelled.followed}; there are also {', '.join(others)}"


def _merged(old: _Values, new: _Values) -> _Values:
    """Return what counts: the old values while the new ones only say less."""
    pairs = list(zip(old or [""] * len(new), new or [""] * len(old), strict=True))
    says_otherwise = any(now and now != then for then, now in pairs)
    return new if says_otherwise else old or new


def _path(family: LabelFamily, values: _Values) -> Path | Reason:
    """Return the groups of a family's values, or why they make none."""
    path: list[PathGroup] = []
    gap: LabelLevel | None = None
    for level, value in zip(family.levels, values or [""] * len(family.levels), strict=False):
        if value and gap is not None:
            text = f"{level.key} is {value}, and {gap.key} says nothing"
            return Reason(NodeCondition.GROUP_LABEL_MISSING, text)
        if value:
            path.append(PathGroup(level.kind, value, GroupName(value), CLUSTER_NODES))
        elif not level.is_optional:
            gap = gap or level
    if path:
        return tuple(path)
    keys = family.keys
    shown = ", ".join(keys[:SHOWN_KEYS]) + (", …" if len(keys) > SHOWN_KEYS else "")
    return Reason(NodeCondition.NO_GROUP_LABEL, f"no label of {shown} says anything")
