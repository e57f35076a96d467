"""What of the cluster would have to change for a job to fit: nodes to open, owners to release.

A mend opens domains for one more group at a time, each time where it costs least; the domains that
lack least are looked at. That is a search for good advice: whoever gives it has tried it first.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from topo.model.forest import ROOT
from topo.model.ids import GroupPath, NodeName
from topo.placement.assume import opened
from topo.placement.capacity import Capacity
from topo.placement.eligible import eligible
from topo.placement.request import Eligibility, Mode, Request
from topo.placement.shape import Shape, shape_of
from topo.placement.slots import ELIGIBLE, Slots
from topo.placement.structure import Counts, Layout

TRIED = 128
"""Domains that are looked at for owners to release, and the nodes of those that are compared."""
MOST_NODES = 256
PROMISING = 3
"""Groups of the kind that a job must stay in for which mends are compared."""
MOST_CHANGES = 32
"""Nodes or owners in one mend; a longer list is no advice."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A change that could be made: what it costs and the slots it gives, by cell."""

    name: str
    cost: int
    slots: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Mend:
    """Changes that make room by the numbers, cheapest known."""

    names: tuple[str, ...]
    cost: int


class Scope(NamedTuple):
    """A range of cells that a job has to stay in, the group that it is, the free slots there."""

    first: int
    last: int
    path: GroupPath
    room: int


@dataclass(frozen=True, slots=True)
class Need:
    """A request over the nodes of one type, in slots; `scopes` from the one with most room on."""

    request: Request
    gpu_type: str
    layout: Layout
    shape: Shape
    slots: Slots
    scopes: tuple[Scope, ...]

    @property
    def wish(self) -> Eligibility:
        """Which nodes count, with the type."""
        return self.slots.wish


def need_of(capacity: Capacity, request: Request, gpu_type: str) -> Need:
    """The need; no scopes where no group of the kind that it asks for exists."""
    layout = capacity.layout()
    slots = capacity.slots(request.eligible, gpu_type, request.gpus_per_pod)
    sums = [0, *np.cumsum(slots.free).tolist()]
    scopes = (
        Scope(first, last, path, sums[last] - sums[first])
        for first, last, path in _ranges(layout, request)
    )
    return Need(
        request=request,
        gpu_type=gpu_type,
        layout=layout,
        shape=shape_of(capacity, request, gpu_type),
        slots=slots,
        scopes=tuple(sorted(scopes, key=lambda scope: (-scope.room, scope.first))),
    )


def closed_nodes(capacity: Capacity, need: Need) -> list[Offer]:
    """Nodes that would give slots if they were ready and uncordoned; each costs 1; O(nodes)."""
    offers = []
    for host in capacity.hosts():
        if host.ready and not host.cordoned:
            continue
        slots = capacity.free(host.name) // need.shape.gpus
        if slots and eligible(opened(host) if host.taints else host, need.wish):
            offers.append(Offer(host.name, 1, ((capacity.position(host.name)[0], slots),)))
    return offers


def owners(capacity: Capacity, need: Need) -> list[Offer]:
    """Owners of bookings in the domains that lack least for one more group; costs are their GPUs.

    O(bookings), and O(hosts) of those domains.
    """
    near = _near(capacity, need)
    offers = []
    for owner, booked in capacity.bookings().items():
        if near.keys().isdisjoint(booked):
            continue
        gains = _gains(capacity, need, near, booked.items())
        if gains:
            offers.append(Offer(owner, sum(booked.values()), gains))
    return offers


def rooms_in(need: Need, scope: Scope) -> Counts:
    """Free slots of the domains of a scope that hold groups."""
    return need.layout.rolled(need.slots.free, need.shape.whole_in)[_domains(need, scope)]


def mend(need: Need, offers: Sequence[Offer]) -> Mend | None:
    """The cheapest mend over the scopes by the numbers, or none that the offers suffice for."""
    found = [_Work(need, scope, offers).mended() for scope in need.scopes[:PROMISING]]
    return min((one for one in found if one), key=lambda one: (one.cost, one.names), default=None)


def most_pods(capacity: Capacity, need: Need) -> int:
    """The most pods, fewer than asked for, that could be placed by the numbers; 0 for none.

    Exact without reserves: all whole groups and the largest rest for a tail.
    """
    request, shape = need.request, need.shape
    below = request.pods - 1
    if request.mode is Mode.PREFERRED:
        return min(below, need.scopes[0].room) if need.scopes else 0
    if request.group_size is None:
        return _most_together(capacity, need)
    if not shape.tier:
        return 0
    rooms = need.layout.rolled(need.slots.free, shape.tier)
    best = 0
    for scope in need.scopes:
        if scope.room <= best:
            break
        part = rooms[_domains(need, scope)]
        if part.size:
            groups, rest = int((part // shape.k).sum()), int((part % shape.k).max())
            best = max(best, groups * shape.k + rest)
    return min(below, best)


def _most_together(capacity: Capacity, need: Need) -> int:
    """As `most_pods` for a job that is one group: a smaller one may have to fit a lower tier."""
    peaks = capacity.peaks(need.gpu_type, need.shape.gpus)
    for tier in range(need.shape.whole_in, 0, -1):
        rooms = need.layout.rolled(need.slots.free, tier)
        room = _largest(need, rooms, tier)
        pods = min(need.request.pods - 1, peaks[tier - 1], room)
        if pods > (peaks[tier - 2] if tier > 1 else 0):
            return pods
    return 0


def _largest(need: Need, rooms: Counts, tier: int) -> int:
    """The most slots in one domain of a tier, over the scopes."""
    best = 0
    for scope in need.scopes:
        if scope.room <= best:
            break
        best = max(best, int(rooms[_domains(need, scope, tier)].max(initial=0)))
    return best


def _ranges(layout: Layout, request: Request) -> Iterator[tuple[int, int, GroupPath]]:
    """All cells, or those of each group of the kind that the job must stay in."""
    if request.within is None:
        yield 0, len(layout.cells), ROOT
        return
    for tier in range(1, layout.tiers + 1):
        for domain, (first, last) in enumerate(pairwise(layout.firsts[tier])):
            ref = layout.ref(tier, domain)
            if ref.kind == request.within and tier in layout.cells[first].tiers:
                yield first, last, ref.path


def _domains(need: Need, scope: Scope, tier: int | None = None) -> slice:
    """The domains of a tier (the groups' own) that a scope consists of; none if it is smaller."""
    tier = tier or need.shape.whole_in
    of, firsts = need.layout.of[tier], need.layout.firsts[tier]
    first, last, *_ = scope
    if first == last or firsts[of[first]] < first or firsts[of[last - 1] + 1] > last:
        return slice(0, 0)
    return slice(of[first], of[last - 1] + 1)


_Near = dict[NodeName, tuple[int, int]]
"""(cell, GPUs) of open nodes that the job may use."""


def _near(capacity: Capacity, need: Need) -> _Near:
    """The nodes of the domains that lack least for one more group, in the promising scopes."""
    near: _Near = {}
    layout, tier = need.layout, need.shape.whole_in
    for domain in _lacking(need)[:TRIED].tolist():
        if len(near) >= MOST_NODES:
            break
        nodes: _Near = {}
        for cell in range(layout.firsts[tier][domain], layout.firsts[tier][domain + 1]):
            for host_id, host, _ in capacity.members(cell):
                if host.open and need.slots.mask[host_id] == ELIGIBLE:
                    nodes[host.name] = cell, host.gpus
        if _could_hold(capacity, need, nodes):
            near |= nodes
    return near


def _lacking(need: Need) -> Counts:
    """Domains where something runs, from the one that lacks least for one more group on."""
    shape, layout = need.shape, need.layout
    tier, size = shape.whole_in, _size(shape)
    lacks = size - layout.rolled(need.slots.free, tier) % size
    usable = np.zeros(len(lacks), np.bool_)
    for scope in need.scopes[:PROMISING]:
        usable[_domains(need, scope)] = True
    usable &= layout.rolled(need.slots.busy, tier) > 0
    found = np.flatnonzero(usable)
    ordered: Counts = found[np.argsort(lacks[found], kind="stable")]
    return ordered


def _size(shape: Shape) -> int:
    """Pods of a group that the job has."""
    return shape.k if shape.m else shape.r


def _could_hold(capacity: Capacity, need: Need, nodes: _Near) -> bool:
    """Whether one more group would fit on the nodes if nothing ran there."""
    gpus, size = need.shape.gpus, _size(need.shape)
    free = sum(capacity.free(node) // gpus for node in nodes)
    return sum(whole // gpus for _, whole in nodes.values()) // size > free // size


def _gains(
    capacity: Capacity,
    need: Need,
    near: _Near,
    booked: Iterable[tuple[NodeName, int]],
) -> tuple[tuple[int, int], ...]:
    """Slots by cell that come back with a booking."""
    gains: dict[int, int] = {}
    gpus = need.shape.gpus
    for node, count in booked:
        if node in near:
            cell, size = near[node]
            used = capacity.used(node)
            gain = max(0, size - used + count) // gpus - max(0, size - used) // gpus
            if gain:
                gains[cell] = gains.get(cell, 0) + gain
    return tuple(gains.items())


@dataclass
class _Work:
    """Mending one scope: domains as numbers, offers taken one after the other."""

    need: Need
    scope: Scope
    offers: Sequence[Offer]
    taken: dict[str, int] = field(default_factory=dict)

    def mended(self) -> Mend | None:
        """The changes that make it fit, or None where they do not."""
        if not self._reachable():
            return None
        fits = self._pods if self.need.request.mode is Mode.PREFERRED else self._groups
        if not fits():
            return None
        return Mend(tuple(self.taken), sum(self.taken.values()))

    def _reachable(self) -> bool:
        """Whether so few changes could give slots enough at all."""
        slots = sorted((sum(s for _, s in offer.slots) for offer in self.offers), reverse=True)
        return self.scope.room + sum(slots[:MOST_CHANGES]) >= self.need.shape.pods

    def _pods(self) -> bool:
        """Room for single pods anywhere: the offers that give most for their cost."""
        first, last, _, room = self.scope
        missing = self.need.shape.pods - room
        offers = [
            (offer, sum(slots for cell, slots in offer.slots if first <= cell < last))
            for offer in self.offers
        ]
        for offer, slots in sorted(offers, key=lambda o: (o[0].cost / max(1, o[1]), o[0].name)):
            if missing <= 0 or not slots or len(self.taken) >= MOST_CHANGES:
                break
            self.taken[offer.name] = offer.cost
            missing -= slots
        return missing <= 0

    def _groups(self) -> bool:
        shape = self.need.shape
        part = _domains(self.need, self.scope)
        if not shape.tier or part.start == part.stop:
            return False
        rooms = _Rooms(self.need, part, self.offers)
        while not rooms.fit(shape):
            pick = rooms.cheapest(shape)
            if pick is None or len(self.taken) + pick[1] > MOST_CHANGES:
                return False
            for offer in pick[-1]:
                self.taken[offer.name] = offer.cost
                rooms.take(offer)
        return True


class _Rooms:
    """Free slots of the domains of a scope, and the offers in each that are left."""

    def __init__(self, need: Need, part: slice, offers: Sequence[Offer]) -> None:
        tier = need.shape.whole_in
        self._of, self._first = need.layout.of[tier], part.start
        self._rooms: Counts = need.layout.rolled(need.slots.free, tier)[part].copy()
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


Priced = tuple[int, int, tuple[str, ...], tuple[Offer, ...]]
"""Cost, number and names of offers, then the offers themselves: names differ before those do."""


def _priced(offers: tuple[Offer, ...]) -> Priced:
    return sum(o.cost for o in offers), len(offers), tuple(o.name for o in offers), offers
