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


def best_tier1_domains(view: FreeView, able: DomainIndices) -> list[int]:
    """Those of the domains that are able to hold the job whose use is best, but for penalties."""
    shape, free = view.shape, view.slots.free
    pods, canonical = shape.pods, shape.canonical
    tier = shape.canonical_tier
    if tier == 1:
        before = free[able]
    else:
        outer = view.layout.domain_of(tier)[able]
        before = view.layout.rolled(free, tier)[outer]
    # Of whole canonical groups all domains lose equally many.
    domains, least = able, pods // canonical
    if pods % canonical:
        lost = before // canonical - (before - pods) // canonical
        least = lost[lost.argmin()]
        domains, before = _where(lost == least, domains, before)
    if least and view.layout.tiers > 1:
        tops = view.tops_before[view.layout.domain_of(view.layout.tiers)[domains]]
        domains, before = _where(tops == tops[tops.argmin()], domains, before)
    domains, before = _where(before == before[before.argmin()], domains, before)
    # An exact fit breaks nothing, wherever it is.
    broken = (view.slots.busy[domains] == 0) & (free[domains] > pods)
    best: list[int] = domains[broken == broken[broken.argmin()]].tolist()
    return best


def _where(
    kept: NDArray[np.bool_], domains: DomainIndices, free_slots: Counts
) -> tuple[DomainIndices, Counts]:
    at = kept.nonzero()[0]
    return domains[at], free_slots[at]


def in_tier1_domain(view: FreeView, at: int) -> Allocation:
    """The whole job in one tier-1 domain."""
    shape = view.shape
    return Allocation((Share(at, shape.m, shape.r > 0),), {at: shape.pods})
