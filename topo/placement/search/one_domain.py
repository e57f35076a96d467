"""The best single tier-1 domain for a job that fits in one: the whole objective in a few passes."""

import numpy as np
from numpy.typing import NDArray

from topo.placement.capacity.layout import Counts, DomainIndices
from topo.placement.job.allocation import Draft, Share
from topo.placement.search.free_view import FreeView


def best_cells(view: FreeView, able: DomainIndices) -> list[int]:
    """Those of the cells that can hold all whose use costs least but for penalties; exact.

    O(cells).
    """
    shape, free = view.shape, view.slots.free
    pods, canonical = shape.pods, shape.canonical
    tier = shape.canonical_tier
    if tier == 1:
        before = free[able]
    else:
        outer = view.layout.domain_of(tier)[able]
        before = view.layout.rolled(free, tier)[outer]
    cells, least = able, pods // canonical
    if pods % canonical:
        lost = before // canonical - (before - pods) // canonical
        least = lost[lost.argmin()]
        cells, before = _where(lost == least, cells, before)
    if least and view.layout.tiers > 1:
        tops = view.tops_before[view.layout.domain_of(view.layout.tiers)[cells]]
        cells, before = _where(tops == tops[tops.argmin()], cells, before)
    cells, before = _where(before == before[before.argmin()], cells, before)
    broken = (view.slots.busy[cells] == 0) & (free[cells] > pods)
    best: list[int] = cells[broken == broken[broken.argmin()]].tolist()
    return best


def _where(
    kept: NDArray[np.bool_], cells: DomainIndices, rooms: Counts
) -> tuple[DomainIndices, Counts]:
    at = kept.nonzero()[0]
    return cells[at], rooms[at]


def in_cell(view: FreeView, at: int) -> Draft:
    """The whole job in one cell."""
    shape = view.shape
    return Draft((Share(at, shape.m, shape.r > 0),), {at: shape.pods})
