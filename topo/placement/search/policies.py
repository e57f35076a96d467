"""The operator's policy in a search: groups that stay free, more domains than the fewest.

A reserve is a group of the tree, and how many canonical groups shall stay free in it. Which of its
groups stay free is our choice, and some choices leave the job no room where others do.

Result: the ways to keep all reserves that are tried, the one that takes least from the job first.

Why it is right: a placement leaves a reserve alone exactly if the groups that it needs can be kept
in some way beside it. Where there are no more ways than are tried, and canonical groups live in
tier 1, all are tried, so that none is missed; else the first are tried.

Cost: O(domains of the reserve) for each way.

Example: free slots 8, 6, 5 and 4 in a switchbox that keeps one group of 4; groups of 3. Kept in the
4 it costs the job one group, in the 5 and in the 8 too, in the 6 two. So the smallest comes first:
8, 6 and 5 are left for the job. Kept in the 8 it would leave no room for more than two groups in
one dragonfly.

Extra domains, where the operator allows them: one more where that leaves more whole groups. Result:
the best placement by the objective; or, where that breaks canonical groups which another one leaves
whole, the other one, if it uses no more than so many domains of any tier beyond the best one's.

How: what is in no canonical group, the *rests*, can be taken without breaking one. Two placements
are tried beside the best: the whole job in rests; and its whole groups where the best search puts
them, but the tail in rests. Of those that use few enough domains the one that loses fewest
canonical groups is taken, then the one that is best by the objective.

Why it is right: both are placements like any other, measured as such; nothing is proven of them
beyond their bounds. A third one might save as many groups with fewer domains: it is a heuristic.

Cost: two more searches, where the policy is on and the best placement breaks more groups than it
must.

Example: switchbox A has dragonflies of 8 and 8 free slots, B one of 5; canonical groups of 8. A job
of one group of 8 and a tail of 4 goes to A: one switchbox, and both groups of it are lost. With one
extra domain the tail goes to B: two switchboxes, and a whole group stays free in A.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from topo.model.ids import GroupPath
from topo.placement.capacity.layout import Counts, Layout
from topo.placement.job.plan import Allocation, Share
from topo.placement.quality.measure import Candidate, candidate_of
from topo.placement.view import FreeView, JobShape

Reserves = Sequence[tuple[GroupPath, int]]
MOST_WAYS = 8
"""Ways to keep the reserves that are tried for a job."""
MOST_LOOKED_AT = 4096
"""Tier-1 domains that may be looked at in all ways but the first two."""
Search = Callable[[FreeView], Candidate | None]
"""The best candidate with every group whole."""


class _Kept(NamedTuple):
    """Canonical groups that stay free among the tier-1 domains `first` to `last` - 1."""

    first: int
    last: int
    groups: int


def ways_to_keep(view: FreeView, reserves: Reserves) -> Iterator[Counts]:
    """Yield free slots without those that the reserves keep, once for each way to keep them."""
    ranges = [(found, groups) for path, groups in reserves if (found := view.layout.range_of(path))]
    # What is kept in a part of a reserve counts for it too.
    ranges.sort(key=lambda each: each[0][1] - each[0][0])
    tried = max(2, min(MOST_WAYS, MOST_LOOKED_AT // max(1, view.free.size)))
    ways: dict[bytes, Counts] = {}
    for free in islice(_ways(view, view.free, ranges, ()), 2 * MOST_WAYS):
        ways.setdefault(free.tobytes(), free)
    yield from islice(ways.values(), tried)


def _ways(
    view: FreeView,
    free: Counts,
    ranges: Sequence[tuple[tuple[int, int], int]],
    kept: tuple[_Kept, ...],
) -> Iterator[Counts]:
    if not ranges:
        yield free
        return
    ((first, last), groups), *rest = ranges
    inside = sum(each.groups for each in kept if first <= each.first and each.last <= last)
    # A reserve smaller than a canonical domain has a part of it only.
    parts = list(_canonical(view.layout, view.shape, (first, last)).values())
    whole = [int(free[a:b].sum()) // view.shape.canonical for a, b in parts]
    missing = min(groups - inside, sum(whole))
    if missing <= 0:
        yield from _ways(view, free, rest, kept)
        return
    order = _least_costly_first(view, free, parts, whole)
    # Equal parts get one number, so that ways which only swap them are tried once.
    kinds: dict[object, int] = {}
    alike = [kinds.setdefault(_alike(view, free, part), len(kinds)) for part in parts]
    for amounts in _shared_out(order, whole, alike, missing):
        more = tuple(_Kept(*parts[at], amount) for at, amount in amounts.items())
        # Which tier-1 domains of a part are kept matters only if a canonical domain has several.
        for largest_first in (False, True) if view.shape.canonical_tier > 1 else (False,):
            left = _taken(view, free, more, 1 if largest_first else -1)
            yield from _ways(view, left, rest, (*kept, *more))


def _least_costly_first(
    view: FreeView, free: Counts, parts: Sequence[tuple[int, int]], whole: Sequence[int]
) -> list[int]:
    """Parts in the order of the groups that the job loses with one canonical group of them.

    Of equal ones the smallest first, which leaves the largest to the job.
    """
    k, canonical = view.shape.k, view.shape.canonical
    slots = [int(free[a:b].sum()) for a, b in parts]
    costs = [each // k - (each - canonical) // k for each in slots]
    able = [at for at, groups in enumerate(whole) if groups]
    return sorted(able, key=lambda at: (costs[at], slots[at], at))


def _alike(view: FreeView, free: Counts, part: tuple[int, int]) -> tuple[object, ...]:
    """Return a key that is equal for parts that are the same to the job."""
    first, last = part
    of = view.layout.of[view.shape.canonical_tier + 1 :]
    around = tuple([each[first] for each in of])
    busy = view.slots.busy[first:last] > 0
    return tuple(free[first:last].tolist()), tuple(busy.tolist()), around


def _shared_out(
    order: Sequence[int], whole: Sequence[int], alike: Sequence[int], groups: int
) -> Iterator[dict[int, int]]:
    """Yield ways to keep so many groups in parts, the first parts keeping the most first."""
    amounts, start, left = [0] * len(order), 0, groups
    while True:
        # Of parts that are alike a later one never keeps more than an earlier one.
        latest = {alike[at]: amounts[i] for i, at in enumerate(order[:start])}
        for i, at in enumerate(order[start:], start):
            amounts[i] = min(left, latest.get(alike[at], whole[at]))
            latest[alike[at]] = amounts[i]
            left -= amounts[i]
        yield {at: amount for at, amount in zip(order, amounts, strict=True) if amount}
        lowered = _last_to_lower(order, whole, alike, amounts)
        if lowered is None:
            return
        amounts[lowered] -= 1
        start = lowered + 1
        left = groups - sum(amounts[:start])


def _last_to_lower(
    order: Sequence[int], whole: Sequence[int], alike: Sequence[int], amounts: Sequence[int]
) -> int | None:
    """Return the last part that could keep one group less, since those behind it have room for
    theirs.
    """
    before: list[int] = []  # what the latest part that is alike keeps: no later one keeps more
    latest: dict[int, int] = {}
    for at, amount in zip(order, amounts, strict=True):
        before.append(latest.get(alike[at], whole[at]))
        latest[alike[at]] = amount
    behind: Counter[int] = Counter()
    room = kept = 0
    for i in range(len(order) - 1, -1, -1):
        kind, amount = alike[order[i]], amounts[i]
        if amount and room - behind[kind] >= kept + 1:
            return i
        kept += amount
        room += behind[kind] * (before[i] - amount) + before[i]
        behind[kind] += 1
    return None


def _taken(view: FreeView, free: Counts, kept: Sequence[_Kept], sign: int) -> Counts:
    """Return what is left of the slots: first those go that are in no group of the job.

    Then those of the smallest domains (`sign` -1) or of the largest (1).
    """
    left = free.copy()
    for first, last, groups in kept:
        slots = groups * view.shape.canonical
        if view.shape.tier == 1:
            for at in range(first, last):
                # Slots beyond the whole groups of a domain are lost to the job anyway.
                some = min(slots, int(left[at]) % view.shape.k)
                left[at] -= some
                slots -= some
        for at in sorted(range(first, last), key=lambda at: (-sign * left[at], at)):
            some = min(slots, int(left[at]))
            left[at] -= some
            slots -= some
    return left


def reserve_taken_from(
    view: FreeView, tier1_pods: Mapping[int, int], reserves: Reserves
) -> GroupPath | None:
    """Return the first reserve that loses groups it needs if so many slots of each domain are
    taken.

    None where every reserve keeps enough groups, or all that it had. O(tier-1 domains of it).
    """
    layout, shape, free = view.layout, view.shape, view.slots.free
    for path, groups in reserves:
        found = layout.range_of(path)
        if found is None or not any(found[0] <= at < found[1] for at in tier1_pods):
            continue
        first, last = found
        # Only what lies inside the reserve counts, by canonical domain as it is cut by the reserve.
        taken = np.zeros(last - first, np.int64)
        for at, pods in tier1_pods.items():
            if first <= at < last:
                taken[at - first] = pods
        starts = [start - first for start, _ in _canonical(layout, shape, found).values()]
        slots = np.add.reduceat(free[first:last], starts)
        before = int((slots // shape.canonical).sum())
        after = int(((slots - np.add.reduceat(taken, starts)) // shape.canonical).sum())
        if after < min(groups, before):
            return path
    return None


def _canonical(
    layout: Layout, shape: JobShape, bounds: tuple[int, int]
) -> Mapping[int, tuple[int, int]]:
    """Yield the first and last tier-1 domain (exclusive) of each canonical domain within bounds."""
    first, last = bounds
    firsts, of = layout.firsts[shape.canonical_tier], layout.of[shape.canonical_tier]
    domains = range(of[first], of[last - 1] + 1)
    return {d: (max(first, firsts[d]), min(last, firsts[d + 1])) for d in domains}


def use_extra_domains(view: FreeView, best: Candidate, search: Search) -> Candidate:
    """Return the candidate, or one with a few more domains that loses fewer canonical groups."""
    shape = view.shape
    # A candidate in one tier-1 domain was compared with nothing, so its key was not needed yet.
    first = best if best.key else candidate_of(view, best.allocation)
    span, lost = first.key[:2]
    if lost <= _least_lost(view):
        return best
    others = [candidate_of(view, allocation) for allocation in _others(view, search)]
    able = [
        other
        for other in others
        if other.key[1] < lost
        and all(
            now <= then + shape.extra_domains for now, then in zip(other.key[0], span, strict=True)
        )
    ]
    return min(able, key=lambda other: (other.key[1], other.key), default=best)


def _least_lost(view: FreeView) -> int:
    """Return canonical groups that every placement with whole groups loses."""
    shape = view.shape
    return shape.m * (shape.k // shape.canonical)


def _others(view: FreeView, search: Search) -> Iterator[Allocation]:
    """Return the whole job in rests; its whole groups as the search has them, and the tail in
    rests.
    """
    found = search(view.only(_rests(view, view.free)))
    if found is not None:
        yield found.allocation
    shape = view.shape
    if not shape.m or not shape.r:
        return
    # A tail may fit into a rest although the whole job does not.
    groups = search(_part(view, view.free, r=0))
    if groups is None:
        return
    left = view.free.copy()
    for at, pods in groups.allocation.tier1_pods.items():
        left[at] -= pods
    tail = search(_part(view, _rests(view, left), m=0))
    if tail is not None:
        yield _together(groups.allocation, tail.allocation)


def _part(view: FreeView, free: Counts, **changes: int) -> FreeView:
    """Return the view for a part of the job."""
    shape = replace(view.shape, extra_domains=0, **changes)
    return replace(view, shape=shape, free=free)


def _rests(view: FreeView, free: Counts) -> Counts:
    """Return the free slots that are in no canonical group, in the fullest domains first."""
    shape, layout = view.shape, view.layout
    tier = shape.canonical_tier
    if tier == 1:
        rests: Counts = free % shape.canonical
        return rests
    of = layout.starts_in(1, tier)
    whole = layout.rolled(free, tier) % shape.canonical
    order = np.lexsort((free, of))
    ordered = free[order]
    # Slots of fuller domains of the same canonical domain come before; the rest is dealt out in
    # this order until it is used up.
    before = ordered.cumsum() - ordered
    before -= before[layout.starts[tier]][of[order]]
    rests = np.zeros_like(free)
    rests[order] = np.clip(whole[of[order]] - before, 0, ordered)
    return rests


def _together(one: Allocation, other: Allocation) -> Allocation:
    """Return both, in domains that they may share."""
    shares = {share.domain: share for share in one.shares}
    for share in other.shares:
        beside = shares.get(share.domain, Share(share.domain, 0))
        groups, tail = share.groups + beside.groups, share.tail or beside.tail
        shares[share.domain] = share._replace(groups=groups, tail=tail)
    pods = Counter(one.tier1_pods)
    pods.update(other.tier1_pods)
    return Allocation(tuple(shares.values()), dict(pods))
