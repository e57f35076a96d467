"""Schedulers without topology: they take nodes whatever stands around them.

That is what they do with a gang; groups are cut from the ranks afterwards.
"""

import random

from topo.placement.job.plan import Pods
from topo.placement.job.request import Request
from topo.sim.baselines.cluster import SlotsLeft, SlotView, in_ranks

SEED = 20_260_211


def first_fit(view: SlotView, request: Request) -> tuple[Pods, ...] | None:
    """Nodes in their natural order; O(nodes)."""
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


def random_nodes(view: SlotView, request: Request) -> tuple[Pods, ...] | None:
    """Random nodes, the floor under every other policy; O(nodes).

    The same state and request, the same draw.
    """
    if view.slots[-1][0] < request.pods:
        return None
    hosts = [host for host, slots in enumerate(view.slots[0]) if slots]
    random.Random(f"{SEED} {view.slots[-1][0]} {request}").shuffle(hosts)
    return in_ranks(view, SlotsLeft(view).fill(hosts, request.pods), request)
