"""What a job needs, in slots, and how large a job could be where it is refused."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from topo.model.forest import ROOT
from topo.model.ids import GroupPath
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.layout import Counts, Layout
from topo.placement.capacity.slots import Slots
from topo.placement.job.request import Eligibility, Mode, Request
from topo.placement.search.job_shape import Shape, shape_of


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


def domains(need: Need, scope: Scope, tier: int | None = None) -> slice:
    """The domains of a tier (the groups' own) that a scope consists of; none if it is smaller."""
    tier = tier or need.shape.whole_in
    of, firsts = need.layout.of[tier], need.layout.firsts[tier]
    first, last, *_ = scope
    if first == last or firsts[of[first]] < first or firsts[of[last - 1] + 1] > last:
        return slice(0, 0)
    return slice(of[first], of[last - 1] + 1)


def rooms_in(need: Need, scope: Scope) -> Counts:
    """Free slots of the domains of a scope that hold groups."""
    return need.layout.rolled(need.slots.free, need.shape.whole_in)[domains(need, scope)]


def most_pods(capacity: Capacity, need: Need) -> int:
    """The most pods, fewer than asked for, that could be placed by the numbers; 0 for none.

    Exact without reserves: all whole groups and the largest rest for a tail.
    """
    request, shape = need.request, need.shape
    below = request.pods - 1
    if request.mode is Mode.PREFERRED:
        return min(below, need.scopes[0].room) if need.scopes else 0
    if request.group_size is None or not shape.tier:
        return _most_together(capacity, need)
    rooms = need.layout.rolled(need.slots.free, shape.tier)
    best = 0
    for scope in need.scopes:
        if scope.room <= best:
            break
        part = rooms[domains(need, scope)]
        if part.size:
            groups, rest = int((part // shape.k).sum()), int((part % shape.k).max())
            best = max(best, groups * shape.k + rest)
    return min(below, best)


def _most_together(capacity: Capacity, need: Need) -> int:
    """As `most_pods` for a job of one group or less: a smaller one may have to fit a lower tier."""
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
        best = max(best, int(rooms[domains(need, scope, tier)].max(initial=0)))
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
