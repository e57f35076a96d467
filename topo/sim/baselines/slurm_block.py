"""Slurm with topology/block and `--segment`: each segment in the block that fits it best.

Re-implemented from slurm.schedmd.com/topology.html (block), topology.conf(5) and sbatch(1). The
segments are placed one after the other, each as if it were a job of its own: in one block, the one
with the lowest sufficient count of nodes "to minimize fragmentation", of equals the last
(github.com/SchedMD/slurm, topology/block). Whatever is above the blocks does not matter:
`--consolidate-segments` is off by default. N must be divisible by the segment: a tail is asked for
as one more segment of its own.

Example: segments of 16; blocks with 32, 20, 16 and 31 free nodes. The first takes the block of 16,
the second the one of 20, of which 4 are left; the third the one of 31.
"""

from topo.placement.job.plan import Pods
from topo.placement.job.request import Request
from topo.sim.baselines.blocks import spread
from topo.sim.baselines.cluster import SlotsLeft, Taken, View, in_ranks


def place(view: View, request: Request) -> tuple[Pods, ...] | None:
    """The groups in rank order, or None; O(segments x blocks)."""
    if view.group_tier is None:
        return None
    left = SlotsLeft(view)
    whole = _segments(left, view.group_tier, (request.whole_groups, request.pods_per_group))
    if whole is None:
        return None
    tail = _segments(left, view.group_tier, (int(request.tail > 0), request.tail))
    return None if tail is None else in_ranks(view, whole + tail, request)


def _segments(left: SlotsLeft, tier: int, asked: tuple[int, int]) -> Taken | None:
    """(host, pods) of so many segments of a size, or None where they do not fit."""
    need, size = asked
    taken: Taken = []
    slots = left.slots[tier]
    for _ in range(need):
        fits = [block for block, free in enumerate(slots) if free >= size]
        if not fits:
            return None
        block = min(fits, key=lambda block: (slots[block], -block))
        taken += spread(left, (tier, block), size)
    return sorted(taken)
