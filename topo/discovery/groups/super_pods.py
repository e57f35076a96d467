"""Ascend super pods: what nodes state of theirs beside its number, and contradictions.

A super pod is known by a number that its management hands out, so two of them may have one number.
Each of its nodes also states its server index, which is unique inside, and the size of the whole.

Result: why the nodes that state one number cannot be one super pod, or that some of it is not here.
They cannot if two have one server index, if their sizes differ, or if they have more NPUs than the
size. They stay one group all the same, NotReady, since to part them would be to invent wiring.
Fewer NPUs than the size are told, and the group stays Ready: the other nodes may be in another
cluster.

A chip reports itself once for each die, and whether a size counts chips or dies is not documented;
so the findings name only a number that is too large, or too small, under both readings.

Cost: O(1) to put, O(nodes of the super pod) to judge. A node that joins a sound super pod has no
other node placed again but the one that owns what is found: 1,000 nodes that join one by one would
else cost a million placements.

Example: 24 nodes with 16 dies each state super pod 0 with 384 NPUs: all of it. Seven of them: 112
of 384. Two with server index 3: two super pods of one number.
"""

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from topo.model.conditions.tree import ConflictCondition
from topo.model.ids import NodeName, natural_key
from topo.model.machine import NodeFacts
from topo.model.words import listed

_DIES = 2
"""The most dies that a chip has."""


class Seat(NamedTuple):
    """A node's server index in its super pod, the size that it states, and its own NPUs."""

    server: int
    size: int
    npus: int


class SuperPodFinding(NamedTuple):
    """What of a super pod's nodes does not fit."""

    code: ConflictCondition
    nodes: tuple[NodeName, ...]
    text: str


def seat_of(facts: NodeFacts | None) -> Seat | None:
    """Return the seat that a node's NPUs state; the lowest one where they differ. O(NPUs)."""
    if facts is None or not facts.fabrics:
        return None
    stated = [
        (each.server, each.size)
        for each in facts.fabrics
        if each.server is not None and each.size is not None
    ]
    return Seat(*min(stated), len(stated)) if stated else None


class SuperPods:
    """The seats by node. Mutable; owned by the discovery state."""

    def __init__(self) -> None:
        self._seats: dict[NodeName, Seat] = {}
        self._doubled: dict[str, SuperPodFinding] = {}

    def seat(self, node: NodeName) -> Seat | None:
        """Return what a node stated last; None outside any super pod."""
        return self._seats.get(node)

    def put(self, node: NodeName, seat: Seat | None) -> bool:
        """Take what a node states; whether it is something else than before."""
        before = self._seats.get(node)
        if seat is None:
            self._seats.pop(node, None)
        else:
            self._seats[node] = seat
        return before != seat

    def judged_anew(
        self, name: str, members: AbstractSet[NodeName], node: NodeName
    ) -> set[NodeName]:
        """Return the members that differ since `node` joined, left or moved.

        All where the group has other reasons now, else those that own what is found: the least.
        """
        found = self.judge(name, members)
        is_doubled = found is not None and found.code is ConflictCondition.SUPER_POD_DOUBLED
        before = self._doubled.pop(name, None)
        after = found if is_doubled else None
        if after is not None:
            self._doubled[name] = after
        if before != after:
            return set(members)
        return {min(each) for each in (members, members - {node}) if each}

    def judge(self, name: str, members: Collection[NodeName]) -> SuperPodFinding | None:
        """Return what does not fit of the nodes that state this super pod."""
        seats = {node: self._seats[node] for node in members if node in self._seats}
        nodes = tuple(sorted(seats, key=natural_key))
        if why := _contradiction(nodes, seats):
            text = f"{name} cannot be one super pod: {why}"
            return SuperPodFinding(ConflictCondition.SUPER_POD_DOUBLED, nodes, text)
        size = max((seat.size for seat in seats.values()), default=0)
        npus = sum(seat.npus for seat in seats.values())
        if npus < size and len(seats) == len(members):
            have = f"{len(nodes)} nodes here have" if len(nodes) > 1 else "one node here has"
            text = f"{name} has {size} NPUs, and its {have} {npus}"
            return SuperPodFinding(ConflictCondition.SUPER_POD_INCOMPLETE, nodes, text)
        return None


def _contradiction(nodes: Iterable[NodeName], seats: Mapping[NodeName, Seat]) -> str:
    """Return what rules out that these nodes are one super pod; "" for nothing."""
    at: dict[int, NodeName] = {}
    for node in nodes:
        other = at.setdefault(seats[node].server, node)
        if other != node:
            return f"{other} and {node} both state server index {seats[node].server}"
    sizes: dict[int, list[NodeName]] = {}
    for node in nodes:
        sizes.setdefault(seats[node].size, []).append(node)
    if len(sizes) > 1:
        said = (
            f"{listed(who)} say{'s' if len(who) == 1 else ''} that it has {size} NPUs"
            for size, who in sorted(sizes.items())
        )
        return ", ".join(said)
    npus = sum(seat.npus for seat in seats.values())
    if sizes and npus > _DIES * max(sizes):
        return f"its nodes have {npus} NPUs, and it has {max(sizes)}"
    return ""
