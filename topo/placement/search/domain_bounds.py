"""What a domain can promise before anyone looks into it: bounds on the objective, by one pass."""

from typing import NamedTuple

import numpy as np

from topo.placement.capacity.layout import Counts, DomainIndices
from topo.placement.quality.lower_bounds import least_inside
from topo.placement.quality.measure import Key
from topo.placement.search.free_view import NEVER, FreeView


class Promise(NamedTuple):
    """No placement inside the domain uses fewer `children` or loses fewer groups.

    `top` is what the domain holds before: taking groups from a fuller domain costs more.
    """

    children: int
    lost: int
    top: int
    domain: int
    depth: int

    def spans_reached(self, key: Key) -> bool:
        """Whether a placement uses as few children as promised here."""
        span: tuple[int, ...] = key[0]
        return span[self.depth] <= self.children

    def beaten_by(self, key: Key) -> bool:
        """Whether even all promises kept would not be as good as a placement that was found."""
        span: tuple[int, ...] = key[0]
        if span[self.depth] != self.children:
            return span[self.depth] < self.children
        if any(used > self.children for used in span[self.depth + 1 :]):
            return False
        if key[1] != self.lost:
            return bool(key[1] < self.lost)
        if not self.lost:
            return False
        return bool(key[2][0] < (1, self.top, 1))

    def tied(self, key: Key) -> bool:
        """Whether a placement loses as little as promised here; only profiles and names differ."""
        return bool(key[1] == self.lost and (not self.lost or key[2][0] == (1, self.top, 1)))


def promises(view: FreeView, tier: int, able: DomainIndices) -> list[Promise]:
    """The promises of some domains that can hold all, the best first; O(cells) passes."""
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
    likely = _likely(view, tier, able)
    top_of = layout.domain_of(layout.tiers)[layout.starts[tier][able]]
    tops = np.where(lost > 0, view.tops_before[top_of], 0)
    order = np.lexsort((able, likely, tops, lost, children))
    rows = zip(
        children[order].tolist(),
        lost[order].tolist(),
        tops[order].tolist(),
        able[order].tolist(),
        strict=True,
    )
    depth = layout.tiers - tier + 1
    return [Promise(*row, depth) for row in rows]


def _likely(view: FreeView, tier: int, able: DomainIndices) -> Counts:
    """Between equals, less is more likely to leave the most: a guess that only saves time.

    With a tail it is the smallest room that takes it and no group; without one, how few rooms a
    number of groups uses up.
    """
    shape, rooms = view.shape, view.rooms
    if shape.tier > 1 or tier == shape.tier:
        return able
    starts = view.layout.starts[tier]
    found: Counts
    if shape.r:
        tails = np.where((rooms < shape.r) | (rooms >= shape.k), NEVER, rooms)
        found = np.minimum.reduceat(tails, starts)[able]
    else:
        used_up = (rooms == shape.k * view.groups(1)) & (rooms > 0)
        found = -np.add.reduceat(used_up, starts, dtype=np.int64)[able]
    return found


def _lost(view: FreeView, tier: int, able: DomainIndices) -> Counts:
    """The fewest canonical groups that placing the job in each domain costs."""
    shape, layout = view.shape, view.layout
    canonical, pods = shape.canonical, shape.pods
    rooms = layout.rolled(view.slots.free, shape.canonical_tier)
    if shape.canonical_tier >= tier:
        outer = layout.domain_of(shape.canonical_tier)[layout.starts[tier][able]]
        before = rooms[outer]
        found: Counts = before // canonical - (before - pods) // canonical
        return found
    starts = layout.inner_starts(tier, shape.canonical_tier)
    rest = np.add.reduceat(rooms % canonical, starts)[able]
    found = np.maximum(0, -(-(pods - rest) // canonical))
    if shape.k == canonical and shape.tier == shape.canonical_tier:
        loss = view.losses(tier)[able] if shape.r else 0
        found = np.maximum(found, shape.m + loss)
    return found
