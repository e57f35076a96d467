"""Slurm with topology/block and `--segment`: whole segments in the blocks that fit best.

Re-implemented from slurm.schedmd.com/topology.html ("Block topology") and sbatch(1), `--segment`:
every segment lies in one block, the fewest blocks are taken, and of those that hold the rest the
one with fewest free nodes. Segments may land in any blocks, whatever switches are above them
(`--consolidate-segments` is off by default). N must be divisible by the segment: a tail is asked
for as one more segment of its own.
"""

from topo.placement.capacity import Capacity
from topo.placement.plan import Pods
from topo.placement.request import Request
from topo.sim.baselines.blocks import spread
from topo.sim.baselines.scene import Draft, View, in_ranks, scene_of


def place(capacity: Capacity, request: Request) -> tuple[Pods, ...] | None:
    """The groups in rank order, or None; O(blocks x blocks used)."""
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
    while need:
        block = _block(slots, size, need)
        if block is None:
            return None
        here = min(need, slots[block] // size)
        taken += spread(draft, (tier, block), here * size)
        need -= here
    return sorted(taken)


def _block(slots: list[int], size: int, need: int) -> int | None:
    """The block with fewest free nodes that holds the rest, else the one with most segments."""
    fits = [block for block, free in enumerate(slots) if free >= need * size]
    if fits:
        return min(fits, key=lambda block: (slots[block], block))
    some = [block for block, free in enumerate(slots) if free >= size]
    return min(some, key=lambda b: (-(slots[b] // size), slots[b], b), default=None)
