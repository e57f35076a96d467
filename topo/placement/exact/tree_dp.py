"""The best allocation by dynamic programming over the tree.

Result: how to take a number of groups, and the tail or not, from some domains at the least cost.
The cost is the whole objective as one number (`packed_cost.py`).

Why it is right: the costs of different domains add up, and a domain is used best by itself
whatever the others do. So the best way to take x groups from a domain follows from the best ways
to take fewer from its children: a knapsack over the children (`knapsack.py`). Where groups live
above tier 1, their tier-1 domains are chosen by the window rule, and the result is only as good
as that.

Cost: for a domain, groups that its children can give x states of its table. `improve.py` counts
this before it asks.

Example: a switchbox of dragonflies with 9, 8 and 6 free slots; groups of 2 pods, of which 7 are
needed; canonical groups of 8. A dragonfly with 9 can give 1 to 4 groups, 8 the same, 6 gives 1 to
3. Two dragonflies are needed. The table after 9 and 8 has 7 groups at the cost "2 domains, 2
canonical groups lost" (4 + 3). After 6 it has 7 groups as 4 + 3 from 8 and 6 too: "2 domains, 1
lost". That is less, so 8 and 6 are used up and 9 stays whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field

from topo.placement.exact.knapsack import Knapsack, Option
from topo.placement.exact.packed_cost import Packing, packing_of
from topo.placement.job.allocation import Allocation, Share, joined
from topo.placement.quality.measure import Effect, effect_of
from topo.placement.search.descend import Demand, spread
from topo.placement.search.free_view import FreeView


@dataclass(slots=True)
class ExactSearch:
    """A search on one view. What it finds for a domain is kept for the next question."""

    view: FreeView
    packing: Packing
    _known: dict[tuple[int, int], tuple[list[Option], Knapsack | None]] = dataclass_field(
        default_factory=dict
    )
    _leaves: dict[tuple[int, int, bool], list[Option]] = dataclass_field(default_factory=dict)

    def over(
        self, tier: int, domains: Sequence[int], need: Demand, least: int
    ) -> Allocation | None:
        """The best way to meet the need from some domains of a tier, `least` groups from each."""
        options = [self.options(tier, domain, least) for domain in domains]
        return self._joined(tier, domains, options, need)

    def inside(self, tier: int, domain: int, need: Demand) -> Allocation | None:
        """The best way to meet the need from one domain of a tier."""
        if tier == self.view.shape.tier:
            return spread(self.view, Share(domain, *need))
        self.options(tier, domain, 0)
        knapsack = self._known[tier, domain][1]
        assert knapsack is not None, "made with the options"  # noqa: S101
        children = self._children(tier, domain)
        parts = [
            self.inside(tier - 1, children[i], (x, bool(t))) for i, x, t in knapsack.picks(*need)
        ]
        return joined(part for part in parts if part is not None)

    def options(self, tier: int, domain: int, least: int) -> list[Option]:
        """All that a domain can give, and what each costs."""
        key = tier, domain
        found = self._known.get(key)
        if found is None:
            at_groups = tier == self.view.shape.tier
            found = self._known[key] = (
                (self._leaf(domain), None) if at_groups else self._branch(tier, domain)
            )
        return [option for option in found[0] if option[0] >= least]

    def _joined(
        self, tier: int, domains: Sequence[int], options: list[list[Option]], need: Demand
    ) -> Allocation | None:
        knapsack = Knapsack(*need)
        most_each = [max((x for x, _, _ in each), default=0) for each in options]
        rest = sum(most_each)
        for each, most in zip(options, most_each, strict=True):
            rest -= most
            # States that the domains to come cannot complete are dropped.
            knapsack.add(each, rest)
        if knapsack.table[-1] is None:
            return None
        return self._picked(tier, domains, knapsack.picks(*need))

    def _picked(
        self, tier: int, domains: Sequence[int], picks: list[tuple[int, int, int]]
    ) -> Allocation:
        parts = [self.inside(tier, domains[i], (x, bool(t))) for i, x, t in picks]
        return joined(part for part in parts if part is not None)

    def _branch(self, tier: int, domain: int) -> tuple[list[Option], Knapsack]:
        shape = self.view.shape
        most = min(shape.m, int(self.view.groups(tier)[domain]))
        knapsack = Knapsack(most, 1 if shape.r else 0)
        for child in self._children(tier, domain):
            knapsack.add(self.options(tier - 1, child, 0))
        found = []
        for state, cost in enumerate(knapsack.table):
            if cost is not None and state:
                x, t = state % (most + 1), state // (most + 1)
                found.append(
                    (
                        x,
                        t,
                        cost + self._domain_cost(tier, domain, (x * shape.k + t * shape.r, cost)),
                    )
                )
        return found, knapsack

    def _leaf(self, domain: int) -> list[Option]:
        shape, kept = self.view.shape, self.view.slots
        slots = int(self.view.free_slots[domain])
        # Of domains of the lowest tier nothing else counts: equal ones share their options.
        alike = (slots, kept.free_list[domain], kept.busy[domain] > 0)
        found = self._leaves.get(alike) if shape.tier == 1 < shape.tiers else None
        if found is None:
            found = self._leaves[alike] = [
                (x, t, self._cost(domain, x, t))
                for t in range(2 if 0 < shape.r <= slots else 1)
                for x in range(min(shape.m, (slots - t * shape.r) // shape.k) + 1)
                if x or t
            ]
        return found

    def _cost(self, domain: int, x: int, t: int) -> int:
        """The cost of x groups and t tails in a domain of the group tier."""
        shape, packing = self.view.shape, self.packing
        taken = x * shape.k + t * shape.r
        if shape.tier == 1:
            cost = self._broken(domain, taken)
            return cost + self._domain_cost(1, domain, (taken, cost))
        allocation = spread(self.view, Share(domain, x, bool(t)))
        inner = effect_of(self.view, allocation.tier1_pods)
        cost = inner.broken
        for tier in range(1, shape.tier):
            cost += inner.span[-tier] * packing.used(tier)
        if shape.canonical_tier < shape.tier:
            cost += self._cost_below(inner)
        return cost + self._domain_cost(shape.tier, domain, (taken, cost))

    def _cost_below(self, inner: Effect) -> int:
        """The cost in canonical domains that lie below the domain of the groups."""
        packing = self.packing
        low = (
            sum(-change << packing.base * free for free, change in inner.low)
            if packing.exact
            else 0
        )
        return (inner.lost << packing.lost) + (low << packing.low)

    def _domain_cost(self, tier: int, domain: int, taken: tuple[int, int]) -> int:
        """What it costs to take slots from a domain, beside what it costs its children."""
        slots, below = taken
        shape, packing = self.view.shape, self.packing
        cost = packing.used(tier)
        if tier == shape.canonical_tier:
            before = self._before(tier, domain)
            lost = before // shape.canonical - (before - slots) // shape.canonical
            cost += (lost << packing.lost) + packing.low_taken(before, slots)
        if tier == shape.tiers:
            lost = packing.lost_of(cost + below)
            if lost:
                cost += packing.top_taken(int(self.view.tops_before[domain]), lost)
        return cost

    def _before(self, tier: int, domain: int) -> int:
        if tier == 1:
            return int(self.view.slots.free[domain])
        firsts = self.view.layout.firsts[tier]
        return int(self.view.slots.free[firsts[domain] : firsts[domain + 1]].sum())

    def _broken(self, domain: int, taken: int) -> int:
        slots = self.view.slots
        return int(not slots.busy[domain] and taken < slots.free[domain])

    def _children(self, tier: int, domain: int) -> range:
        bounds = self.view.layout.below(tier, tier - 1)
        return range(bounds[domain], bounds[domain + 1])


def exact_search(view: FreeView) -> ExactSearch:
    """A new search on a view."""
    shape, layout = view.shape, view.layout
    slots = layout.rolled(view.slots.free, shape.canonical_tier)
    return ExactSearch(view, packing_of(shape, int(slots.max()), int(view.tops_before.max())))
