"""The best allocation by dynamic programming over the tree.

Result: how to take a number of groups, and the tail or not, from some domains at the least cost.
The cost is the whole objective as one number (`pod_tables.py`).

Why it is right: the costs of different domains add up, and a domain is used best by itself
whatever the others do. So the best way to take x groups from a domain follows from the best ways
to take fewer from its children: a knapsack over the children (`pod_tables.py`). Inside a domain of
the groups' own tier only pods count (`pod_tables.py`); where that would cost too much its tier-1
domains are chosen by the window rule, which is the best in their number alone.

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

from topo.placement.capacity.layout import Counts
from topo.placement.exact.pod_tables import Knapsack, Option, PodTables, pod_tables
from topo.placement.job.plan import Allocation, Share, joined
from topo.placement.quality.measure import Effect, effect_of
from topo.placement.search.window_rule import Demand, spread
from topo.placement.view import FreeView

MOST_TABLE_STEPS = 400
"""Steps that the table of one domain of the groups may take; else the window rule has to do."""


@dataclass
class ExactSearch:
    """A search on one view. What it finds for a domain is kept for the next question.

    `by_window` are the domains of the groups inside of which the window rule chose.
    """

    view: FreeView
    tables: PodTables
    by_window: set[int] = dataclass_field(default_factory=set)
    _known: dict[tuple[int, int], tuple[list[Option], Knapsack | None]] = dataclass_field(
        default_factory=dict
    )
    _leaves: dict[tuple[int, ...], list[Option]] = dataclass_field(default_factory=dict)

    @cached_property
    def table_steps(self) -> Counts:
        """About what the table of pods of each domain of the groups costs."""
        return self.tables.steps_each(self.view.shape.tier)

    def over(
        self, tier: int, domains: Sequence[int], need: Demand, least: int
    ) -> Allocation | None:
        """Return the best way to meet the need from some domains of a tier, `least` groups from
        each.
        """
        options = [self.options(tier, domain, least) for domain in domains]
        return self._cheapest_allocation(tier, domains, options, need)

    def inside(self, tier: int, domain: int, need: Demand) -> Allocation | None:
        """Return the best way to meet the need from one domain of a tier."""
        if tier == self.view.shape.tier:
            return self._allocation_of_groups(domain, need)
        # Fills the table of this domain and of those below it.
        self.options(tier, domain, 0)
        knapsack = self._known[tier, domain][1]
        assert knapsack is not None, "made with the options"  # noqa: S101 - for mypy
        children = self.tables.children(tier, domain)
        parts = [
            self.inside(tier - 1, children[i], (x, bool(t))) for i, x, t in knapsack.picks(*need)
        ]
        return joined(part for part in parts if part is not None)

    def _allocation_of_groups(self, domain: int, need: Demand) -> Allocation:
        shape, share = self.view.shape, Share(domain, *need)
        if domain in self.by_window:
            return spread(self.view, share)
        pods = share.groups * shape.k + share.tail * shape.r
        return Allocation((share,), self.tables.taken(shape.tier, domain, pods))

    def options(self, tier: int, domain: int, least: int) -> list[Option]:
        """Return all that a domain can give, and what each costs."""
        key = tier, domain
        found = self._known.get(key)
        if found is None:
            at_groups = tier == self.view.shape.tier
            found = self._known[key] = (
                (self._leaf(domain), None) if at_groups else self._branch(tier, domain)
            )
        return [option for option in found[0] if option[0] >= least]

    def _cheapest_allocation(
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
        return self._allocation_of_picks(tier, domains, knapsack.picks(*need))

    def _allocation_of_picks(
        self, tier: int, domains: Sequence[int], picks: list[tuple[int, int, int]]
    ) -> Allocation:
        parts = [self.inside(tier, domains[i], (x, bool(t))) for i, x, t in picks]
        return joined(part for part in parts if part is not None)

    def _branch(self, tier: int, domain: int) -> tuple[list[Option], Knapsack]:
        shape = self.view.shape
        most = min(shape.m, int(self.view.groups(tier)[domain]))
        knapsack = Knapsack(most, 1 if shape.r else 0)
        for child in self.tables.children(tier, domain):
            knapsack.add(self.options(tier - 1, child, 0))
        found = []
        for state, cost in enumerate(knapsack.table):
            if cost is not None and state:
                x, t = state % (most + 1), state // (most + 1)
                found.append(
                    (
                        x,
                        t,
                        cost
                        + self.tables.domain_cost(tier, domain, (x * shape.k + t * shape.r, cost)),
                    )
                )
        return found, knapsack

    def _leaf(self, domain: int) -> list[Option]:
        shape, tables = self.view.shape, self.tables
        if shape.tier > 1:
            return self._wide_leaf(domain)
        # Of domains of the lowest tier nothing else counts: equal ones share their options.
        alike = tables.alike(domain)
        found = self._leaves.get(alike)
        if found is None:
            uses = self._uses(domain)
            found = [(x, t, tables.tier1_cost(domain, pods)) for x, t, pods in uses]
            self._leaves[alike] = found
        return found

    def _wide_leaf(self, domain: int) -> list[Option]:
        """Return what a domain above tier 1 can give."""
        tier, uses = self.view.shape.tier, self._uses(domain)
        if self.table_steps[domain] <= MOST_TABLE_STEPS:
            # Exact: the cheapest tier-1 domains for each number of pods.
            costs = self.tables.costs(tier, domain)
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
        shape, packing = self.view.shape, self.tables.packing
        taken = x * shape.k + t * shape.r
        allocation = spread(self.view, Share(domain, x, bool(t)))
        inner = effect_of(self.view, allocation.tier1_pods)
        cost = inner.broken
        for tier in range(1, shape.tier):
            cost += inner.span[-tier] * packing.used(tier)
        if shape.canonical_tier < shape.tier:
            cost += self._cost_below(inner)
        return cost + self.tables.domain_cost(shape.tier, domain, (taken, cost))

    def _cost_below(self, inner: Effect) -> int:
        """Return the cost in canonical domains that lie below the domain of the groups."""
        # Canonical domains below the domain of the groups are not seen from above.
        packing = self.tables.packing
        low = (
            sum(-change << packing.base * free for free, change in inner.low)
            if packing.exact
            else 0
        )
        return (inner.lost << packing.lost) + (low << packing.low)


def exact_search(view: FreeView) -> ExactSearch:
    """Return a new search on a view."""
    return ExactSearch(view, pod_tables(view))
