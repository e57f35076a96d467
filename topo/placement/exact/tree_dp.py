"""The best placement by dynamic programme over the tree: exact, for as much as a budget allows.

Costs of different domains add up (`packed`), and a domain is used best by itself whatever the
others do: so the best way to take x groups and the tail or not from a domain follows from the same
of its children. Where groups live above tier 1 their cells are chosen by the window rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field

from topo.placement.exact.knapsack import Knapsack, Option
from topo.placement.exact.packed_cost import Packing, packing
from topo.placement.job.allocation import Draft, Share, joined
from topo.placement.quality.measure import Effect, effect_of
from topo.placement.search.descend import filled
from topo.placement.search.free_view import FreeView

Need = tuple[int, int]
"""Whole groups, and 1 with the tail or 0."""


@dataclass(slots=True)
class Best:
    """Searches on one view."""

    view: FreeView
    pack: Packing
    _known: dict[tuple[int, int], tuple[list[Option], Knapsack | None]] = dataclass_field(
        default_factory=dict
    )
    _leaves: dict[tuple[int, int, bool], list[Option]] = dataclass_field(default_factory=dict)

    def over(self, tier: int, domains: Sequence[int], need: Need, least: int) -> Draft | None:
        """The best way to meet the need from some domains of a tier, `least` groups from each."""
        options = [self.options(tier, domain, least) for domain in domains]
        return self._joined(tier, domains, options, need)

    def inside(self, tier: int, domain: int, need: Need) -> Draft | None:
        """The best way to meet the need from one domain of a tier."""
        if tier == self.view.shape.tier:
            return filled(self.view, Share(domain, need[0], bool(need[1])))
        self.options(tier, domain, 0)
        knapsack = self._known[tier, domain][1]
        assert knapsack is not None, "made with the options"  # noqa: S101
        children = self._children(tier, domain)
        parts = [self.inside(tier - 1, children[i], (x, t)) for i, x, t in knapsack.picks(*need)]
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
        self, tier: int, domains: Sequence[int], options: list[list[Option]], need: Need
    ) -> Draft | None:
        knapsack = Knapsack(*need)
        rests = [max((x for x, _, _ in each), default=0) for each in options]
        rest = sum(rests)
        for each, most in zip(options, rests, strict=True):
            rest -= most
            knapsack.add(each, rest or 0)
        if knapsack.table[-1] is None:
            return None
        parts = [self.inside(tier, domains[i], (x, t)) for i, x, t in knapsack.picks(*need)]
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
                    (x, t, cost + self._own(tier, domain, (x * shape.k + t * shape.r, cost)))
                )
        return found, knapsack

    def _leaf(self, domain: int) -> list[Option]:
        shape, slots = self.view.shape, self.view.slots
        room = int(self.view.rooms[domain])
        # Of domains of the lowest tier nothing else counts: equal ones share their options.
        alike = (room, slots.free_list[domain], slots.busy[domain] > 0)
        found = self._leaves.get(alike) if shape.tier == 1 < shape.tiers else None
        if found is None:
            found = self._leaves[alike] = [
                (x, t, self._cost(domain, x, t))
                for t in range(2 if 0 < shape.r <= room else 1)
                for x in range(min(shape.m, (room - t * shape.r) // shape.k) + 1)
                if x or t
            ]
        return found

    def _cost(self, domain: int, x: int, t: int) -> int:
        """Of a share of a domain of the group tier."""
        shape, pack = self.view.shape, self.pack
        taken = x * shape.k + t * shape.r
        if shape.tier == 1:
            cost = self._broken(domain, taken)
            return cost + self._own(1, domain, (taken, cost))
        draft = filled(self.view, Share(domain, x, bool(t)))
        inner = effect_of(self.view, draft.cells)
        cost = inner.broken
        for tier in range(1, shape.tier):
            cost += inner.span[-tier] * pack.used(tier)
        if shape.canonical_tier < shape.tier:
            cost += self._deep(inner)
        return cost + self._own(shape.tier, domain, (taken, cost))

    def _deep(self, inner: Effect) -> int:
        """What is lost in canonical domains that lie below the groups' own."""
        pack = self.pack
        low = sum(-change << pack.base * free for free, change in inner.low) if pack.exact else 0
        return (inner.lost << pack.lost) + (low << pack.low)

    def _own(self, tier: int, domain: int, taken: tuple[int, int]) -> int:
        """What it costs to take slots from a domain, beside what it costs its children."""
        slots, below = taken
        shape, pack = self.view.shape, self.pack
        cost = pack.used(tier)
        if tier == shape.canonical_tier:
            before = self._before(tier, domain)
            lost = before // shape.canonical - (before - slots) // shape.canonical
            cost += (lost << pack.lost) + pack.low_taken(before, slots)
        if tier == shape.tiers:
            lost = pack.lost_of(cost + below)
            if lost:
                cost += pack.top_taken(int(self.view.tops_before[domain]), lost)
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


def best_on(view: FreeView) -> Best:
    """A search on a view."""
    shape, layout = view.shape, view.layout
    slots = layout.rolled(view.slots.free, shape.canonical_tier)
    return Best(view, packing(shape, int(slots.max()), int(view.tops_before.max())))
