"""The numbers that one search works on: free slots and whole groups by domain, tier by tier."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from topo.placement.capacity.layout import Counts, Layout
from topo.placement.capacity.slots import Slots
from topo.placement.job.allocation import Draft
from topo.placement.search.job_shape import Shape

NEVER = 1 << 40
"""The loss of a domain that cannot take the tail at all."""


@dataclass(frozen=True)
class FreeView:
    """Free slots along the cells, less what reserves keep, and what the job needs.

    In a search `shape.tier` is not 0: it is the tier whose domains groups must not cross. Not
    `fits`: it is the top tier, and no domain could hold a group even if it were empty.
    """

    layout: Layout
    shape: Shape
    slots: Slots
    free: Counts
    fits: bool = True
    _groups: dict[int, Counts] = field(default_factory=dict)
    _losses: dict[int, Counts] = field(default_factory=dict)
    drafts: dict[tuple[int, int, tuple[int, bool]], Draft | None] = field(default_factory=dict)

    def only(self, free: Counts) -> "FreeView":
        """The same job on fewer free slots; what is measured stays the same."""
        return FreeView(self.layout, self.shape, self.slots, free, self.fits)

    def unit(self, pods: int) -> "FreeView":
        """The same slots for so many single pods, free to go to any cell."""
        single = replace(self.shape, k=1, m=pods, r=0, tier=1)
        return FreeView(self.layout, single, self.slots, self.free)

    @cached_property
    def rooms(self) -> Counts:
        """Free slots of the domains that hold groups."""
        return self.layout.rolled(self.free, self.shape.tier)

    @cached_property
    def tops(self) -> list[int]:
        """The domain of the top tier that each domain of the group tier is in."""
        of = self.layout.of[self.layout.tiers]
        return [of[first] for first in self.layout.firsts[self.shape.tier][:-1]]

    @cached_property
    def free_canonical(self) -> Counts:
        """Free slots of the domains of the canonical tier, reserved ones too."""
        return self.layout.rolled(self.slots.free, self.shape.canonical_tier)

    @cached_property
    def tops_before(self) -> Counts:
        """Canonical groups that are free in each domain of the top tier, reserved ones too."""
        layout, tier = self.layout, self.shape.canonical_tier
        whole = self.free_canonical // self.shape.canonical
        if tier == layout.tiers or not whole.size:
            return whole
        sums: Counts = np.add.reduceat(whole, layout.inner_starts(layout.tiers, tier))
        return sums

    @cached_property
    def whole_before(self) -> int:
        """Canonical groups that are free before the job comes."""
        return int(self.tops_before.sum())

    @property
    def whole_cells(self) -> bool:
        """Whether all free slots are the job's: no reserve or limit keeps some of a domain."""
        return self.free is self.slots.free and self.shape.canonical_tier == 1

    def rooms_of(self, tier: int) -> Counts:
        """Free slots of the domains of a tier."""
        return self.rooms if tier == self.shape.tier else self.layout.rolled(self.free, tier)

    def groups(self, tier: int) -> Counts:
        """Whole groups that fit in each domain of a tier, from the group tier up."""
        found = self._groups.get(tier)
        if found is None:
            if tier == self.shape.tier:
                found = self.rooms if self.shape.k == 1 else self.rooms // self.shape.k
            else:
                inner = self.layout.inner_starts(tier, self.shape.tier)
                found = np.add.reduceat(self.groups(self.shape.tier), inner)
            self._groups[tier] = found
        return found

    def losses(self, tier: int) -> Counts:
        """Groups that each domain can hold less if it holds the tail too; `NEVER` if it cannot."""
        found = self._losses.get(tier)
        if found is None:
            k, r = self.shape.k, self.shape.r
            if tier == self.shape.tier:
                rooms = self.rooms
                rest = rooms - k * self.groups(tier)
                found = np.where(rooms < r, NEVER, (rest < r).astype(np.int64))
            else:
                inner = self.layout.inner_starts(tier, self.shape.tier)
                found = np.minimum.reduceat(self.losses(self.shape.tier), inner)
            self._losses[tier] = found
        return found

    def holds(self, tier: int) -> Counts:
        """Whole groups that fit in each domain of a tier beside the tail; negative: not even it."""
        if not self.shape.r:
            return self.groups(tier)
        return self.groups(tier) - self.losses(tier)
