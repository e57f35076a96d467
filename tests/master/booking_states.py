"""The owner of bookings over eight nodes, before it follows a forest."""

import prometheus_client as prom

from master.booking.metrics import PlacementMetrics
from master.booking.state import BookingState
from topo.model.cluster import ClusterNode
from topo.model.ids import NodeName
from topo.placement.booking.holds import Limits
from topo.placement.job.policy import Policy


def booking_state() -> BookingState:
    """Return a state with the nodes node-1 to node-8 of eight GPUs, in no groups yet."""
    metrics = PlacementMetrics(prom.CollectorRegistry())
    state = BookingState(Policy(), Limits(), metrics, lambda: 0.0)
    gpus = (("metax-tech.com/gpu", 8),)
    names = (NodeName(f"node-{number}") for number in range(1, 9))
    state.follow_cluster([ClusterNode(name=name, allocatable=gpus) for name in names])
    return state
