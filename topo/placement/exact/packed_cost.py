"""The objective as one whole number, so that an exact search adds and compares it in one step.

Fields from the top: domains used of each tier, canonical groups lost, the two profiles, domains
newly broken. A profile is a sum of B to the power of each capacity with B larger than any count:
adding such sums and comparing them is leximax. A number is what a placement takes away, never less
than 0, so that fields never borrow from each other.
"""

from dataclasses import dataclass

from topo.placement.search.job_shape import Shape

MOST_BITS = 1 << 14
"""Profiles longer than this are left out: they would cost more than they tell."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Where each field starts, in bits. `exact`: no field is left out."""

    base: int
    low: int
    top: int
    lost: int
    spans: tuple[int, ...]
    lost_mask: int
    exact: bool

    def used(self, tier: int) -> int:
        """One domain of a tier."""
        return 1 << self.spans[tier]

    def lost_of(self, cost: int) -> int:
        """The canonical groups lost by a cost."""
        return (cost >> self.lost) & self.lost_mask

    def low_taken(self, before: int, taken: int) -> int:
        """Slots taken from a domain of the canonical tier."""
        if not self.exact:
            return 0
        return ((1 << self.base * before) - (1 << self.base * (before - taken))) << self.low

    def top_taken(self, before: int, taken: int) -> int:
        """Canonical groups taken from a domain of the top tier."""
        return ((1 << self.base * before) - (1 << self.base * (before - taken))) << self.top


def packing(shape: Shape, most_slots: int, most_groups: int) -> Packing:
    """Fields wide enough for any placement of the job.

    `most_slots` are free in one domain of the canonical tier, `most_groups` canonical groups in one
    of the top tier.
    """
    count = (2 * shape.pods + 2).bit_length()
    exact = count * most_slots <= MOST_BITS
    low = count
    top = low + (count * (most_slots + 1) if exact else 0)
    lost = top + count * (most_groups + 1)
    spans = tuple(lost + count * tier for tier in range(shape.tiers + 1))
    return Packing(count, low, top, lost, spans, (1 << count) - 1, exact)
