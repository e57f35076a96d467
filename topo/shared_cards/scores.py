"""Scores of nodes for one pod of shared cards after the other, without a look at each card.

A scheduler asks about thousands of nodes for each pod, and most of them are as they were at its
last question. The cards of each node are kept as numbers, the fullest first, until the node
changes; of the last requests also what each node has for them. The scores are those of
`choice.rank` with `binpack`, to which a test holds them.

Cost: O(cards of changed nodes), O(nodes x cards) for a request that was not asked about lately,
else one look-up for each node.

Example: cards with 30, 60 and 100 cores left are kept as (30, ..), (60, ..), (100, ..). A pod of 50
cores gets the second: 60, the number by which nodes are ordered.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from topo.shared_cards.cards import NO_CARDS, CardsSnapshot, NodeCards
from topo.shared_cards.choice import MOST_SCORE, left
from topo.shared_cards.families import GPU_MANAGER
from topo.shared_cards.requests import CardRequest

KEPT_REQUESTS = 16
"""Requests whose nodes are kept: jobs are of few shapes. One has some 100 bytes for each node."""
_ANY = 1 << 62
_NO_ROOM = -1


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The cards of a node as numbers.

    `parts`: of each card that takes parts cores and memory left, and all memory, fullest first.
    `whole`: the memory of each idle card that takes a pod alone; `idle` counts all idle ones.
    `most_cores` is what pods may have together, where some have cards that nobody names.
    """

    family: str
    parts: tuple[tuple[int, int, int], ...]
    whole: tuple[int, ...]
    idle: int
    most_cores: int

    def order(self, request: CardRequest) -> int:
        """Return by what the node is ordered for a request, the least first, or `_NO_ROOM`."""
        if self.family != request.family:
            return _NO_ROOM
        _, cores, memory = request.each
        is_managers = self.family == GPU_MANAGER
        if is_managers and request.number * cores > self.most_cores:
            return _NO_ROOM
        if request.is_whole:
            least = 0 if is_managers else memory
            able = sum(each >= least for each in self.whole)
            return self.idle if able >= request.number else _NO_ROOM
        first, missing = None, 1 if is_managers else request.number
        for has_cores, has_memory, all_memory in self.parts:
            if has_cores >= cores and has_memory >= (memory or all_memory):
                first = has_cores if first is None else first
                missing -= 1
                if not missing:
                    return first
        return _NO_ROOM


def _numbers(found: NodeCards) -> _Numbers:
    healthy = [usage for usage in found.cards if usage.card.is_healthy]
    parts = []
    for usage in healthy:
        total, (cores, memory) = usage.card.total, left(usage)
        is_shared_out = 0 < total.shares <= usage.used.shares and found.family != GPU_MANAGER
        is_full = total.cores > 0 and not cores  # nothing joins it
        if not (is_shared_out or is_full):
            parts.append((cores, memory, total.memory))
    return _Numbers(
        family=found.family,
        parts=tuple(sorted(parts, key=lambda each: each[:2])),
        whole=tuple(usage.card.total.memory for usage in healthy if usage.is_idle),
        idle=sum(usage.is_idle for usage in found.cards),
        most_cores=found.free.cores if found.unassigned.cores else _ANY,
    )


@dataclass(slots=True)
class _Orders:
    """The orders of nodes for a request; `stale`: those that had one and changed since."""

    known: dict[str, int] = field(default_factory=dict)
    stale: set[str] = field(default_factory=set)


@dataclass
class NodeScores:
    """Scores of the nodes of a snapshot. Mutable; one owner asks."""

    _seen: CardsSnapshot = NO_CARDS
    _numbers: dict[str, _Numbers] = field(default_factory=dict)
    _orders: dict[CardRequest, _Orders] = field(default_factory=dict)
    """The orders of nodes for the last requests, the latest last."""

    def scores(
        self, request: CardRequest, names: Sequence[str], cards: CardsSnapshot
    ) -> Sequence[int]:
        """Return the score of each named node: 1 to 10 where it can take the pod, else 0."""
        self._follow(cards)
        found = self._found(request, names)
        places = sorted(each for each in set(found) if each not in (None, _NO_ROOM))
        last = max(len(places) - 1, 1)
        scored: dict[int | None, int] = {None: 0, _NO_ROOM: 0}
        for at, order in enumerate(places):
            scored[order] = MOST_SCORE - (MOST_SCORE - 1) * at // last
        return list(map(scored.__getitem__, found))

    def _found(self, request: CardRequest, names: Sequence[str]) -> list[int | None]:
        """Return the order of each named node for a request, None of one that has no cards."""
        orders = self._orders.pop(request, None) or _Orders()
        while len(self._orders) >= KEPT_REQUESTS:
            del self._orders[next(iter(self._orders))]
        self._orders[request] = orders
        numbers, known = self._numbers, orders.known
        while orders.stale:
            name = orders.stale.pop()
            known[name] = numbers[name].order(request)
        found = list(map(known.get, names))
        if len(known) < len(numbers) and None in found:
            for name in names:
                if name not in known and name in numbers:
                    known[name] = numbers[name].order(request)
            found = list(map(known.get, names))
        return found

    def _follow(self, cards: CardsSnapshot) -> None:
        """Take up a snapshot; nodes that are the same objects as before did not change."""
        if cards is self._seen:
            return
        before, now = self._seen.nodes, cards.nodes
        if cards.before == self._seen.version:
            changed = cards.changed
        else:
            names = before.keys() | now.keys()
            changed = frozenset(name for name in names if before.get(name) is not now.get(name))
        for name in changed:
            if (found := now.get(name)) is not None:
                self._numbers[name] = _numbers(found)
            else:
                self._numbers.pop(name, None)
            for orders in self._orders.values():
                if orders.known.pop(name, None) is not None:
                    orders.stale.add(name)
                if found is None:
                    orders.stale.discard(name)
        self._seen = cards
