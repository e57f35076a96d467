"""Kueue TAS, BestFit: the emptiest domains first, the last one as tight as possible.

The default for required and preferred topologies since Kueue 0.15 (KEP-2724, "Selecting the
algorithm").
"""

from topo.placement.capacity.capacity import Capacity
from topo.placement.job.plan import Pods
from topo.placement.job.request import Request
from topo.sim.baselines.kueue import Offer, chosen
from topo.sim.baselines.scene import View, scene_of


def place(capacity: Capacity, request: Request) -> tuple[Pods, ...] | None:
    """The groups in rank order, or None; O(nodes) after a change, else O(domains log domains)."""
    return scene_of(capacity).place(request, choose)


def choose(view: View, request: Request) -> tuple[Pods, ...] | None:
    """The same on a view that is kept by increments."""
    return chosen(view, request, _most_slices_first)


def _most_slices_first(offer: Offer) -> tuple[int, ...]:
    """Most slices, then fewest pods, then by name."""
    return -offer.slices, offer.pods, offer.domain
