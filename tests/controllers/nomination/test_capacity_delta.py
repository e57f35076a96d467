"""What has become free since a gang was refused, as the machine is told it."""

import prometheus_client as prom

from master.booking.metrics import PlacementMetrics
from master.booking.state import BookingState
from master.controllers.nomination.capacity_delta import CapacityDelta
from tests.publish.forests import VENDOR
from topo.gangs.machine.events import CapacityChanged
from topo.model.cluster import ClusterNode
from topo.model.forest import Snapshot
from topo.model.ids import Generation, NodeName
from topo.placement.booking.events import Pod, PodGone, PodPhase, PodSeen
from topo.placement.booking.holds import Limits
from topo.placement.job.policy import Policy

NODE = NodeName("node-1")
TAKEN = PodSeen(Pod(uid="p", namespace="jobs", name="p", node=NODE, gpus=8), PodPhase.BOUND)


def begun() -> tuple[BookingState, CapacityDelta]:
    state = BookingState(
        Policy(), Limits(), PlacementMetrics(prom.CollectorRegistry()), lambda: 0.0
    )
    gpus = (("metax-tech.com/gpu", 8),)
    nodes = (NodeName(f"node-{number}") for number in range(1, 9))
    state.follow_cluster([ClusterNode(name=name, allocatable=gpus) for name in nodes])
    state.follow(Snapshot(Generation(1), VENDOR))
    delta = CapacityDelta(state)
    delta.begin()
    return state, delta


def test_what_was_booked_while_a_gang_was_refused_and_freed_since_is_growth() -> None:
    state, delta = begun()
    state.advance(TAKEN)
    delta.read()
    state.advance(PodGone("p"))
    assert [*delta.changes()] == [CapacityChanged((NODE,), requeue_all=True, regrouped=())]
    assert not [*delta.changes()]


def test_what_was_booked_and_freed_between_two_looks_is_no_change() -> None:
    state, delta = begun()
    state.advance(TAKEN)
    state.advance(PodGone("p"))
    assert not [*delta.changes()]


def test_what_is_booked_is_no_growth() -> None:
    state, delta = begun()
    state.advance(TAKEN)
    assert [*delta.changes()] == [CapacityChanged((NODE,), requeue_all=False, regrouped=())]
