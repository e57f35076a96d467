"""What a placement inside one domain costs at least, before anyone looks into the domain.

Result: a lower bound on each of the first numbers of the objective, for all domains that can hold
the whole job. A search looks into the domain with the least bound first, and stops at the first
domain that cannot improve on what was found.

Why it is right: every bound leaves out a condition, so no placement can be below it.
- Children: the fewest whose largest capacities cover the need. Which child takes what is left
  out.
- Canonical groups lost: all slots outside of canonical groups are used first.
- Top domain: taking as many groups from a domain with fewer free groups leaves a better profile.
- Slots: of so many children, the largest is at least the first of the last window that covers the
  need (step 3 in docs/placement.md, "The window rule").

Cost: a few passes over all tier-1 domains. Slots are looked at only where the numbers before tie.

Example: a job of 16 pods, groups of 8. Switchbox A has 9, 8, 8 free slots, B has 9, 9, 7; both
hold it in 2 children and lose 2 of their groups (A has 3, B 2). So B comes first by its top
domain: bounds (2 children, 2 lost, top 2), then A: (2, 2, top 3). B gives 9 + 9 and reaches its
bound. The bound of A is larger, so A is not looked into, though it holds the job in 8 + 8.
"""

from operator import attrgetter
from typing import NamedTuple

import numpy as np

from topo.placement.capacity.layout import Counts, DomainIndices
from topo.placement.quality.lower_bounds import least_inside, rows_of
from topo.placement.quality.measure import Key, leximax_key
from topo.placement.search.free_view import FreeView

_UNKNOWN = (0, 0, -1, 0)
"""The bound on slots, from `largest` to `other`, where slots were not looked at: always kept."""


class DomainBound(NamedTuple):
    """What any placement inside one domain costs at least, in the order of the objective.

    `children`: domains used of the tier below. `lost`: canonical groups lost. `top`: canonical
    groups that are free in its top domain. `largest`, `times`: free slots of the largest canonical
    domain used, and how many of that size are used. `others`: how many smaller ones are used
    besides, -1 where slots were not looked at. `other`: the free slots of the least one that holds
    what the largest leave of the job. `depth`: the place of the children in a span.
    """

    children: int
    lost: int
    top: int
    domain: int
    largest: int
    times: int
    others: int
    other: int
    depth: int
    pods: int

    def spans_reached(self, key: Key) -> bool:
        """Whether a placement uses as few children as any in this domain."""
        span: tuple[int, ...] = key[0]
        return span[self.depth] <= self.children

    def cannot_improve(self, key: Key) -> bool:
        """Whether nothing inside this domain is better than a placement that was found.

        Compares number by number as keys do, and stops at the first that differs.
        """
        span: tuple[int, ...] = key[0]
        if span[self.depth] != self.children:
            return span[self.depth] < self.children
        if any(used > self.children for used in span[self.depth + 1 :]):
            return False  # of lower tiers no bound is known but the children
        if key[1] != self.lost:
            return bool(key[1] < self.lost)
        if self.lost and key[2][0] != (1, self.top, 1):
            return bool(key[2][0] < (1, self.top, 1))
        if key[3][0] != (1, self.largest, self.times):
            return bool(key[3][0] < (1, self.largest, self.times))
        best = self._best_profile()
        return best is not None and (key[3] < best or (key[3] == best and not key[4]))

    def _best_profile(self) -> Key | None:
        """The best profile of slots there could be; None where more than one other is used.

        The largest are used up, and the least other that can holds the rest. What is too much stays
        in one piece.
        """
        rest = self.pods - self.times * self.largest
        if rest > 0 and self.others == 1:
            left = self.other - rest
            emptied = self.times + (0 if left else 1)
            taken = ((self.largest, -self.times), (self.other, -1))
            return leximax_key((*taken, *(((left, 1),) if left else ()), (0, emptied)))
        if rest <= 0 and not self.others and self.times == 1:
            return leximax_key(((self.largest, -1), (-rest, 1)))
        if not rest and not self.others:
            return leximax_key(((self.largest, -self.times), (0, self.times)))
        return None

    def reached(self, key: Key) -> bool:
        """Whether a placement is as good as this bound, up to the profile of the top tier."""
        as_good = key[1] == self.lost and (not self.lost or key[2][0] == (1, self.top, 1))
        return bool(self.spans_reached(key) and as_good)


def domain_bounds(view: FreeView, tier: int, able: DomainIndices) -> list[DomainBound]:
    """The bounds of the domains that are able to hold the whole job, the least first."""
    shape, layout = view.shape, view.layout
    starts = layout.inner_starts(tier, tier - 1)
    if tier == shape.tier:
        need = np.full(len(able), shape.pods)
        children = least_inside(layout.rolled(view.free, tier - 1), starts, able, need)
    elif not shape.r:
        need = np.full(len(able), shape.m)
        children = least_inside(view.groups(tier - 1), starts, able, need)
    else:
        # The host of the tail holds at most so many groups beside it, others the rest.
        held = np.maximum.reduceat(view.holds(tier - 1), starts)[able]
        children = 1 + least_inside(view.groups(tier - 1), starts, able, shape.m - held)
    lost = _lost(view, tier, able)
    top_of = layout.domain_of(layout.tiers)[layout.starts[tier][able]]
    tops = np.where(lost > 0, view.tops_before[top_of], 0)
    order = np.lexsort((able, tops, lost, children))
    columns = [each[order].tolist() for each in (children, lost, tops, able)]
    ranked = list(zip(*columns, strict=True))
    # Slots decide only between domains that are equal so far: those of the best are enough.
    tied = sum(row[:3] == ranked[0][:3] for row in ranked)
    used = _largest(view, tier, able[order[:tied]], ranked[0][0])
    used += [_UNKNOWN] * (len(ranked) - len(used))
    depth = layout.tiers - tier + 1
    bounds = [
        DomainBound._make((*row, *most, depth, shape.pods))
        for row, most in zip(ranked, used, strict=True)
    ]
    bounds[:tied] = sorted(bounds[:tied], key=attrgetter("largest", "times", "other"))
    return bounds


def _largest(
    view: FreeView, tier: int, able: DomainIndices, count: int
) -> list[tuple[int, int, int, int]]:
    """The largest canonical domain that must be used, how often, and how many besides.

    For each domain `count` children are used. Empty where slots are not looked at.
    """
    shape, layout = view.shape, view.layout
    if shape.canonical_tier >= tier:
        outer = layout.domain_of(shape.canonical_tier)[layout.starts[tier][able]]
        return [(free, 1, 0, 0) for free in view.free_canonical[outer].tolist()]
    if shape.canonical_tier != tier - 1 or shape.tier < tier - 1:
        return []
    free_slots = layout.rolled(view.free, tier - 1)
    rows = rows_of(free_slots, layout.inner_starts(tier, tier - 1), able)
    if rows is None or rows.shape[1] < count:
        return []
    if shape.tier == tier:
        last = _last_window(rows, count, shape.pods)
    else:
        last = _last_window(rows // shape.k, count, shape.m)
        if shape.r:
            # Groups alone leave out the tail, slots alone the groups: both are bounds.
            last = np.minimum(last, _last_window(rows, count, shape.pods))
    largest = np.take_along_axis(rows, last[:, None], 1)
    times = np.minimum((rows >= largest).sum(axis=1) - last, count)
    # What the largest leave of the job needs a domain with as many slots, if it is one alone.
    rest = np.maximum(shape.pods - largest[:, 0] * times, 0)
    other = np.where(rows >= rest[:, None], rows, largest).min(axis=1)
    found = zip(largest[:, 0].tolist(), times.tolist(), other.tolist(), strict=True)
    return [(slots, often, count - often, smallest) for slots, often, smallest in found]


def _last_window(rows: Counts, count: int, need: int) -> Counts:
    """The last place in each descending row from which `count` neighbours cover the need."""
    sums = rows.cumsum(axis=1)
    covered = sums[:, count - 1 :].copy()
    covered[:, 1:] -= sums[:, :-count]
    found: Counts = (covered >= need).sum(axis=1) - 1
    return np.maximum(found, 0)


def _lost(view: FreeView, tier: int, able: DomainIndices) -> Counts:
    """The fewest canonical groups that placing the job in each domain costs."""
    shape, layout = view.shape, view.layout
    canonical, pods = shape.canonical, shape.pods
    free_slots = layout.rolled(view.slots.free, shape.canonical_tier)
    if shape.canonical_tier >= tier:
        outer = layout.domain_of(shape.canonical_tier)[layout.starts[tier][able]]
        before = free_slots[outer]
        found: Counts = before // canonical - (before - pods) // canonical
        return found
    starts = layout.inner_starts(tier, shape.canonical_tier)
    rest = np.add.reduceat(free_slots % canonical, starts)[able]
    found = np.maximum(0, -(-(pods - rest) // canonical))
    if shape.k == canonical and shape.tier == shape.canonical_tier:
        loss = view.losses(tier)[able] if shape.r else 0
        found = np.maximum(found, shape.m + loss)
    return found
