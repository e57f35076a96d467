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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from topo.shared_cards.cards import NO_CARDS, NOTHING, CardsSnapshot, NodeCards
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


def _numbers(found: NodeCards) -> _Numbers:
    is_managers = found.family == GPU_MANAGER
    parts, whole, idle = list[tuple[int, int, int]](), list[int](), 0
    for usage in found.cards:
        (_, total, is_healthy, *_), used = usage
        is_idle = used == NOTHING
        idle += is_idle
        if not is_healthy:
            continue
        if is_idle:
            whole.append(total.memory)
        cores, memory = left(usage)
        is_shared_out = 0 < total.shares <= used.shares and not is_managers
        is_full = total.cores > 0 and not cores  # nothing joins it
        if not (is_shared_out or is_full):
            parts.append((cores, memory, total.memory))
    return _Numbers(
        family=found.family,
        parts=tuple(sorted(parts)),
        whole=tuple(whole),
        idle=idle,
        most_cores=found.free.cores if is_managers and found.unassigned.cores else _ANY,
    )


def _orders(
    request: CardRequest, names: Iterable[str], numbers: Mapping[str, _Numbers]
) -> dict[str, int]:
    """Return by what each node with cards is ordered for a request, the least first, or `_NO_ROOM`.

    One loop without calls: a new request is looked up in all cards while a scheduler waits.
    """
    (_, cores, memory), is_managers = request.each, request.family == GPU_MANAGER
    least = 0 if is_managers else memory
    wanted = 1 if is_managers and not request.is_whole else request.number
    together, orders = request.number * cores, dict[str, int]()
    for name in names:
        if (node := numbers.get(name)) is None:
            continue
        orders[name] = _NO_ROOM
        if node.family != request.family or together > node.most_cores:
            continue
        if request.is_whole:
            if sum(each >= least for each in node.whole) >= wanted:
                orders[name] = node.idle
            continue
        first, missing = _NO_ROOM, wanted
        for has_cores, has_memory, all_memory in node.parts:
            if has_cores >= cores and has_memory >= (memory or all_memory):
                first = has_cores if missing == wanted else first
                missing -= 1
                if not missing:
                    orders[name] = first
                    break
    return orders


@dataclass(slots=True)
class _Kept:
    """The orders of nodes for a request; `stale`: those that had one and changed since."""

    orders: dict[str, int] = field(default_factory=dict)
    stale: set[str] = field(default_factory=set)


@dataclass
class NodeScores:
    """Scores of the nodes of a snapshot. Mutable; one owner asks."""

    _seen: CardsSnapshot = NO_CARDS
    _numbers: dict[str, _Numbers] = field(default_factory=dict)
    _kept: dict[CardRequest, _Kept] = field(default_factory=dict)
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
        kept = self._kept.pop(request, None) or _Kept()
        while len(self._kept) >= KEPT_REQUESTS:
            del self._kept[next(iter(self._kept))]
        self._kept[request] = kept
        numbers, orders = self._numbers, kept.orders
        orders |= _orders(request, kept.stale, numbers)
        kept.stale.clear()
        if 2 * len(orders) < len(numbers) < 2 * len(names):
            # All in the order in which they were made takes a third of the time of most at random.
            orders |= _orders(request, numbers, numbers)
        found = list(map(orders.get, names))
        if len(orders) < len(numbers) and None in found:
            missing = [name for name in names if name not in orders]
            orders |= _orders(request, missing, numbers)
            found = list(map(orders.get, names))
        return found

    def _follow(self, cards: CardsSnapshot) -> None:
        """Take up a snapshot; nodes that are the same objects as before did not change."""
        if cards is self._seen:
            return
        before, now = self._seen.nodes, cards.nodes
        if cards.before == self._seen.version:
            changed = cards.changed
        else:
            found_anew = (name for name in now if now[name] is not before.get(name))
            changed = frozenset(before.keys() - now.keys()).union(found_anew)
        for name in changed:
            if (found := now.get(name)) is not None:
                self._numbers[name] = _numbers(found)
            else:
                self._numbers.pop(name, None)
            for kept in self._kept.values():
                if kept.orders.pop(name, None) is not None:
                    kept.stale.add(name)
                if found is None:
                    kept.stale.discard(name)
        self._seen = cards
