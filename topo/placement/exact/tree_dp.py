"""The best allocation by dynamic programming over the tree.

Result: how to take a number of groups, and the tail or not, from some domains at the least cost.
The cost is the whole objective as one number (`knapsack.py`).

Why it is right: the costs of different domains add up, and a domain is used best by itself
whatever the others do. So the best way to take x groups from a domain follows from the best ways
to take fewer from its children: a knapsack over the children (`knapsack.py`). Inside a domain of
the groups' own tier only pods count: the same search with single pods as groups. Where that would
cost too much its tier-1 domains are chosen by the window rule, the best in their number alone.

Cost: for a domain, groups that its children can give x states of its table. `whole_groups.py`
counts this before it asks.

Example: a switchbox of dragonflies with 9, 8 and 6 free slots; groups of 2 pods, of which 7 are
needed; canonical groups of 8. A dragonfly with 9 can give 1 to 4 groups, 8 the same, 6 gives 1 to
3. Two dragonflies are needed. The table after 9 and 8 has 7 groups at the cost "2 domains, 2
canonical groups lost" (4 + 3). After 6 it has 7 groups as 4 + 3 from 8 and 6 too: "2 domains, 1
lost". That is less, so 8 and 6 are used up and 9 stays whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import cached_property

import numpy as np

from topo.placement.capacity.layout import Counts
from topo.placement.capacity.penalties import MOST_PENALTY
from topo.placement.exact.knapsack import Knapsack, Option, Packing, combined, packing_of
from topo.placement.job.plan import Allocation, Share, joined
from topo.placement.quality.measure import Effect, effect_of
from topo.placement.search.inside_domain import Demand, spread
from topo.placement.view import FreeView

MOST_TABLE_STEPS = 400
"""Steps that the table of one domain of the groups may take; else the window rule has to do."""


@dataclass
class ExactSearch:
    """A search on one view. What it finds for a domain is kept for the next question.

    `by_window` are the domains of the groups inside of which the window rule chose.
    """

    view: FreeView
    packing: Packing
    by_window: set[int] = dataclass_field(default_factory=set)
    _known: dict[tuple[int, int], tuple[list[Option], Knapsack | None]] = dataclass_field(
        default_factory=dict
    )
    _leaves: dict[tuple[object, ...], list[Option]] = dataclass_field(default_factory=dict)

    @cached_property
    def pods(self) -> "ExactSearch":
        """The search for single pods, which counts inside the domains of the groups."""
        return ExactSearch(self.view.single_pods(self.view.shape.pods), self.packing)

    @cached_property
    def table_steps(self) -> Counts:
        """An upper limit on the steps of `pod_costs` of each domain of the groups; 0 in tier 1."""
        tier, most = self.view.shape.tier, self.view.shape.pods
        options = self.view.layout.rolled(np.minimum(self.view.free, most), tier)
        steps: Counts = (tier - 1) * options * (np.minimum(options, most) + 1)
        return steps

    def over(
        self, tier: int, domains: Sequence[int], need: Demand, least: int
    ) -> Allocation | None:
        """Return the best way to meet the need from some domains of a tier, `least` groups from
        each.
        """
        knapsack = combined([self.options(tier, domain, least) for domain in domains], need)
        if knapsack is None:
            return None
        return self._allocation_of_picks(tier, domains, knapsack.picks(*need))

    def inside(self, tier: int, domain: int, need: Demand) -> Allocation:
        """Return the best way to meet the need from one domain of a tier."""
        if tier == self.view.shape.tier:
            return self._allocation_of_groups(domain, need)
        # Fills the table of this domain and of those below it.
        self.options(tier, domain, 0)
        knapsack = self._known[tier, domain][1]
        assert knapsack is not None, "made with the options"  # noqa: S101 - for mypy
        children = self.children(tier, domain)
        return self._allocation_of_picks(tier - 1, children, knapsack.picks(*need))

    def _allocation_of_groups(self, domain: int, need: Demand) -> Allocation:
        share = Share(domain, *need)
        if domain in self.by_window:
            return spread(self.view, share)
        return Allocation((share,), self.taken(domain, self.view.shape.pods_in(share)))

    def taken(self, domain: int, pods: int) -> dict[int, int]:
        """Return the tier-1 domains of a domain of the groups that give so many pods cheapest."""
        tier = self.view.shape.tier
        if tier == 1:
            return {domain: pods}
        return self.pods.inside(tier, domain, (pods, False)).tier1_pods

    def pod_costs(self, domain: int) -> list[int]:
        """Return what 0, 1, 2, … pods of a domain of the groups cost."""
        return [0, *(cost for _, _, cost in self.pods.options(self.view.shape.tier, domain, 0))]

    def options(self, tier: int, domain: int, least: int) -> list[Option]:
        """Return all that a domain can give, and what each costs."""
        key = tier, domain
        found = self._known.get(key)
        if found is None:
            at_groups = tier == self.view.shape.tier
            found = self._known[key] = (
                (self._leaf(domain), None) if at_groups else self._branch(tier, domain)
            )
        return [option for option in found[0] if option[0] >= least] if least else found[0]

    def _allocation_of_picks(
        self, tier: int, domains: Sequence[int], picks: list[tuple[int, int, int]]
    ) -> Allocation:
        return joined(self.inside(tier, domains[i], (x, bool(t))) for i, x, t in picks)

    def _branch(self, tier: int, domain: int) -> tuple[list[Option], Knapsack]:
        shape = self.view.shape
        most = min(shape.m, int(self.view.groups(tier)[domain]))
        knapsack = Knapsack(most, 1 if shape.r else 0)
        for child in self.children(tier, domain):
            knapsack.add(self.options(tier - 1, child, 0))
        found = []
        for state, cost in enumerate(knapsack.table):
            if cost is not None and state:
                x, t = state % (most + 1), state // (most + 1)
                taken = x * shape.k + t * shape.r, cost
                found.append((x, t, cost + self.domain_cost(tier, domain, taken)))
        return found, knapsack

    def _leaf(self, domain: int) -> list[Option]:
        if self.view.shape.tier > 1:
            return self._wide_leaf(domain)
        # Of domains of the lowest tier nothing else counts: equal ones share their options.
        alike = self.alike(domain)
        found = self._leaves.get(alike)
        if found is None:
            uses = self._uses(domain)
            found = [(x, t, self._tier1_cost(domain, pods)) for x, t, pods in uses]
            self._leaves[alike] = found
        return found

    def _wide_leaf(self, domain: int) -> list[Option]:
        """Return what a domain above tier 1 can give."""
        uses = self._uses(domain)
        if self.table_steps[domain] <= MOST_TABLE_STEPS:
            # Exact: the cheapest tier-1 domains for each number of pods.
            costs = self.pod_costs(domain)
            return [(x, t, costs[pods]) for x, t, pods in uses]
        # Too many steps: the window rule chooses inside, and the proof ends at this domain.
        self.by_window.add(domain)
        return [(x, t, self._cost(domain, x, t)) for x, t, _ in uses]

    def _uses(self, domain: int) -> list[tuple[int, int, int]]:
        """Return groups, tails, and the pods of both, that a domain of the groups can hold."""
        shape, slots = self.view.shape, int(self.view.free_slots[domain])
        return [
            (x, t, x * shape.k + t * shape.r)
            for t in range(2 if 0 < shape.r <= slots else 1)
            for x in range(min(shape.m, (slots - t * shape.r) // shape.k) + 1)
            if x or t
        ]

    def _cost(self, domain: int, x: int, t: int) -> int:
        """Return the cost of x groups and t tails in a group-tier domain by the window rule."""
        shape, packing = self.view.shape, self.packing
        taken = x * shape.k + t * shape.r
        allocation = spread(self.view, Share(domain, x, bool(t)))
        inner = effect_of(self.view, allocation.tier1_pods)
        cost = (inner.broken << packing.broken) + inner.penalty
        for tier in range(1, shape.tier):
            cost += inner.span[-tier] * packing.used(tier)
        if shape.canonical_tier < shape.tier:
            cost += self._cost_below(inner)
        return cost + self.domain_cost(shape.tier, domain, (taken, cost))

    def _cost_below(self, inner: Effect) -> int:
        """Return the cost in canonical domains that lie below the domain of the groups."""
        # Canonical domains below the domain of the groups are not seen from above.
        packing = self.packing
        low = (
            sum(-change << packing.base * free for free, change in inner.low)
            if packing.exact
            else 0
        )
        return (inner.lost << packing.lost) + (low << packing.low)

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

    def alike(self, domain: int) -> tuple[object, ...]:
        """Return a key that is equal for tier-1 domains whose pods cost the same."""
        slots, alone = self.view.slots, self.view.shape.tiers == 1
        # A domain without tiers above counts by name, since it is its own top domain.
        intact = not slots.busy[domain]
        free = int(self.view.free[domain])
        penalties = self.view.penalties
        sums = penalties.sums(domain) if penalties else ()
        return free, slots.free_list[domain], intact, domain if alone else -1, sums

    def _tier1_cost(self, domain: int, pods: int) -> int:
        """Return what so many pods of a tier-1 domain cost."""
        slots = self.view.slots
        broken = int(not slots.busy[domain] and pods < slots.free_list[domain])
        penalties = self.view.penalties
        cost = (broken << self.packing.broken) + (penalties.of(domain, pods) if penalties else 0)
        return cost + self.domain_cost(1, domain, (pods, cost))

    def _before(self, tier: int, domain: int) -> int:
        if tier == 1:
            return self.view.slots.free_list[domain]
        firsts = self.view.layout.firsts[tier]
        return int(self.view.slots.free[firsts[domain] : firsts[domain + 1]].sum())


def exact_search(view: FreeView) -> ExactSearch:
    """Return a new search on a view."""
    slots = view.layout.rolled(view.slots.free, view.shape.canonical_tier)
    most_penalty = MOST_PENALTY if view.penalties else 0
    most_groups = int(view.tops_before.max())
    return ExactSearch(view, packing_of(view.shape, int(slots.max()), most_groups, most_penalty))
