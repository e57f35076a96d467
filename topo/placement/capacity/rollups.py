"""Numbers of tier-1 domains rolled up by the domains above them, mended where one changed.

A job takes a few of thousands of tier-1 domains, and the next search asks for the sums of all of
them again. So what was counted once is kept, and counted anew only in the domains around a change.
"""

import numpy as np

from topo.placement.capacity.layout import Counts, Layout

_MENDED_AS_FAST = 512
"""Entries that numpy goes over while it counts one domain alone."""


class Rollups:
    """Sums and maxima of a number per tier-1 domain, by the domains of higher tiers.

    The arrays are changed in place: nobody keeps one beyond the next change.
    """

    __slots__ = ("_changed", "_kept", "_layout", "_values")

    def __init__(self, values: Counts) -> None:
        self._values = values
        self._layout: Layout | None = None
        self._kept: dict[tuple[np.ufunc, int], Counts] = {}
        self._changed: set[int] = set()

    def changed(self, at: int) -> None:
        """The number of a tier-1 domain is another one."""
        self._changed.add(at)

    def by(self, how: np.ufunc, tier: int, layout: Layout) -> Counts:
        """`np.add` or `np.maximum` of the numbers in each domain of a tier above 1.

        O(domains around a change since the last call); O(tier-1 domains) the first time.
        """
        if layout is not self._layout or len(self._changed) * _MENDED_AS_FAST > len(self._values):
            self._kept, self._layout = {}, layout
        elif self._changed:
            self._mend(layout)
        self._changed.clear()
        found = self._kept.get((how, tier))
        if found is None:
            found = self._kept[how, tier] = how.reduceat(self._values, layout.starts[tier])
        return found

    def _mend(self, layout: Layout) -> None:
        for (how, tier), kept in self._kept.items():
            of, firsts = layout.of[tier], layout.firsts[tier]
            for domain in {of[at] for at in self._changed}:
                kept[domain] = how.reduce(self._values[firsts[domain] : firsts[domain + 1]])
