"""A job that must lie in one group of a kind: the free slots that are inside such groups."""

from collections.abc import Iterator

from topo.model.ids import Kind
from topo.placement.capacity.layout import Counts, Layout


def limited(layout: Layout, free: Counts, kind: Kind) -> Iterator[tuple[int, Counts]]:
    """For each tier that groups of a kind have: the tier, and the free slots inside of them."""
    for tier, domains in layout.of_kind(kind).items():
        inside = free * 0
        inside[domains] = free[domains]
        yield tier, inside


def inside_any(layout: Layout, free: Counts, kind: Kind) -> Counts:
    """The free slots inside groups of a kind, of whatever tier."""
    inside = free * 0
    for _, some in limited(layout, free, kind):
        inside += some
    return inside
