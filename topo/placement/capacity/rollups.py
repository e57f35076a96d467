"""Numbers of tier-1 domains summed up per higher domain, and updated incrementally.

A job takes a few of thousands of tier-1 domains, and the next search needs the sums of all of them
again. So each computed number is kept, and the next query adds the differences since.

Example: switchboxes with 3, 1 and 2, 2 free slots, whole groups of two slots. The sums are 4 and 4,
the maxima 3 and 2, the groups 2 and 2. A pod takes a slot of the first domain: 3 becomes 2, the
first sum 3 and its groups 1. Its maximum is computed again, because 3 was the maximum and the next
largest number is not kept.
"""

from abc import ABC, abstractmethod

import numpy as np

from topo.placement.capacity.layout import Counts, DomainIndices, Layout

_MENDED_AS_FAST = 128
"""Entries that numpy rolls up in all while one change is mended."""
BROKEN = 1 << 40
"""More than any sum."""
_RESTS = 1
"""Rests for which it is kept how much domains are missed."""


class _Rollups(ABC):
    """The rolled-up numbers per tier of one number per tier-1 domain.

    The arrays are changed in place, so no caller may keep one beyond the next change. Reading one
    costs O(changes since the last read); O(tier-1 domains) the first time.
    """

    __slots__ = ("_by_tier", "_changes", "_how", "_layout", "_values")

    def __init__(self, values: Counts, how: np.ufunc) -> None:
        self._values, self._how = values, how
        self._layout: Layout | None = None
        self._changes: dict[int, int] = {}
        self._by_tier: dict[int, Counts] = {}

    def changed(self, at: int, by: int) -> None:
        """Record that the number of a tier-1 domain changed."""
        self._changes[at] = self._changes.get(at, 0) + by

    def change_many(self, at: DomainIndices, by: Counts) -> None:
        """Record that the numbers of some tier-1 domains changed; an index may repeat."""
        if len(at) * _MENDED_AS_FAST > len(self._values):
            self._layout, self._changes = None, {}
        else:
            for domain, change in zip(at.tolist(), by.tolist(), strict=True):
                self.changed(domain, change)

    def by(self, tier: int, layout: Layout) -> Counts:
        """Return the rolled-up number of each domain of a tier."""
        if layout is not self._layout or self._changes:
            self._follow(layout)
        found = self._by_tier.get(tier)
        if found is None:
            found = self._by_tier[tier] = layout.rolled(self._values, tier, self._how)
        return found

    def _follow(self, layout: Layout) -> None:
        if layout is not self._layout or len(self._changes) * _MENDED_AS_FAST > len(self._values):
            self._forget()
        else:
            for tier in self._by_tier:
                self._mend(tier, layout)
        self._layout, self._changes = layout, {}

    def _forget(self) -> None:
        self._by_tier = {}

    @abstractmethod
    def _mend(self, tier: int, layout: Layout) -> None:
        """Apply the recorded changes to the numbers of a tier; tier 1 is the numbers themselves."""


class Most(_Rollups):
    """The largest number in each domain."""

    __slots__ = ()

    def __init__(self, values: Counts) -> None:
        super().__init__(values, np.maximum)

    def _mend(self, tier: int, layout: Layout) -> None:
        if tier == 1:
            return
        values, most, of = self._values.data, self._by_tier[tier].data, layout.of[tier]
        unknown: set[int] = set()
        for at, by in self._changes.items():
            domain, now = of[at], values[at]
            # A larger number is the most; a smaller one matters only if it was the most.
            if now >= most[domain]:
                most[domain] = now
            elif now - by >= most[domain]:
                unknown.add(domain)  # it was the maximum: the next largest is not kept
        firsts = layout.firsts[tier]
        for domain in unknown:
            most[domain] = np.maximum.reduce(self._values[firsts[domain] : firsts[domain + 1]])


class Groups:
    """Whole groups of `size`, each inside one domain of `tier`: per top-tier domain, and in all."""

    __slots__ = ("_missed", "_sums", "by_top", "in_all", "size", "tier")

    def __init__(self, sums: Counts, tier: int, size: int, layout: Layout) -> None:
        self.tier, self.size = tier, size
        self._sums, self._missed = sums, dict[int, Counts]()
        self.by_top: Counts = sums // size
        if tier < layout.tiers and sums.size:
            self.by_top = np.add.reduceat(self.by_top, layout.starts_in(layout.tiers, tier))
        self.in_all = int(self.by_top.sum())

    def missed(self, rest: int) -> Counts:
        """Return the cost of using each domain: its sum, plus `BROKEN` if that breaks a group."""
        found = self._missed.get(rest)
        if found is None:
            if len(self._missed) == _RESTS:
                self._missed.clear()
            # A smaller last group breaks one more group if it does not fit into the remainder.
            found = self._missed[rest] = self._sums + BROKEN * (self._sums % self.size < rest)
        return found

    def changed(self, domain: int, top: int, sums: tuple[int, int]) -> None:
        """Follow a change of the sum of a domain, which is inside the top-tier domain `top`."""
        before, now = sums
        # A group came or went if a multiple of its size was crossed.
        more = now // self.size - before // self.size
        if more:
            self.by_top[top] += more
            self.in_all += more
        for rest, missed in self._missed.items():
            missed[domain] = now + BROKEN * (now % self.size < rest)


class Sums(_Rollups):
    """The sum of the numbers in each domain, and the whole groups in them."""

    __slots__ = ("_groups",)

    def __init__(self, values: Counts) -> None:
        super().__init__(values, np.add)
        self._groups: dict[tuple[int, int], Groups] = {}

    def groups(self, tier: int, size: int, layout: Layout) -> Groups:
        """Return the whole groups of `size`, each inside a domain of the tier."""
        sums = self.by(tier, layout)
        found = self._groups.get((tier, size))
        if found is None:
            found = self._groups[tier, size] = Groups(sums, tier, size, layout)
        return found

    def _forget(self) -> None:
        super()._forget()
        self._groups = {}

    def _mend(self, tier: int, layout: Layout) -> None:
        changes, of = self._changes, layout.of[tier]
        if tier > 1:
            changes = {}
            for at, by in self._changes.items():
                domain = of[at]
                changes[domain] = changes.get(domain, 0) + by
        sums, firsts, tops = self._by_tier[tier].data, layout.firsts[tier], layout.of[layout.tiers]
        groups = [each for each in self._groups.values() if each.tier == tier]
        for domain, by in changes.items():
            if tier > 1:
                sums[domain] += by
            now = sums[domain]
            for each in groups:
                each.changed(domain, tops[firsts[domain]], (now - by, now))
