"""Bounds on each value of the objective, and which values of a plan they prove to be best.

Each bound leaves out a condition, so that no placement is better than it, on the GPU types that
could have a plan as good in the values before. Together they cost a few passes over the domains, so
every answer has them. docs/placement.md explains them.

A value is proven only together with all before it: the best number of dragonflies is the best among
plans with the fewest switchboxes. So the first value without a proof ends the list of the proven.

Example: two switchboxes of four free dragonflies of two nodes, a slot each; three groups of two.

    name                  bound   why                                     plan A   plan B
    switchboxes             1     four dragonflies have room for three      1 ✓      2
    dragonflies             3     each holds one group                      3 ✓      3
    whole groups left       5     eight were free, each group takes one     5 ✓      5

A meets all bounds and is proven. B is not: its 3 and 5 equal the bounds, but a plan with one
switchbox comes before it.

The fewest domains of a tier that any placement needs. Result: a number that no placement can be
below.

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

from collections.abc import Mapping, Sequence

import numpy as np

from topo.placement.capacity.layout import Children, Counts, DomainIndices
from topo.placement.job.plan import Objective, objective_names
from topo.placement.quality.measure import Key, Proven
from topo.placement.view import FreeView, fewest_of

Bounds = Mapping[str, int | None]
_PROVES = (
    Proven.SPANS,
    Proven.PROFILE_TOP,
    Proven.PROFILE_TOP,
    Proven.PROFILE_TIER1,
    Proven.NEWLY_BROKEN,
)
"""What proves spans, whole groups left, the two profiles and what is newly broken."""


_COMPARED = {
    Proven.NONE: 0,
    Proven.SPANS: 2,
    Proven.PROFILE_TOP: 4,
    Proven.PROFILE_TIER1: 5,
    Proven.NEWLY_BROKEN: 6,
}
"""How much of a vector is proven: split groups and spans, groups lost and the profile of the top
tier, the profile of slots, what is newly broken."""
MOST_CELLS = 1 << 15
"""Children looked at to count the fewest inside each of several domains."""


def bounds_of(
    views: Sequence[FreeView], objective: Objective, proven: Proven, *, split: bool
) -> tuple[Bounds, Mapping[str, bool]]:
    """Return bounds by name, and the names whose values are proven the best given those before.

    The first view is the plan's, the others are of types that could have a better one. `split`: not
    all groups could be whole, so that only slots bound the number of domains.
    """
    # Groups left are counted on the plan's type: what others lose at least is taken from those.
    before = views[0].whole_before
    own_loss = before - objective.whole_groups_left
    known = [_known_bounds(view, (objective.span, own_loss), split=split) for view in views]
    *fewest, lost = known[0] if len(known) == 1 else map(min, zip(*known, strict=True))
    bounds = (*fewest, before - lost, None, None, 0, 0)
    named = dict(zip(objective_names(len(objective.span)), bounds, strict=True))
    return named, certified_by(named, objective, proven)


def _known_bounds(
    view: FreeView, plan: tuple[tuple[int, ...], int], *, split: bool
) -> tuple[int, ...]:
    """Return bounds on split groups, on each span, and on whole groups lost.

    `plan`: its span and the groups that it loses.
    """
    span, loss = plan
    tiers = len(span)
    spans = [
        1 if used == 1 else least_domains(view, tier, used, split=split)
        for tier, used in zip(range(tiers, 0, -1), span, strict=True)
    ]
    if tiers == 1:
        spans *= 2
    return (_least_split(view) if split else 0, *spans, _least_lost(view, loss, split=split))


def could_be_better(view: FreeView, vector: Key) -> bool:
    """Return whether bounds leave it open that these nodes have a placement of a vector as good.

    A vector starts with split groups and the spans; only these are compared.
    """
    split, span = vector[:2]
    least = _least_split(view) if split else 0
    if least != split:
        return bool(least < split)
    for tier, used in zip(range(len(span), 0, -1), span, strict=True):
        if used == 1:
            least = _quick_least(view, tier, split=split > 0)
        else:
            least = least_domains(view, tier, used + 1, split=split > 0)
        if least != used:
            return bool(least < used)
    return True


def not_proven_worse(vector: Key, proven: Proven, other: Key) -> Proven | None:
    """Return how far a vector proven so far proves another one; None: all of its placements are
    worse.

    A better vector proves nothing of the other.
    """
    known = _COMPARED[proven]
    if vector[:known] > other[:known]:
        return None
    return proven if vector[:known] == other[:known] else Proven.NONE


def certified_by(
    bounds: Bounds, objective: Objective, proven: Proven = Proven.NONE
) -> Mapping[str, bool]:
    """Return the names of the bounds, each with whether its value is proven the best given those
    before.

    A value is proven if the search proves it, or if it is its bound.
    """
    if proven is Proven.NEWLY_BROKEN and not (objective.split_groups or objective.penalty):
        # No group is split, no node has a penalty, and between these the search left out nothing.
        return dict.fromkeys(bounds, True)
    span = objective.span if len(objective.span) > 1 else objective.span * 2
    values = (objective.split_groups, *span, objective.whole_groups_left)
    known = len(values)
    late = (objective.newly_broken, objective.penalty)
    certified: dict[str, bool] = {}
    sure = True
    for at, (name, bound) in enumerate(bounds.items()):
        if at < known:
            needed = Proven.SPANS if at < known - 1 else Proven.PROFILE_TOP
            sure = sure and (values[at] == bound or (at > 0 and proven >= needed))
        elif at < known + 2:
            sure = sure and (proven >= _PROVES[at - known + 2] or not _has_profiles(objective))
        else:
            value = late[at - known - 2]
            sure = sure and (not value or (at == known + 2 and proven >= Proven.NEWLY_BROKEN))
        certified[name] = sure
    return certified


def _has_profiles(objective: Objective) -> bool:
    """Return whether there is anything in the profiles; a plan always takes slots."""
    return bool(objective.profile_top or objective.profile_tier1)


def _least_split(view: FreeView) -> int:
    """Return groups that cannot be whole; at least 1, or nothing would be split."""
    shape = view.shape
    if not view.group_can_fit:
        return shape.m + (shape.r > 0)
    missing = shape.m - int(view.groups(shape.tier).sum())
    # Without room beside the whole groups the tail is split, or takes the place of one.
    beside = not shape.r or not int(view.losses(shape.tier).min())
    return max(1, missing + (not beside))


def _least_lost(view: FreeView, loss: int, *, split: bool) -> int:
    """Return whole groups lost if all slots that are in no whole group are used first.

    The tail is not looked at where the plan's own loss is as low: no bound can say more.
    """
    shape = view.shape
    rest = view.slots.total - view.whole_before * shape.canonical
    lost = max(0, -(-(shape.pods - rest) // shape.canonical))
    if shape.k == shape.canonical and shape.tier == shape.canonical_tier and not split:
        lost = max(lost, shape.m)
        if shape.r and lost == shape.m < loss:
            lost += int(view.losses(shape.tier).min() > 0)
    return lost


def least_domains(view: FreeView, tier: int, used: int, *, split: bool) -> int:
    """Return a number of domains of a tier that every placement needs."""
    if used == 1:
        return 1
    quick = _quick_least(view, tier, split=split)
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


def _quick_least(view: FreeView, tier: int, *, split: bool) -> int:
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
