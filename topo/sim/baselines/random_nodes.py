"""Random nodes: the floor under every other policy. The same state and request, the same draw."""

import random

from topo.placement.job.plan import Pods
from topo.placement.job.request import Request
from topo.sim.baselines.cluster import SlotsLeft, View, in_ranks

SEED = 20_260_211


def place(view: View, request: Request) -> tuple[Pods, ...] | None:
    """The groups in rank order, or None; O(nodes)."""
    if view.slots[-1][0] < request.pods:
        return None
    hosts = [host for host, slots in enumerate(view.slots[0]) if slots]
    random.Random(f"{SEED} {view.slots[-1][0]} {request}").shuffle(hosts)
    return in_ranks(view, SlotsLeft(view).fill(hosts, request.pods), request)
