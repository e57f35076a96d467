"""One group of a kind for the whole job: the parts of the cluster that are such groups."""

from collections.abc import Iterator

from topo.model.ids import Kind
from topo.placement.structure import Counts, Layout


def limited(layout: Layout, free: Counts, kind: Kind) -> Iterator[tuple[int, Counts]]:
    """For each tier that groups of a kind have: the tier, and the free slots inside of them."""
    tiers: dict[int, list[int]] = {}
    for cell in layout.cells:
        for own, tier in zip(cell.kinds, cell.tiers, strict=True):
            if own == kind:
                tiers.setdefault(tier, []).append(cell.at)
                break
    for tier in sorted(tiers):
        inside = free * 0
        inside[tiers[tier]] = free[tiers[tier]]
        yield tier, inside


def inside_any(layout: Layout, free: Counts, kind: Kind) -> Counts:
    """The free slots inside groups of a kind, of whatever tier."""
    inside = free * 0
    for _, some in limited(layout, free, kind):
        inside += some
    return inside
