"""Which of the changes on offer would make a job fit, at the least cost that is found.

A mend opens domains for one more group at a time, each time where it costs least. That is a search
for good advice by the numbers: whoever gives the advice tries it first.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from topo.placement.advice.candidate_changes import PROMISING, Offer
from topo.placement.advice.need import Need, Scope, domains
from topo.placement.job.request import Mode
from topo.placement.search.job_shape import Shape

MOST_CHANGES = 32
"""Nodes or owners in one mend; a longer list is no advice."""


@dataclass(frozen=True, slots=True)
class Mend:
    """Changes that make room by the numbers, cheapest known."""

    names: tuple[str, ...]
    cost: int


def mend(need: Need, offers: Sequence[Offer]) -> Mend | None:
    """The cheapest mend over the scopes by the numbers, or none that the offers suffice for."""
    works = (_Work(need, scope, inside) for scope, inside in _by_scope(need, offers))
    bounds = ((work.least_cost(), work) for work in works)
    promising = sorted(((cost, work) for cost, work in bounds if cost is not None), key=_cost)
    found = [work.mended() for _, work in promising[:PROMISING]]
    return min((one for one in found if one), key=lambda one: (one.cost, one.names), default=None)


def _cost(bound: tuple[float, "_Work"]) -> float:
    return bound[0]


def _by_scope(
    need: Need, offers: Sequence[Offer]
) -> Iterator[tuple[Scope, list[tuple[Offer, int]]]]:
    """The scopes in which something is on offer, with the slots that each offer gives there."""
    gains = sorted(
        (cell, at, slots) for at, offer in enumerate(offers) for cell, slots in offer.slots
    )
    for scope in need.scopes:
        inside: dict[int, int] = {}
        low = bisect_left(gains, (scope.first,))
        high = bisect_left(gains, (scope.last,))
        for _, at, slots in gains[low:high]:
            inside[at] = inside.get(at, 0) + slots
        if inside:
            yield scope, [(offers[at], slots) for at, slots in sorted(inside.items())]


@dataclass(frozen=True)
class _Work:
    """Mending one scope: offers are taken one after the other, and those left out at last that
    turn out not to be needed.
    """

    need: Need
    scope: Scope
    offers: Sequence[tuple[Offer, int]]

    def least_cost(self) -> float | None:
        """What it costs at least to have slots for all pods; None: the offers give too few."""
        lack, cost = self.need.shape.pods - self.scope.room, 0.0
        for offer, slots in self._ranked()[:MOST_CHANGES]:
            if lack <= 0:
                break
            cost += offer.cost * min(1.0, lack / slots)
            lack -= slots
        return cost if lack <= 0 else None

    def mended(self) -> Mend | None:
        """The changes that make it fit, or None where they do not."""
        anywhere = self.need.request.mode is Mode.PREFERRED
        taken = self._for_pods() if anywhere else self._for_groups()
        if taken is None:
            return None
        fit = self._pods_fit if anywhere else self._groups_fit
        for offer in sorted(taken, key=lambda offer: (-offer.cost, offer.total, offer.name)):
            rest = [other for other in taken if other is not offer]
            if fit(rest):
                taken = rest
        return Mend(tuple(offer.name for offer in taken), sum(offer.cost for offer in taken))

    def _ranked(self) -> list[tuple[Offer, int]]:
        """The offers from the one that gives most for its cost on."""
        return sorted(self.offers, key=lambda one: (one[0].cost / one[1], one[0].name))

    def _pods_fit(self, taken: Sequence[Offer]) -> bool:
        gains = {offer.name: slots for offer, slots in self.offers}
        return self.scope.room + sum(gains[o.name] for o in taken) >= self.need.shape.pods

    def _for_pods(self) -> list[Offer] | None:
        """Room for single pods anywhere."""
        taken: list[Offer] = []
        for offer, _ in self._ranked()[:MOST_CHANGES]:
            taken.append(offer)
            if self._pods_fit(taken):
                return taken
        return None

    def _groups_fit(self, taken: Sequence[Offer]) -> bool:
        rooms = _Rooms(self.need, domains(self.need, self.scope), taken)
        for offer in taken:
            rooms.take(offer)
        return rooms.fit(self.need.shape)

    def _for_groups(self) -> list[Offer] | None:
        """One more group at a time, where it costs least, then the tail."""
        shape = self.need.shape
        part = domains(self.need, self.scope)
        if not shape.tier or part.start == part.stop:
            return None
        rooms = _Rooms(self.need, part, [offer for offer, _ in self.offers])
        taken: list[Offer] = []
        while not rooms.fit(shape):
            pick = rooms.cheapest(shape)
            if pick is None or len(taken) + pick[1] > MOST_CHANGES:
                return None
            for offer in pick[-1]:
                taken.append(offer)
                rooms.take(offer)
        return taken


class _Rooms:
    """Free slots of the domains of a scope, and the offers in each that are left."""

    def __init__(self, need: Need, part: slice, offers: Sequence[Offer]) -> None:
        tier = need.shape.whole_in
        self._of, self._first = need.layout.of[tier], part.start
        self._rooms = need.layout.rolled(need.slots.free, tier)[part].copy()
        self._left: dict[int, dict[str, tuple[Offer, int]]] = {}
        self._size, self._picks = 0, dict[int, Priced | None]()
        for offer in offers:
            for domain, slots in self._gains(offer).items():
                self._left.setdefault(domain, {})[offer.name] = offer, slots

    def fit(self, shape: Shape) -> bool:
        """Whether the job fits by the numbers."""
        groups, rest = int((self._rooms // shape.k).sum()), int((self._rooms % shape.k).max())
        return groups > shape.m or (groups == shape.m and rest >= shape.r)

    def cheapest(self, shape: Shape) -> "Priced | None":
        """The offers that give one more group, or the tail if only that is missing."""
        tail = int((self._rooms // shape.k).sum()) >= shape.m
        size = shape.r if tail else shape.k
        if size != self._size:
            self._size, self._picks = size, {}
        for domain in self._left:
            if domain not in self._picks:
                lack = size - int(self._rooms[domain]) % shape.k
                self._picks[domain] = self._pick(domain, lack)
        return min((pick for pick in self._picks.values() if pick), default=None)

    def take(self, offer: Offer) -> None:
        """An offer was taken: its slots are there, in all its domains."""
        for domain, slots in self._gains(offer).items():
            self._rooms[domain] += slots
            self._left[domain].pop(offer.name, None)
            self._picks.pop(domain, None)

    def _gains(self, offer: Offer) -> dict[int, int]:
        gains: dict[int, int] = {}
        for cell, slots in offer.slots:
            domain = self._of[cell] - self._first
            if 0 <= domain < len(self._rooms):
                gains[domain] = gains.get(domain, 0) + slots
        return gains

    def _pick(self, domain: int, lack: int) -> "Priced | None":
        """The cheapest known offers that give a domain so many slots: one alone or several."""
        offers = sorted(self._left[domain].values(), key=lambda o: (o[0].cost, -o[1], o[0].name))
        alone = next(((offer,) for offer, slots in offers if slots >= lack), None)
        together = _enough(offers, lack)
        return min((_priced(p) for p in (alone, together) if p), default=None)


def _enough(offers: Sequence[tuple[Offer, int]], lack: int) -> tuple[Offer, ...] | None:
    """The first offers that suffice together, less those that turn out not to be needed."""
    chosen: list[tuple[Offer, int]] = []
    total = 0
    for offer in offers:
        chosen.append(offer)
        total += offer[1]
        if total >= lack:
            break
    if total < lack:
        return None
    for offer in reversed(chosen[:]):
        if total - offer[1] >= lack:
            chosen.remove(offer)
            total -= offer[1]
    return tuple(offer for offer, _ in chosen)


Priced = tuple[int, int, int, tuple[str, ...], tuple[Offer, ...]]
"""Cost, number, slots given anywhere (negative: more is better) and names of offers, then the
offers themselves: names differ before those do."""


def _priced(offers: tuple[Offer, ...]) -> Priced:
    total = sum(offer.total for offer in offers)
    cost, names = sum(offer.cost for offer in offers), tuple(offer.name for offer in offers)
    return cost, len(offers), -total, names, offers
