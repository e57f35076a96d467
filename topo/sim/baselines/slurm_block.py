"""Slurm with topology/block and `--segment`: each segment in the block that fits it best.

Re-implemented from slurm.schedmd.com/topology.html (block), topology.conf(5) and sbatch(1). The
segments are placed one after the other, each as if it were a job of its own: in one block, the one
with the lowest sufficient count of nodes "to minimize fragmentation", of equals the last
(github.com/SchedMD/slurm, topology/block). Whatever is above the blocks does not matter:
`--consolidate-segments` is off by default. N must be divisible by the segment: a tail is asked for
as one more segment of its own.
"""

from topo.placement.capacity.capacity import Capacity
from topo.placement.job.plan import Pods
from topo.placement.job.request import Request
from topo.sim.baselines.blocks import spread
from topo.sim.baselines.scene import Draft, View, in_ranks, scene_of


def place(capacity: Capacity, request: Request) -> tuple[Pods, ...] | None:
    """The groups in rank order, or None; O(segments x blocks)."""
    return scene_of(capacity).place(request, choose)


def choose(view: View, request: Request) -> tuple[Pods, ...] | None:
    """The same on a view that is kept by increments."""
    if view.group_tier is None:
        return None
    draft = view.draft()
    whole = _segments(draft, view.group_tier, (request.whole_groups, request.pods_per_group))
    if whole is None:
        return None
    tail = _segments(draft, view.group_tier, (int(request.tail > 0), request.tail))
    return None if tail is None else in_ranks(view, whole + tail, request)


def _segments(draft: Draft, tier: int, asked: tuple[int, int]) -> list[tuple[int, int]] | None:
    """(host, pods) of so many segments of a size, or None where they do not fit."""
    need, size = asked
    taken: list[tuple[int, int]] = []
    slots = draft.slots[tier]
    for _ in range(need):
        fits = [block for block, free in enumerate(slots) if free >= size]
        if not fits:
            return None
        block = min(fits, key=lambda block: (slots[block], -block))
        taken += spread(draft, (tier, block), size)
    return sorted(taken)
