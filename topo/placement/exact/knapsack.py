"""The knapsack of the exact searches, and their costs, each one whole number.

The knapsack takes so many groups, and the tail or not, from several items. Result: for each number
of groups, with and without the tail, the least cost, and which items give it.

Why it is right: the usual knapsack recurrence. The best way to reach a state with the items so
far either does not use the last item, or uses one of its options on top of the best way to reach
the state that is smaller by that option.

Cost: states x options of each item. All tables are kept, so that the choice can be read back.

Example: two items, each of which gives 1 group at cost 3 or 2 groups at cost 4. Tables by groups:

    no item           0 groups 0
    the first item    0 groups 0, 1 group 3, 2 groups 4
    both items        0 groups 0, 1 group 3, 2 groups 4, 3 groups 7, 4 groups 8

3 groups cost 7: 2 of one item (4) and 1 of the other (3).

The cost is the objective as one whole number, which an exact search adds and compares in one step.
Result: a cost whose bits are, from the top: domains used of each tier, canonical groups lost, the
profile of the top tier, the profile of slots, domains newly broken, penalty.

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

from collections.abc import Sequence
from dataclasses import dataclass

from topo.placement.view import JobShape

Option = tuple[int, int, int]
"""Groups, tails (0 or 1), cost."""
Table = list[int | None]
"""The least cost of each state; state x + t * (m + 1) is x groups and t tails."""
MOST_BITS = 1 << 14
"""Profiles longer than this are left out: they would cost more than they tell."""


class Knapsack:
    """Items, each of which may be used in one of its ways or not at all; costs add up."""

    def __init__(self, groups: int, tails: int) -> None:
        self._groups, self._tails = groups, tails
        first: Table = [None] * ((groups + 1) * (tails + 1))
        first[0] = 0
        self._tables = [first]
        self._options: list[Sequence[Option]] = []

    def add(self, options: Sequence[Option], rest: int = 0) -> None:
        """Add an item. States that the `rest` of the groups cannot complete are dropped."""
        before = self._tables[-1]
        after = before[:]
        width = self._groups + 1
        # With fewer groups than that, the items still to come are not enough.
        least = self._groups - rest if rest else 0
        for state, cost in enumerate(before):
            if cost is None:
                continue
            groups, tails = state % width, state // width
            # Each state may stay as it is, or use the item in one of its ways.
            for x, t, more in options:
                if groups + x > self._groups or tails + t > self._tails or groups + x < least:
                    continue
                at = state + x + t * width
                known = after[at]
                if known is None or cost + more < known:
                    after[at] = cost + more
        self._tables.append(after)
        self._options.append(options)

    @property
    def table(self) -> Table:
        """The least cost of each state over all items so far."""
        return self._tables[-1]

    def picks(self, groups: int, tails: int) -> list[tuple[int, int, int]]:
        """Return how a state is reached at its least cost: (item, groups, tails) of items used."""
        width = self._groups + 1
        state = groups + tails * width
        found = []
        for item in range(len(self._options) - 1, -1, -1):
            cost, before = self._tables[item + 1][state], self._tables[item]
            # The item changed nothing for this state: it is not used.
            if before[state] == cost:
                continue
            for x, t, more in self._options[item]:
                # Walk back over the way that explains the cost of the state.
                at = state - x - t * width
                left = before[at] if at >= 0 and state % width >= x else None
                if cost is not None and left is not None and left + more == cost:
                    found.append((item, x, t))
                    state = at
                    break
        return found[::-1]


def combined(options: Sequence[Sequence[Option]], need: tuple[int, int]) -> Knapsack | None:
    """Return the knapsack over items that meets a need of groups and tails; None: it cannot."""
    knapsack = Knapsack(*need)
    most_each = [max((x for x, _, _ in each), default=0) for each in options]
    rest = sum(most_each)
    for each, most in zip(options, most_each, strict=True):
        # States that the items still to come cannot complete are dropped at once.
        rest -= most
        knapsack.add(each, rest)
    return None if knapsack.table[-1] is None else knapsack


@dataclass(frozen=True, slots=True)
class Packing:
    """Where each field starts, in bits; `base` is the width of one count, so that B is 2^base.

    `exact`: no field is left out.
    """

    base: int
    broken: int
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


def packing_of(
    shape: JobShape, most_slots: int, most_groups: int, most_penalty: int = 0
) -> Packing:
    """Return fields wide enough for any placement of the job; `most_penalty` is that of a pod."""
    count = (2 * shape.pods + 2).bit_length()
    broken = (shape.pods * most_penalty).bit_length()
    exact = count * most_slots <= MOST_BITS
    low = broken + count
    top = low + (count * (most_slots + 1) if exact else 0)
    lost = top + count * (most_groups + 1)
    spans = tuple(lost + count * tier for tier in range(shape.tiers + 1))
    return Packing(count, broken, low, top, lost, spans, (1 << count) - 1, exact)
