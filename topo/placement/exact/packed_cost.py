"""The objective as one whole number, so that an exact search adds and compares it in one step.

Result: a cost whose bits are, from the top: domains used of each tier, canonical groups lost, the
profile of the top tier, the profile of slots, domains newly broken.

Why it is right: each field is wide enough for any placement of the job, and holds what a
placement takes away. That is never negative, so a field never borrows from the next one. Hence
adding costs adds all fields, and comparing costs compares the fields in the order of the
objective. A profile is a sum of B to the power of each capacity, with B larger than any count.
The sum that is smaller took less at the largest capacity at which the two differ: that is
leximax.

Cost: a few additions of numbers with hundreds of bits. Profiles longer than MOST_BITS are left
out.

Example: B = 10 for the eye. Taking 8 of 9 free slots turns a capacity of 9 into one of 1: 10^9 -
10^1 is taken. Taking 8 of 8 takes 10^8 - 10^0, which is less: the exact fit is better.
"""

from dataclasses import dataclass

from topo.placement.view import JobShape

MOST_BITS = 1 << 14
"""Profiles longer than this are left out: they would cost more than they tell."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Where each field starts, in bits; `base` is the width of one count, so that B is 2^base.

    `exact`: no field is left out.
    """

    base: int
    low: int
    top: int
    lost: int
    spans: tuple[int, ...]
    lost_mask: int
    exact: bool

    def used(self, tier: int) -> int:
        """Return the cost of one domain of a tier."""
        return 1 << self.spans[tier]

    def lost_of(self, cost: int) -> int:
        """Return the canonical groups that a cost loses."""
        return (cost >> self.lost) & self.lost_mask

    def low_taken(self, before: int, taken: int) -> int:
        """Return the cost of slots taken from a domain of the canonical tier."""
        if not self.exact:
            return 0
        return ((1 << self.base * before) - (1 << self.base * (before - taken))) << self.low

    def top_taken(self, before: int, taken: int) -> int:
        """Return the cost of canonical groups taken from a domain of the top tier."""
        return ((1 << self.base * before) - (1 << self.base * (before - taken))) << self.top


def packing_of(shape: JobShape, most_slots: int, most_groups: int) -> Packing:
    """Return fields wide enough for any placement of the job."""
    count = (2 * shape.pods + 2).bit_length()
    exact = count * most_slots <= MOST_BITS
    low = count
    top = low + (count * (most_slots + 1) if exact else 0)
    lost = top + count * (most_groups + 1)
    spans = tuple(lost + count * tier for tier in range(shape.tiers + 1))
    return Packing(count, low, top, lost, spans, (1 << count) - 1, exact)
