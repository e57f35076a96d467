"""The cheapest way to take so many pods from one domain, for every number of pods.

Result: for a domain of the tier of the groups, or below it, the least cost of each number of pods,
and the tier-1 domains that give them. The cost is the whole objective as one number
(`packed_cost.py`).

Why it is right: below the tier of the groups only the number of pods counts, so this is a knapsack
over the children of the domain, each with its own such table. What the domain itself costs, its
place in the spans and what its capacity loses, depends on the number alone and is added.

Cost: for a domain the pods of its children times its own pods; tables of equal tier-1 domains are
shared. `steps_each` tells before they are made.

Example: a switchbox of dragonflies with 2, 2 and 1 free slots, canonical groups of 2. One pod costs
"1 dragonfly, no group lost" from the last one, "1 dragonfly, 1 lost" from another. Two pods cost "1
dragonfly, 1 lost", three "2 dragonflies, 1 lost" (2 + 1).
"""

from dataclasses import dataclass, field

import numpy as np

from topo.placement.capacity.layout import Counts
from topo.placement.exact.knapsack import Knapsack
from topo.placement.exact.packed_cost import Packing, packing_of
from topo.placement.view import FreeView


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
