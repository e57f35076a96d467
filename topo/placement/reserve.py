"""Groups that the policy keeps free, taken out of what a first pass may use."""

from collections.abc import Sequence

from topo.model.ids import GroupPath
from topo.placement.shape import Shape
from topo.placement.structure import Counts, Layout

Reserves = Sequence[tuple[GroupPath, int]]


def kept_back(layout: Layout, shape: Shape, free: Counts, reserves: Reserves) -> Counts:
    """Free slots without the canonical groups that reserves keep; `free` itself if they keep none.

    Kept are the domains with the most whole groups, so that what is kept is as good as can be.
    """
    left = free
    for path, groups in reserves:
        found = layout.range_of(path)
        if found is not None and groups > 0:
            left = left.copy() if left is free else left
            _keep(layout, shape, left, (*found, groups))
    return left


def _keep(layout: Layout, shape: Shape, left: Counts, wanted: tuple[int, int, int]) -> None:
    first, last, groups = wanted
    firsts, of = layout.firsts[shape.canonical_tier], layout.of[shape.canonical_tier]
    domains = {of[at]: None for at in range(first, last)}
    bounds = {d: (max(first, firsts[d]), min(last, firsts[d + 1])) for d in domains}
    whole = {d: int(left[a:b].sum()) // shape.canonical for d, (a, b) in bounds.items()}
    for domain in sorted(domains, key=lambda d: (-whole[d], d)):
        kept = min(groups, whole[domain])
        groups -= kept
        slots = kept * shape.canonical
        for at in sorted(range(*bounds[domain]), key=lambda at: (-left[at], at)):
            some = min(slots, int(left[at]))
            left[at] -= some
            slots -= some


def range_of(layout: Layout, path: GroupPath) -> tuple[int, int] | None:
    """First and last cell (exclusive) of a group; None where there is no such group."""
    return layout.range_of(path)
