"""What the nodes of tier-1 domains cost a job: their penalties, those of the cheapest nodes first.

Example: a domain has a node of penalty 0 with 1 free slot and one of penalty 2 with 2. One pod
costs 0, two cost 2, three cost 4.
"""

from itertools import accumulate

from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.slots import Slots

MOST_PENALTY = (1 << 16) - 1
"""A pod's penalty counts as no more than this in searches; plans tell the true one."""


class Penalties:
    """The penalties of one class of nodes, read from a capacity when somebody asks."""

    def __init__(self, capacity: CapacityView, slots: Slots) -> None:
        self._capacity, self._slots = capacity, slots
        self._sums: dict[int, tuple[int, ...]] = {}

    def among(self, slots: Slots) -> "Penalties | None":
        """Return the penalties of a part of the class; None where that has none."""
        return Penalties(self._capacity, slots) if slots.penalized else None

    def of(self, at: int, pods: int) -> int:
        """Return the least penalty of so many pods in a tier-1 domain; O(1) once it is read."""
        return self.sums(at)[pods]

    def sums(self, at: int) -> tuple[int, ...]:
        """Return the least penalty of 0, 1, 2, … pods in a tier-1 domain; O(its free slots)."""
        found = self._sums.get(at)
        if found is None:
            capacity = self._capacity
            nodes, _ = capacity.slots_per_node((at,), self._slots)
            each: list[int] = []
            for name, slots in nodes:
                each += [min(MOST_PENALTY, capacity.penalty(((name, 1),)))] * slots
            found = self._sums[at] = tuple(accumulate(sorted(each), initial=0))
        return found
