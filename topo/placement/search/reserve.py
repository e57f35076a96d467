"""Groups that the policy keeps free: which slots they keep, and whether a job takes them.

A reserve is a group of the tree, and how many canonical groups shall stay free in it. It keeps them
in the domains that have the most of them, the largest first, so it stands in the way of as few
domains as it can. A job takes from it only if fewer groups are left than it keeps, and fewer than
were there before: one that cannot be kept anyway refuses nobody. Each call costs
O(c log c + t log t) for c canonical and t tier-1 domains of each reserve.

Example: a switchbox of four dragonflies of two nodes with a slot each; a canonical group is two
slots, and the reserve keeps one group.

    free slots     2 2 1 0
    kept           2 0 0 0    the most groups first; of equals, the first in the tree
    left           0 2 1 0    what the job may use: `without_reserves`

A job that takes 2 of the second dragonfly leaves 2 0 1 0, one group: the reserve has all it keeps.
One that takes 2 of the first and 1 of the second leaves 0 1 1 0, no group: `taken_from` names it.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from topo.model.ids import GroupPath
from topo.placement.capacity.layout import Counts, Layout
from topo.placement.search.free_view import FreeView
from topo.placement.search.job_shape import Shape

Reserves = Sequence[tuple[GroupPath, int]]


def without_reserves(layout: Layout, shape: Shape, free: Counts, reserves: Reserves) -> Counts:
    """Free slots without those that reserves keep; `free` itself if they keep none.

    A reserve keeps its groups in the domains that have the most of them, the largest first.
    """
    left = free
    for path, groups in reserves:
        found = layout.range_of(path)
        if found is not None and groups > 0:
            left = left.copy() if left is free else left
            _keep(layout, shape, left, (*found, groups))
    return left


def taken_from(
    view: FreeView, tier1_pods: Mapping[int, int], reserves: Reserves
) -> GroupPath | None:
    """The first reserve that loses groups it needs if so many slots of each domain are taken.

    None where every reserve keeps enough groups, or all that it had. O(tier-1 domains of it).
    """
    layout, shape, free = view.layout, view.shape, view.slots.free
    for path, groups in reserves:
        found = layout.range_of(path)
        if found is None or not any(found[0] <= at < found[1] for at in tier1_pods):
            continue
        first, last = found
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
    layout: Layout, shape: Shape, bounds: tuple[int, int]
) -> Mapping[int, tuple[int, int]]:
    """First and last tier-1 domain (exclusive) of each canonical domain within some bounds."""
    first, last = bounds
    firsts, of = layout.firsts[shape.canonical_tier], layout.of[shape.canonical_tier]
    domains = range(of[first], of[last - 1] + 1)
    return {d: (max(first, firsts[d]), min(last, firsts[d + 1])) for d in domains}


def _keep(layout: Layout, shape: Shape, left: Counts, wanted: tuple[int, int, int]) -> None:
    """Take the slots that a reserve keeps out of `left`."""
    first, last, groups = wanted
    bounds = _canonical(layout, shape, (first, last))
    whole = {d: int(left[a:b].sum()) // shape.canonical for d, (a, b) in bounds.items()}
    for domain in sorted(bounds, key=lambda d: (-whole[d], d)):
        kept = min(groups, whole[domain])
        groups -= kept
        slots = kept * shape.canonical
        for at in sorted(range(*bounds[domain]), key=lambda at: (-left[at], at)):
            some = min(slots, int(left[at]))
            left[at] -= some
            slots -= some
