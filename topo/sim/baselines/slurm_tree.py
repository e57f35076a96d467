"""Slurm with topology/tree: the lowest switch that holds the job, then best fit over its leaves.

Re-implemented from slurm.schedmd.com/topology.html, "Hierarchical Networks". It knows no groups of
pods: nodes get ranks in their natural order, and groups are cut from the ranks. The guide itself
says that best fit may take more than the least number of switches.
"""

from topo.placement.capacity.capacity import Capacity
from topo.placement.job.plan import Pods
from topo.placement.job.request import Request
from topo.sim.baselines.blocks import best_fit
from topo.sim.baselines.scene import View, in_ranks, scene_of


def place(capacity: Capacity, request: Request) -> tuple[Pods, ...] | None:
    """The groups in rank order, or None; O(domains x leaves used)."""
    return scene_of(capacity).place(request, choose)


def choose(view: View, request: Request) -> tuple[Pods, ...] | None:
    """The same on a view that is kept by increments."""
    for tier in range(1, view.tree.root + 1):
        slots = view.slots[tier]
        fits = [domain for domain, free in enumerate(slots) if free >= request.pods]
        if fits:
            switch = min(fits, key=lambda domain: (slots[domain], domain))
            leaves = view.tree.below(tier, switch, 1)
            return in_ranks(view, _over(view, leaves, request.pods), request)
    return None


def _over(view: View, leaves: tuple[int, ...], pods: int) -> list[tuple[int, int]]:
    draft = view.draft()
    taken: list[tuple[int, int]] = []
    while pods > 0 and (leaf := best_fit(draft.slots[1], leaves, pods)) is not None:
        here = min(pods, draft.slots[1][leaf])
        taken += draft.fill(view.tree.members[1][leaf], here)
        pods -= here
    return sorted(taken)
