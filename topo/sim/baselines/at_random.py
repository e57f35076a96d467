"""Random nodes: the floor under every other policy. The same state and request, the same draw."""

import random

from topo.placement.capacity.capacity import Capacity
from topo.placement.job.plan import Pods
from topo.placement.job.request import Request
from topo.sim.baselines.scene import View, in_ranks, scene_of

SEED = 20_260_211


def place(capacity: Capacity, request: Request) -> tuple[Pods, ...] | None:
    """The groups in rank order, or None; O(nodes)."""
    return scene_of(capacity).place(request, choose)


def choose(view: View, request: Request) -> tuple[Pods, ...] | None:
    """The same on a view that is kept by increments."""
    if view.slots[-1][0] < request.pods:
        return None
    hosts = [host for host, slots in enumerate(view.slots[0]) if slots]
    random.Random(f"{SEED} {view.slots[-1][0]} {request}").shuffle(hosts)
    return in_ranks(view, view.draft().fill(hosts, request.pods), request)
