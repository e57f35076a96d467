"""The best tier-1 domain for a job that fits in one.

Result: all tier-1 domains whose use is best by the whole objective, but for the penalty of nodes.

Why it is right: with one domain each number of the objective follows from the free slots of that
domain and of the canonical domain around it. Each step keeps those that are best in one number, in
the order of the objective.

Cost: one pass over the domains for each number.

Example: a job of 3 pods, canonical groups of 8, free slots 11, 8, 5 and 3. 11, 5 and 3 lose no
canonical group, 8 loses one and is out. Of 11, 5 and 3 the smallest leaves the largest ones
alone: 3 is the answer.
"""

import numpy as np
from numpy.typing import NDArray

from topo.placement.capacity.layout import Counts, DomainIndices
from topo.placement.job.allocation import Allocation, Share
from topo.placement.search.free_view import FreeView


def best_tier1_domains(view: FreeView) -> list[int]:
    """The domains that hold the job and whose use is best, but for penalties; empty: none does."""
    shape, slots, layout = view.shape, view.slots, view.layout
    tier = shape.canonical_tier
    holding = (view.most_in_one(tier) >= shape.pods).nonzero()[0]
    if not holding.size:
        return []
    domains = _least_missed(view, holding)
    if tier > 1:
        inside = layout.inside(tier, domains)
        domains = inside[view.free[inside] >= shape.pods]
    if len(domains) == 1:
        return [domains.item()]
    # An exact fit breaks nothing, wherever it is.
    broken = (slots.busy[domains] == 0) & (slots.free[domains] > shape.pods)
    found: list[int] = domains[broken == broken[broken.argmin()]].tolist()
    return found


def _least_missed(view: FreeView, domains: DomainIndices) -> DomainIndices:
    """Those of some canonical domains that are missed least if the job takes its slots there."""
    shape, layout = view.shape, view.layout
    before = view.free_canonical[domains]
    # Of whole canonical groups all domains lose equally many.
    lost, rest = divmod(shape.pods, shape.canonical)
    if rest:
        breaks = before % shape.canonical < rest
        least = breaks[breaks.argmin()]
        lost += int(least)
        domains, before = _where(breaks == least, domains, before)
    if lost and layout.tiers > 1:
        tops = view.tops_before[layout.starts_in(shape.canonical_tier, layout.tiers)[domains]]
        domains, before = _where(tops == tops[tops.argmin()], domains, before)
    return _where(before == before[before.argmin()], domains, before)[0]


def _where(
    kept: NDArray[np.bool_], domains: DomainIndices, free_slots: Counts
) -> tuple[DomainIndices, Counts]:
    at = kept.nonzero()[0]
    return domains[at], free_slots[at]


def in_tier1_domain(view: FreeView, at: int) -> Allocation:
    """The whole job in one tier-1 domain."""
    shape = view.shape
    domain = view.layout.of[shape.tier][at]
    return Allocation((Share(domain, shape.m, shape.r > 0),), {at: shape.pods})
