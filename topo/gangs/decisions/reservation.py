"""The nodes to reserve for a job that does not fit: those on which it is likely to fit first.

Result: domains for all of its groups in which the fewest slots have yet to become free, and in them
the nodes with the most free slots. Ties go to the first in the order of the tree. Closed nodes are
left out: when they open is unknown.

Why it is right. A domain with C slots, F of them free, takes its first F // k groups of k pods
without waiting, the next one once k - F % k slots become free, each further one once k do. These
numbers grow, so taking the smallest of all of them, domain by domain, is the least sum for any
number of groups. The smaller last group then goes where it misses the fewest slots. With `within`
each group of that kind is tried separately. If groups may be split, each pod counts as a
group.

Cost: O(domains log domains) and the nodes of those chosen.

Example: dragonflies of two nodes, free 1 0 2 1, a job of two groups of two pods. The third has room
for a group, the first misses one slot. Reserved: both nodes of the third and of the first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from topo.model.ids import NodeName
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.slots import ELIGIBLE, Slots
from topo.placement.job.request import PlacementMode, Request
from topo.placement.search.other_groups import requests_inside
from topo.placement.view import FreeView, view_of


@dataclass(frozen=True, slots=True)
class _Choice:
    """Slots in domains of one tier; `missing` of them are not free yet."""

    missing: int
    tier: int
    slots: dict[int, int]


def reservation(capacity: CapacityView, request: Request) -> tuple[NodeName, ...]:
    """Return the nodes in tree order; empty if the job does not fit on the open nodes."""
    wished = request.eligible.gpu_type
    best: tuple[_Choice, FreeView, Slots] | None = None
    for gpu_type in (wished,) if wished is not None else capacity.gpu_types():
        for each in requests_inside(capacity, request, gpu_type, idle=True):
            view = view_of(capacity, each, gpu_type)
            idle = capacity.empty_slots(view.slots, None)
            choice = _choice(view, idle, each)
            if choice is not None and (best is None or choice.missing < best[0].missing):
                best = choice, view, idle
    return tuple(_nodes(capacity, *best)) if best is not None else ()


def _choice(view: FreeView, idle: Slots, request: Request) -> _Choice | None:
    """Return the domains with the fewest missing slots, in one group of the required kind."""
    if request.within is None:
        return _inside(view, idle, request, None)
    scopes = (
        _inside(view, idle, request, scope) for scope in view.layout.groups_of(request.within)
    )
    found = [choice for choice in scopes if choice is not None]
    return min(found, key=lambda choice: choice.missing, default=None)


def _inside(
    view: FreeView, idle: Slots, request: Request, scope: tuple[int, int] | None
) -> _Choice | None:
    """Return the domains with the fewest missing slots in a group (tier, domain), or in all."""
    layout, shape = view.layout, view.shape
    k, groups, tail, tier = shape.k, shape.m, shape.r, shape.whole_in
    # Groups that may be split: every pod counts as a group of its own.
    if request.mode is PlacementMode.PREFERRED:
        k, groups, tail, tier = 1, shape.pods, 0, 1
    first, last = 0, len(layout.firsts[tier]) - 1
    if scope is not None:
        tier = min(tier, scope[0])
        bounds = layout.below(scope[0], tier)
        first, last = bounds[scope[1]], bounds[scope[1] + 1]
    free = layout.rolled(view.free, tier).tolist()
    room = layout.rolled(idle.free, tier).tolist()
    domains = range(first, last)
    steps = (step for at in domains for step in _steps(free[at], room[at], k, at))
    # The steps of one domain grow, so that the smallest of all are a valid choice per domain.
    taken = nsmallest(groups, steps)
    if len(taken) < groups:
        return None
    slots: dict[int, int] = {}
    for _, at in taken:
        slots[at] = slots.get(at, 0) + k
    missing = sum(each for each, _ in taken)
    if tail:
        more = [
            (max(0, slots.get(at, 0) + tail - max(free[at], slots.get(at, 0))), at)
            for at in domains
            if slots.get(at, 0) + tail <= room[at]
        ]
        if not more:
            return None
        lacks, at = min(more)
        slots[at] = slots.get(at, 0) + tail
        missing += lacks
    return _Choice(missing, tier, slots)


def _steps(free: int, room: int, k: int, at: int) -> Iterator[tuple[int, int]]:
    """Yield, for each further group of k pods, the slots still missing and the domain."""
    for number in range(1, room // k + 1):
        yield min(k, max(0, number * k - free)), at


def _nodes(
    capacity: CapacityView, choice: _Choice, view: FreeView, idle: Slots
) -> Iterator[NodeName]:
    firsts = view.layout.firsts[choice.tier]
    for domain, slots in sorted(choice.slots.items()):
        hosts = [
            (capacity.free(host.name) // idle.gpus, host.gpus // idle.gpus, host.name)
            for at in range(firsts[domain], firsts[domain + 1])
            for host_id, host, _ in capacity.members(at)
            if host.is_open and idle.mask[host_id] == ELIGIBLE
        ]
        # Nodes with the most free slots wait the least.
        hosts.sort(key=lambda each: -each[0])
        yield from _enough(hosts, slots)


def _enough(hosts: Sequence[tuple[int, int, NodeName]], slots: int) -> Iterator[NodeName]:
    """Yield the first nodes that together have so many slots."""
    for _, room, name in hosts:
        if slots <= 0:
            return
        if room:
            slots -= room
            yield name
