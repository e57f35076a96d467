"""The best single tier-1 domain for a job that fits in one: the whole objective in a few passes."""

import numpy as np
from numpy.typing import NDArray

from topo.placement.capacity.layout import Counts, DomainIndices
from topo.placement.job.allocation import Allocation, Share
from topo.placement.search.free_view import FreeView


def best_tier1_domains(view: FreeView, able: DomainIndices) -> list[int]:
    """Those of the domains that can hold all whose use costs least but for penalties; exact.

    O(domains).
    """
    shape, free = view.shape, view.slots.free
    pods, canonical = shape.pods, shape.canonical
    tier = shape.canonical_tier
    if tier == 1:
        before = free[able]
    else:
        outer = view.layout.domain_of(tier)[able]
        before = view.layout.rolled(free, tier)[outer]
    domains, least = able, pods // canonical
    if pods % canonical:
        lost = before // canonical - (before - pods) // canonical
        least = lost[lost.argmin()]
        domains, before = _where(lost == least, domains, before)
    if least and view.layout.tiers > 1:
        tops = view.tops_before[view.layout.domain_of(view.layout.tiers)[domains]]
        domains, before = _where(tops == tops[tops.argmin()], domains, before)
    domains, before = _where(before == before[before.argmin()], domains, before)
    broken = (view.slots.busy[domains] == 0) & (free[domains] > pods)
    best: list[int] = domains[broken == broken[broken.argmin()]].tolist()
    return best


def _where(
    kept: NDArray[np.bool_], domains: DomainIndices, free_slots: Counts
) -> tuple[DomainIndices, Counts]:
    at = kept.nonzero()[0]
    return domains[at], free_slots[at]


def in_tier1_domain(view: FreeView, at: int) -> Allocation:
    """The whole job in one cell."""
    shape = view.shape
    return Allocation((Share(at, shape.m, shape.r > 0),), {at: shape.pods})
