"""Exact tables: the cheapest way to take groups or pods from domains, with the cost as one number.

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

Pod tables have the cheapest way to take so many pods from one domain, for every number. Result: for
a domain of the tier of the groups, or below it, the least cost of each number of pods, and the
tier-1 domains that give them.

Why it is right: below the tier of the groups only the number of
pods counts, so this is a knapsack over the children of the domain, each with its own such table.
What the domain itself costs, its place in the spans and what its capacity loses, depends on the
number alone and is added.

Cost: for a domain the pods of its children times its own pods; tables of equal tier-1 domains are
shared. `steps_each` tells before they are made.

Example: a switchbox of dragonflies with 2, 2 and 1 free slots, canonical groups of 2. One pod costs
"1 dragonfly, no group lost" from the last one, "1 dragonfly, 1 lost" from another. Two pods cost "1
dragonfly, 1 lost", three "2 dragonflies, 1 lost" (2 + 1).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from topo.placement.capacity.layout import Counts
from topo.placement.view import FreeView, JobShape

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


@dataclass(slots=True)
class PodTables:
    """Costs of pods by domain. What is counted for a domain is kept for the next question."""

    view: FreeView
    packing: Packing
    _known: dict[tuple[int, int], tuple[list[int], Knapsack | None]] = field(default_factory=dict)
    _leaves: dict[tuple[int, ...], list[int]] = field(default_factory=dict)

    def costs(self, tier: int, domain: int) -> list[int]:
        """Return what 0, 1, 2, … pods cost, as many as there are slots or pods in the job."""
        key = tier, domain
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = (
                self._branch(tier, domain) if tier > 1 else self._leaf(domain)
            )
        return found[0]

    def taken(self, tier: int, domain: int, pods: int) -> dict[int, int]:
        """Return the tier-1 domains that give so many pods at their least cost."""
        if tier == 1:
            return {domain: pods}
        self.costs(tier, domain)
        knapsack = self._known[tier, domain][1]
        assert knapsack is not None, "made with the costs"  # noqa: S101 - for mypy
        children = self.children(tier, domain)
        found: dict[int, int] = {}
        for item, some, _ in knapsack.picks(pods, 0):
            found |= self.taken(tier - 1, children[item], some)
        return found

    def steps_each(self, tier: int) -> Counts:
        """Return an upper limit on the steps of each domain's table; 0 in tier 1."""
        most = self.view.shape.pods
        options = self.view.layout.rolled(np.minimum(self.view.free, most), tier)
        steps: Counts = (tier - 1) * options * (np.minimum(options, most) + 1)
        return steps

    def domain_cost(self, tier: int, domain: int, taken: tuple[int, int]) -> int:
        """Return the cost of taking slots from a domain, besides the cost in its children."""
        slots, below = taken
        shape, packing = self.view.shape, self.packing
        cost = packing.used(tier)
        if tier == shape.canonical_tier:
            before = self._before(tier, domain)
            # A canonical group is lost when a multiple of its size is crossed.
            lost = before // shape.canonical - (before - slots) // shape.canonical
            cost += (lost << packing.lost) + packing.low_taken(before, slots)
        if tier == shape.tiers:
            # The lost groups of all canonical domains below are one field of the packed cost.
            lost = packing.lost_of(cost + below)
            if lost:
                cost += packing.top_taken(int(self.view.tops_before[domain]), lost)
        return cost

    def children(self, tier: int, domain: int) -> range:
        """Return the domains of the next lower tier in a domain."""
        bounds = self.view.layout.below(tier, tier - 1)
        return range(bounds[domain], bounds[domain + 1])

    def _branch(self, tier: int, domain: int) -> tuple[list[int], Knapsack]:
        knapsack = Knapsack(self._most(tier, domain), 0)
        for child in self.children(tier, domain):
            costs = self.costs(tier - 1, child)
            knapsack.add([(pods, 0, costs[pods]) for pods in range(1, len(costs))])
        # Any number of single pods is reached.
        below = [cost for cost in knapsack.table if cost is not None]
        own = [
            cost + self.domain_cost(tier, domain, (pods, cost))
            for pods, cost in enumerate(below[1:], start=1)
        ]
        return [0, *own], knapsack

    def _leaf(self, domain: int) -> tuple[list[int], None]:
        most, alike = self._most(1, domain), self.alike(domain)
        found = self._leaves.get(alike)
        if found is None:
            costs = [self.tier1_cost(domain, pods) for pods in range(1, most + 1)]
            found = self._leaves[alike] = [0, *costs]
        return found, None

    def alike(self, domain: int) -> tuple[int, ...]:
        """Return a key that is equal for tier-1 domains whose pods cost the same."""
        slots, alone = self.view.slots, self.view.shape.tiers == 1
        # A domain without tiers above counts by name, since it is its own top domain.
        intact = not slots.busy[domain]
        free = int(self.view.free[domain])
        return free, slots.free_list[domain], intact, domain if alone else -1

    def tier1_cost(self, domain: int, pods: int) -> int:
        """Return what so many pods of a tier-1 domain cost."""
        slots = self.view.slots
        broken = int(not slots.busy[domain] and pods < slots.free_list[domain])
        return broken + self.domain_cost(1, domain, (pods, broken))

    def _most(self, tier: int, domain: int) -> int:
        """Return the most pods that a domain can give."""
        if tier == 1:
            return min(self.view.shape.pods, int(self.view.free[domain]))
        firsts = self.view.layout.firsts[tier]
        free = self.view.free[firsts[domain] : firsts[domain + 1]]
        return min(self.view.shape.pods, int(free.sum()))

    def _before(self, tier: int, domain: int) -> int:
        if tier == 1:
            return self.view.slots.free_list[domain]
        firsts = self.view.layout.firsts[tier]
        return int(self.view.slots.free[firsts[domain] : firsts[domain + 1]].sum())


def pod_tables(view: FreeView) -> PodTables:
    """New tables on a view."""
    shape, layout = view.shape, view.layout
    slots = layout.rolled(view.slots.free, shape.canonical_tier)
    return PodTables(view, packing_of(shape, int(slots.max()), int(view.tops_before.max())))
