"""Scores of nodes for one pod of shared cards after the other, without a look at each card.

A scheduler asks about thousands of nodes for each pod, and most of them are as they were at its
last question. Of the last requests what each node has for them is kept until the node changes; a
request that was not asked about lately is compared with all nodes at once (`columns`). The scores
are those of `choice.rank` with `binpack`, to which a test holds them.

Cost: O(cards of changed nodes), O(nodes x cards) in array operations for a request that was not
asked about lately, and one look-up for each node.

Example: cards with 30, 60 and 100 cores left. A pod of 50 cores gets the second: 60, the number by
which nodes are ordered.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from topo.shared_cards.cards import NO_CARDS, CardsSnapshot
from topo.shared_cards.choice import MOST_SCORE
from topo.shared_cards.columns import NO_ROOM, CardColumns
from topo.shared_cards.requests import CardRequest

KEPT_REQUESTS = 16
"""Requests whose nodes are kept: jobs are of few shapes. One has some 100 bytes for each node."""


def scores_of(orders: Mapping[str, int], names: Sequence[str]) -> Sequence[int]:
    """Return the score of each named node by these orders: 1 to 10, or 0 without room. O(names)."""
    found = list(map(orders.get, names))
    places = sorted(each for each in set(found) if each not in (None, NO_ROOM))
    last = max(len(places) - 1, 1)
    scored: dict[int | None, int] = {None: 0, NO_ROOM: 0}
    for at, order in enumerate(places):
        scored[order] = MOST_SCORE - (MOST_SCORE - 1) * at // last
    return list(map(scored.__getitem__, found))


@dataclass(slots=True)
class _Kept:
    """The orders of nodes for a request; `stale`: those that changed since."""

    orders: dict[str, int]
    stale: set[str] = field(default_factory=set)


@dataclass
class NodeScores:
    """Scores of the nodes of a snapshot. Mutable; one owner asks."""

    _seen: CardsSnapshot = NO_CARDS
    _columns: CardColumns = field(default_factory=CardColumns)
    _kept: dict[CardRequest, _Kept] = field(default_factory=dict)
    """The orders of nodes for the last requests, the latest last."""

    def scores(
        self, request: CardRequest, names: Sequence[str], cards: CardsSnapshot
    ) -> Sequence[int]:
        """Return the score of each named node: 1 to 10 where it can take the pod, else 0."""
        return scores_of(self.orders(request, cards), names)

    def orders(self, request: CardRequest, cards: CardsSnapshot) -> Mapping[str, int]:
        """Return by what nodes with cards are ordered for a request, until the next question."""
        self._follow(cards)
        return self._orders(request)

    def _orders(self, request: CardRequest) -> dict[str, int]:
        """Return the order of each node with cards for a request."""
        kept, columns = self._kept.pop(request, None), self._columns
        if kept is None:
            kept = _Kept(dict(zip(columns.names, columns.orders(request), strict=True)))
        elif kept.stale:
            kept.orders.update(columns.orders_of(request, kept.stale))
            kept.stale.clear()
        while len(self._kept) >= KEPT_REQUESTS:
            del self._kept[next(iter(self._kept))]
        self._kept[request] = kept
        return kept.orders

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
                self._columns.set_node(name, found)
                for kept in self._kept.values():
                    kept.stale.add(name)
                continue
            self._columns.remove_node(name)
            for kept in self._kept.values():
                kept.orders.pop(name, None)
        self._seen = cards
