"""Slurm with its two plugins: topology/tree (`tree`) and topology/block with --segment (`block`).

Re-implemented from slurm.schedmd.com/topology.html, topology.conf(5) and sbatch(1).

`tree` ("Hierarchical Networks") takes the lowest switch that holds the job, then best fit over its
leaves. It knows no groups of pods: nodes get ranks in their natural order, and groups are cut from
the ranks. The guide itself says that best fit may take more than the least number of switches.

Example: 10 nodes; leaves with 6, 3 and 4 free ones under one switch. No leaf holds 10: the largest
gives 6, then the smallest leaf that holds the other 4 is the one with 4.

`block` places each segment in the block that fits it best. The segments are placed one after the
other, each as if it were a job of its own: in one block, the one with the lowest sufficient count
of nodes "to minimize fragmentation", of equals the last (github.com/SchedMD/slurm, topology/block).
Whatever is above the blocks does not matter: `--consolidate-segments` is off by default. N must be
divisible by the segment: a tail is asked for as one more segment of its own.

Example: segments of 16; blocks with 32, 20, 16 and 31 free nodes. The first takes the block of 16,
the second the one of 20, of which 4 are left; the third the one of 31.
"""

from topo.placement.job.plan import Pods
from topo.placement.job.request import Request
from topo.sim.baselines.cluster import SlotsLeft, SlotView, Taken, best_fit, in_ranks, spread


def tree(view: SlotView, request: Request) -> tuple[Pods, ...] | None:
    """Return the groups in rank order, or None; O(domains x leaves used)."""
    for tier in range(1, view.tree.root + 1):
        slots = view.slots[tier]
        fits = [domain for domain, free in enumerate(slots) if free >= request.pods]
        if fits:
            switch = min(fits, key=lambda domain: (slots[domain], domain))
            leaves = view.tree.inside(tier, switch, 1)
            return in_ranks(view, _over(view, leaves, request.pods), request)
    return None


def _over(view: SlotView, leaves: range, pods: int) -> Taken:
    left = SlotsLeft(view)
    taken: Taken = []
    while pods > 0 and (leaf := best_fit(left.slots[1], leaves, pods)) is not None:
        here = min(pods, left.slots[1][leaf])
        taken += left.fill(view.tree.inside(1, leaf, 0), here)
        pods -= here
    return sorted(taken)


def block(view: SlotView, request: Request) -> tuple[Pods, ...] | None:
    """Return the groups in rank order, or None; O(segments x blocks)."""
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
