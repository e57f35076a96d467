"""The fewest domains of a tier that any placement needs.

Result: a number that no placement can be below.

Why it is right: p domains hold at most what the p largest hold. So at least as many are needed as
the largest ones need to cover the pods, and as the ones with most groups need to cover the
groups. With a tail one of the domains is its host, and holds so many fewer groups.

Cost: a few passes over the domains of the tier, with a tail a sort; nothing where a division
already says enough.

Example: 4, 3, 3, 1 free slots, a job of 7 pods in groups of 3 with a tail of 1. Two domains cover
7 slots (4 + 3) and 2 groups. With 4 as the host of the tail it still holds 1 group: 2 is the
bound. Of 4, 4 and 2 free slots two cover 8 pods, 2 groups and a tail of 2; but neither has 2
slots beside its group, so 3 is the bound.
"""

import numpy as np

from topo.placement.capacity.layout import Children, Counts, DomainIndices
from topo.placement.view.free_view import FreeView, fewest_of

MOST_CELLS = 1 << 15
"""Children looked at to count the fewest inside each of several domains."""


def least_domains(view: FreeView, tier: int, used: int, *, split: bool) -> int:
    """Return a number of domains of a tier that every placement needs."""
    if used == 1:
        return 1
    quick = quick_least(view, tier, split=split)
    if quick >= used:
        return quick
    shape = view.shape
    grouped = tier >= shape.tier and not split
    # Slots are one bound, whole groups another; the greater one holds.
    by_slots = view.fewest_by_slots(tier)
    if not grouped or by_slots >= used:
        return by_slots
    groups = view.groups(tier)
    if not shape.r:
        return max(by_slots, fewest_of(groups, shape.m))
    return max(by_slots, _with_tail(groups, view.losses(tier), shape.m))


def quick_least(view: FreeView, tier: int, *, split: bool) -> int:
    """Return how many domains every placement needs if all were as large as the largest."""
    shape = view.shape
    least = -(-shape.pods // max(1, int(view.free_slots_of(tier).max())))
    if tier >= shape.tier and not split:
        least = max(least, -(-shape.m // max(1, int(view.groups(tier).max()))))
    return least


def least_inside(caps: Counts, children: Children, able: DomainIndices, need: Counts) -> Counts:
    """For each of some domains the fewest of its children whose capacities cover its need.

    Where there are too many children to look at it is a bound.
    """
    rows = rows_of(caps, children, able) if int(caps.max()) > 1 else None
    if rows is None:
        most = np.maximum.reduceat(caps, children.starts)[able]
        found: Counts = -(-need // np.maximum(most, 1))
        return found
    # Column j is the sum of the j largest children: the first that reaches the need counts.
    sums = np.ascontiguousarray(rows.T).cumsum(axis=0)
    counts: Counts = (sums < need).sum(axis=0) + 1
    return np.where(need > 0, counts, 0)


def rows_of(values: Counts, children: Children, able: DomainIndices) -> Counts | None:
    """Return a row for each of some domains: the values of its children, the largest first, then
    zeros.

    None where they would be too many to look at.
    """
    if children.rows is None or children.rows.shape[1] * len(able) > MOST_CELLS:
        return None
    rows: Counts = np.append(values, 0)[children.rows[able]]
    rows.sort(axis=1)
    return rows[:, ::-1]


def _with_tail(groups: Counts, losses: Counts, need: int) -> int:
    """Return the smallest p with which a host of the tail and the p - 1 largest others suffice."""
    order = np.argsort(-groups, kind="stable")
    ranked, lost = groups[order], losses[order]
    sums = np.cumsum(ranked)
    # The host is one of the p largest, or one behind them instead of the last of them.
    inside = sums - np.minimum.accumulate(lost)
    outside = sums - ranked + np.maximum.accumulate((ranked - lost)[::-1])[::-1]
    enough = np.maximum(inside, outside) >= need
    return int(enough.argmax()) + 1 if enough.any() else len(ranked) + 1
