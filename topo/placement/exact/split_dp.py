"""The best placement of a job of which some groups must be split, by dynamic programming.

Result: the best by the whole objective, for one way to split the fewest groups.

Why it is right: as many groups are whole as can be, and these take all there is. Let W groups fit
in the domains of their tier. The job has at least W of them, or none would be split; so each domain
gives all the groups that it holds. If a domain has room for the tail beside them, the tail is whole
too; if none has, either the tail is split or a whole group is, in the domain that takes the tail
instead. What is left to decide is where the other pods go, the loose ones. They are alike, so it is
a knapsack over what the domains have left: what x loose pods cost a domain, its whole groups paid,
follows from the same of its children. Top domains that hold no whole group are left out where the
fewest others that suffice would then hold too few.

Cost: loose pods of each domain times those of the domain above it. `steps` counts them before.

Example: free slots 5, 3 in switchbox A and 4, 1 in B; a job of 3 groups of 4. One whole group goes
to the 5, one to the 4, and 4 pods are loose. 1 more fits in the 5 and costs no domain. The other
three fit in the 3, the fourth dragonfly of none: 3 dragonflies. The 1 in B would be one more.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topo.placement.capacity.layout import Counts
from topo.placement.exact.knapsack import Knapsack, Option, combined
from topo.placement.exact.tree_dp import ExactSearch
from topo.placement.job.plan import Allocation, Share
from topo.placement.search.window_rule import fewest
from topo.placement.view import TAIL_CANNOT_FIT, FreeView

DOMAIN_STEPS = 20
"""Steps that a domain costs, however few pods are loose."""


class Loose(NamedTuple):
    """Pods of split groups, and whether the tail is whole.

    `less`: groups that the host of the tail gives up.
    """

    pods: int
    tail: bool
    less: int


class _Branch(NamedTuple):
    """A domain: slots and cost of its whole groups, what loose pods and the tail add, and how."""

    slots: int
    cost: int
    options: list[Option]
    knapsack: Knapsack | None


def loose_ways(view: FreeView) -> Iterator[Loose]:
    """Yield the ways to split the fewest groups; none if no group has to be split."""
    shape = view.shape
    if not view.group_can_fit:
        yield Loose(shape.pods, tail=False, less=0)
        return
    missing = shape.m - int(view.groups(shape.tier).sum())
    if missing < 0:
        return
    # Splitting the tail and splitting a group for it cost one split group each: both are tried.
    less = int(view.losses(shape.tier).min()) if shape.r else TAIL_CANNOT_FIT
    if less:
        yield Loose(missing * shape.k + shape.r, tail=False, less=0)
    if less <= 1:
        yield Loose((missing + less) * shape.k, tail=True, less=less)


@dataclass(slots=True)
class SplitSearch:
    """A search for one way to split."""

    view: FreeView
    exact: ExactSearch
    loose: Loose
    _known: dict[tuple[int, int], _Branch] = field(default_factory=dict)
    _leaves: dict[tuple[object, ...], _Branch] = field(default_factory=dict)

    def tops(self) -> Iterator[list[int]]:
        """Yield sets of top domains to search: those that could be enough, then all."""
        rest, near, ranked, short = self._tops()
        more = fewest(ranked, short)
        if more is None:
            return
        # With fewer slots than that, a domain cannot be one of the fewest that fill the shortage.
        least = max(1, short - sum(ranked[: more - 1])) if more else 1 << 40
        able = near | (rest >= least)
        yield np.flatnonzero(able).tolist()
        # The domains above may not be enough if slots are spread badly: then all are searched.
        if not (able | (rest == 0)).all():
            yield np.flatnonzero(near | (rest > 0)).tolist()

    def has_fewest_tops(self, found: Allocation) -> bool:
        """Return whether an allocation uses as few top domains as their slots allow."""
        _, near, ranked, short = self._tops()
        more = fewest(ranked, short) or 0
        of = self.view.layout.of[self.view.shape.tiers]
        return len({of[at] for at in found.tier1_pods}) <= int(near.sum()) + more

    def steps(self, tops: Sequence[int]) -> int:
        """Return about what a search over some top domains costs: options times states reached."""
        layout, shape = self.view.layout, self.view.shape
        chosen = np.zeros(len(layout.firsts[shape.tiers]) - 1, np.bool_)
        chosen[list(tops)] = True
        most = self.loose.pods
        steps = 0
        rest = self._rest()
        for tier in range(shape.tier, shape.tiers + 1):
            here = layout.rolled(rest, tier, inner=shape.tier)
            inside = chosen[layout.starts_in(tier, shape.tiers)]
            before = here.cumsum() - here
            if tier < shape.tiers:
                # A table begins anew in each domain of the tier above.
                starts = layout.children_of(tier + 1).starts
                before -= before[starts][layout.starts_in(tier, tier + 1)]
            else:
                here, before = here[inside], here[inside].cumsum() - here[inside]
                inside = np.ones(len(here), np.bool_)
            uses = (np.minimum(here, most) + 1) * (np.minimum(before, most) + 1) + DOMAIN_STEPS
            steps += int(uses[inside].sum())
        if shape.tier > 1:
            inside = chosen[layout.starts_in(shape.tier, shape.tiers)]
            steps += int(self.exact.table_steps[inside].sum())
        return steps * (4 if self.loose.tail else 1)

    def over(self, tops: Sequence[int]) -> Allocation | None:
        """Return the best placement over some top domains; None where they are too few."""
        tier = self.view.shape.tiers
        branches = [self._branch(tier, domain) for domain in tops]
        need = self.loose.pods, int(self.loose.tail)
        knapsack = combined([each.options for each in branches], need)
        if knapsack is None:
            return None
        picked = {item: (x, t) for item, x, t in knapsack.picks(*need)}
        shares: list[Share] = []
        for item, domain in enumerate(tops):
            shares += self._shares(tier, domain, picked.get(item, (0, 0)))
        return self._allocation(shares)

    def _allocation(self, shares: Sequence[Share]) -> Allocation:
        shape = self.view.shape
        tier1_pods: dict[int, int] = {}
        for share in shares:
            tier1_pods |= self.exact.taken(share.domain, shape.pods_in(share))
        return Allocation(tuple(shares), tier1_pods)

    def _shares(self, tier: int, domain: int, given: tuple[int, int]) -> Iterator[Share]:
        """Return what the domains of the groups inside a domain give: loose pods, and the tail or
        not.
        """
        branch = self._branch(tier, domain)
        if tier == self.view.shape.tier:
            loose, tail = given
            groups = self._whole_groups(domain) - tail * self.loose.less
            if groups or loose or tail:
                yield Share(domain, groups, bool(tail), loose)
            return
        assert branch.knapsack is not None, "made with the options"  # noqa: S101 - for mypy
        picked = {item: (x, t) for item, x, t in branch.knapsack.picks(*given)}
        for item, child in enumerate(self.exact.children(tier, domain)):
            yield from self._shares(tier - 1, child, picked.get(item, (0, 0)))

    def _branch(self, tier: int, domain: int) -> _Branch:
        found = self._known.get((tier, domain))
        if found is None:
            at_groups = tier == self.view.shape.tier
            found = self._leaf(domain) if at_groups else self._join_children(tier, domain)
            self._known[tier, domain] = found
        return found

    def _join_children(self, tier: int, domain: int) -> _Branch:
        children = [self._branch(tier - 1, child) for child in self.exact.children(tier, domain)]
        slots, below = sum(each.slots for each in children), sum(each.cost for each in children)
        rest = sum(max((x for x, _, _ in each.options), default=0) for each in children)
        most = min(self.loose.pods, rest)
        knapsack = Knapsack(most, int(self.loose.tail))
        for each in children:
            knapsack.add(each.options)
        # Options cost what they add to the whole groups, which the domain gives in any case.
        cost = self._cost(tier, domain, (slots, below)) if slots else 0
        tail_slots = self._tail_slots()
        options = []
        for state, added in enumerate(knapsack.table):
            if added is not None and state:
                t, x = divmod(state, most + 1)
                taken = slots + x + t * tail_slots, below + added
                options.append((x, t, self._cost(tier, domain, taken) - cost))
        return _Branch(slots, cost, options, knapsack)

    def _cost(self, tier: int, domain: int, taken: tuple[int, int]) -> int:
        return taken[1] + self.exact.domain_cost(tier, domain, taken)

    def _leaf(self, domain: int) -> _Branch:
        if self.view.shape.tier > 1:
            return self._leaf_of(domain)
        # Thousands of tier-1 domains have a few shapes: each is worked out once.
        alike = self.exact.alike(domain)
        found = self._leaves.get(alike)
        if found is None:
            found = self._leaves[alike] = self._leaf_of(domain)
        return found

    def _leaf_of(self, domain: int) -> _Branch:
        shape, loose, costs = self.view.shape, self.loose, self.exact.pod_costs(domain)
        slots, most = self._whole_groups(domain) * shape.k, len(costs) - 1
        cost = costs[slots]
        options = [
            (x, 0, costs[slots + x] - cost) for x in range(1, min(loose.pods, most - slots) + 1)
        ]
        hosted = slots + self._tail_slots()
        # Only a domain that gives up exactly so many groups for the tail is a host of this way.
        if loose.tail and self.view.losses(shape.tier)[domain] == loose.less:
            options += [
                (x, 1, costs[hosted + x] - cost) for x in range(min(loose.pods, most - hosted) + 1)
            ]
        return _Branch(slots, cost, options, None)

    def _tail_slots(self) -> int:
        """Return slots that a domain gives more if it takes the tail."""
        shape = self.view.shape
        return shape.r - self.loose.less * shape.k

    def _slots_needed(self) -> int:
        """Return slots that are taken beside those of all whole groups that fit."""
        return self.loose.pods + (self._tail_slots() if self.loose.tail else 0)

    def _whole_groups(self, domain: int) -> int:
        """Return whole groups that a domain of their tier holds."""
        view = self.view
        return int(view.groups(view.shape.tier)[domain]) if view.group_can_fit else 0

    def _rest(self) -> Counts:
        """Return slots of each domain of the groups' tier that whole groups leave."""
        view = self.view
        if not view.group_can_fit:
            return view.free_slots
        return view.free_slots - view.groups(view.shape.tier) * view.shape.k

    def _tops(self) -> tuple[Counts, NDArray[np.bool_], list[int], int]:
        """By top domain: slots that whole groups leave, and whether it has whole groups.

        Then the slots of those without, the most first, and how many are needed of these.
        """
        view, tier = self.view, self.view.shape.tiers
        rest = view.layout.rolled(self._rest(), tier, inner=view.shape.tier)
        # All whole groups are used, so the top domains that have some are taken in any case.
        near = view.free_slots_of(tier) > rest
        short = self._slots_needed() - int(rest[near].sum())
        return rest, near, np.sort(rest[~near])[::-1].tolist(), short
