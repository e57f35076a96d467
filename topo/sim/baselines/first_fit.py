"""First fit: nodes in their natural order, whatever stands around them.

What a scheduler without topology does with a gang; groups are cut from the ranks afterwards.
"""

from topo.placement.job.plan import Pods
from topo.placement.job.request import Request
from topo.sim.baselines.cluster import View, in_ranks


def place(view: View, request: Request) -> tuple[Pods, ...] | None:
    """The groups in rank order, or None; O(nodes)."""
    if view.slots[-1][0] < request.pods:
        return None
    taken = []
    need = request.pods
    for host, slots in enumerate(view.slots[0]):
        if slots:
            here = min(slots, need)
            taken.append((host, here))
            need -= here
            if not need:
                break
    return in_ranks(view, taken, request)
