"""Where a job goes if some of its groups have to be split.

Result: an allocation with the fewest split groups. Where their pods go is a heuristic, the start
for `exact/split_dp.py`: nothing is proven but what meets a bound (`quality/certificate.py`).

How: first as many whole groups as there are, in the top domains that hold most of them. Then the
tail, in one domain if one holds it. Then the pods of the split groups, called loose: in domains
that the job uses already, then in the same top domains, then in others.

Cost: a few sorts of the domains of the group tier.

Example: free slots 9, 7 in switchbox A, 6, 2 in B; a job of 2 groups of 8. One whole group goes
to the 9. 8 pods are loose. 1 fits beside the whole group; the other 7 fit into the 7 in the same
switchbox. So one group is split, over two dragonflies of A, and B stays free.
"""

import numpy as np

from topo.placement.capacity.layout import Counts
from topo.placement.job.plan import Allocation, Share
from topo.placement.view.free_view import FreeView


def best_split(view: FreeView) -> Allocation | None:
    """Place as many whole groups as fit, the others over the rest; None if slots are too few."""
    shape = view.shape
    free_slots = view.free_slots
    if int(free_slots.sum()) < shape.pods:
        return None
    # Whole groups first: each that fits is one group less to split.
    caps = free_slots // shape.k if view.group_can_fit else free_slots * 0
    order = _by_top(view, caps)
    whole = _whole(order, caps.tolist(), shape.m)
    left: list[int] = free_slots.tolist()
    for domain, groups in whole.items():
        left[domain] -= shape.k * groups
    pods = shape.k * (shape.m - sum(whole.values()))
    tail = _tail_host(view, whole, left, order)
    if tail is not None:
        left[tail] -= shape.r
    else:
        pods += shape.r
    loose = _loose(view, {*whole, *([tail] if tail is not None else [])}, (order, left), pods)
    used = sorted({*whole, *loose, *([tail] if tail is not None else [])})
    shares = tuple(Share(d, whole.get(d, 0), d == tail, loose.get(d, 0)) for d in used)
    return Allocation(shares, _tier1_pods(view, shares))


def _by_top(view: FreeView, caps: Counts) -> list[int]:
    """Return domains of the group tier with slots, those in the top domains with the most groups
    first.
    """
    tops = np.array(view.tops, np.intp)
    # Top domains with many groups come first, so that few of them are used.
    totals = np.bincount(tops, weights=caps)
    able = np.flatnonzero(view.free_slots)
    keys = able, -caps[able], tops[able], -totals[tops[able]]
    order: list[int] = able[np.lexsort(keys)].tolist()
    return order


def _whole(order: list[int], caps: list[int], groups: int) -> dict[int, int]:
    """Return whole groups by domain, as many as the domains hold in this order."""
    whole: dict[int, int] = {}
    for domain in order:
        if not groups:
            break
        if caps[domain]:
            whole[domain] = min(groups, caps[domain])
            groups -= whole[domain]
    return whole


def _tail_host(
    view: FreeView, whole: dict[int, int], left: list[int], order: list[int]
) -> int | None:
    """Return a domain for the whole tail: one in use, or in a top domain in use, or any."""
    r = view.shape.r
    if not r or not view.group_can_fit:
        return None
    tops = view.tops
    used = {tops[d] for d in whole}
    able = [d for d in order if left[d] >= r]
    if not used and able:
        # The loose pods follow the tail: to where most of them find a slot.
        slots = view.free_slots_of(view.shape.tiers).tolist()
        most = max(slots[tops[d]] for d in able)
        able = [d for d in able if slots[tops[d]] == most]
    return min(able, key=lambda d: (tops[d] not in used, d not in whole, left[d], d), default=None)


def _loose(
    view: FreeView, used: set[int], free: tuple[list[int], list[int]], pods: int
) -> dict[int, int]:
    """Return the pods of split groups: in domains in use, then in top domains in use, then in
    others.

    Of other top domains those with most slots come first, and the smallest that suffices last.
    `free`: the domains with slots, and the slots that are left of all.
    """
    domains, left = free
    by_top: dict[int, list[int]] = {}
    tops = view.tops
    for domain in sorted(domains):
        if left[domain]:
            by_top.setdefault(tops[domain], []).append(domain)
    loose: dict[int, int] = {}
    pods = _taken(loose, [d for d in used if left[d]], left, pods)
    near = {tops[d] for d in used}
    pods = _taken(loose, [d for top in near for d in by_top.get(top, ())], left, pods)
    totals = [(sum(left[d] for d in by_top[top]), -top) for top in by_top.keys() - near]
    totals.sort(reverse=True)
    for at, largest in enumerate(totals):
        if not pods:
            break
        # The last one is the smallest that suffices: larger ones stay for later jobs.
        enough = [each for each in totals[at:] if each[0] >= pods] if largest[0] >= pods else []
        _, minus = min(enough, key=lambda each: (each[0], -each[1]), default=largest)
        pods = _taken(loose, by_top[-minus], left, pods)
    return loose


def _taken(loose: dict[int, int], domains: list[int], left: list[int], pods: int) -> int:
    """Take pods from some domains, the largest first, and last from the smallest that suffices.

    Returns the pods that found no slot.
    """
    order = sorted((d for d in domains if d not in loose), key=lambda d: (-left[d], d))
    for domain in order:
        if not pods:
            break
        if left[domain] < pods:
            loose[domain] = left[domain]
            pods -= left[domain]
        else:
            last = min((left[d], d) for d in order if d not in loose and left[d] >= pods)[1]
            loose[last] = pods
            pods = 0
    return pods


def _tier1_pods(view: FreeView, shares: tuple[Share, ...]) -> dict[int, int]:
    """Return each share over the tier-1 domains of its domain, the largest first."""
    shape, free = view.shape, view.free
    firsts = view.layout.firsts[shape.tier]
    tier1_pods: dict[int, int] = {}
    for share in shares:
        pods = share.groups * shape.k + (shape.r if share.tail else 0) + share.loose
        inner = range(firsts[share.domain], firsts[share.domain + 1])
        for at in sorted(inner, key=lambda at: (-free[at], at)):
            if pods:
                tier1_pods[at] = min(pods, int(free[at]))
                pods -= tier1_pods[at]
    return {at: pods for at, pods in tier1_pods.items() if pods}
