"""One more domain where that leaves more whole groups: a policy that the operator may turn on.

Result: the best placement by the objective; or, where that breaks canonical groups which another
one leaves whole, the other one, if it uses no more than so many domains of any tier beyond the
best one's.

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
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from topo.placement.capacity.layout import Counts
from topo.placement.job.plan import Allocation, Share
from topo.placement.quality.candidate import Candidate, candidate_of
from topo.placement.view.free_view import FreeView

Search = Callable[[FreeView], Candidate | None]
"""The best candidate with every group whole."""


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
    return FreeView(view.layout, shape, view.slots, free, view.group_can_fit)


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
