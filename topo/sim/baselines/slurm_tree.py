"""Slurm with topology/tree: the lowest switch that holds the job, then best fit over its leaves.

Re-implemented from slurm.schedmd.com/topology.html, "Hierarchical Networks". It knows no groups of
pods: nodes get ranks in their natural order, and groups are cut from the ranks. The guide itself
says that best fit may take more than the least number of switches.

Example: 10 nodes; leaves with 6, 3 and 4 free ones under one switch. No leaf holds 10: the largest
gives 6, then the smallest leaf that holds the other 4 is the one with 4.
"""

from topo.placement.job.plan import Pods
from topo.placement.job.request import Request
from topo.sim.baselines.blocks import best_fit
from topo.sim.baselines.cluster import SlotsLeft, Taken, View, in_ranks


def place(view: View, request: Request) -> tuple[Pods, ...] | None:
    """The groups in rank order, or None; O(domains x leaves used)."""
    for tier in range(1, view.tree.root + 1):
        slots = view.slots[tier]
        fits = [domain for domain, free in enumerate(slots) if free >= request.pods]
        if fits:
            switch = min(fits, key=lambda domain: (slots[domain], domain))
            leaves = view.tree.inside(tier, switch, 1)
            return in_ranks(view, _over(view, leaves, request.pods), request)
    return None


def _over(view: View, leaves: range, pods: int) -> Taken:
    left = SlotsLeft(view)
    taken: Taken = []
    while pods > 0 and (leaf := best_fit(left.slots[1], leaves, pods)) is not None:
        here = min(pods, left.slots[1][leaf])
        taken += left.fill(view.tree.inside(1, leaf, 0), here)
        pods -= here
    return sorted(taken)
