"""`CapacityDelta` reports the GPUs that became free after a gang was refused."""

from master.booking.state import BookingState
from master.controllers.nomination.capacity_delta import CapacityDelta
from tests.master.booking_states import booking_state
from tests.publish.forests import VENDOR
from topo.gangs.machine.events import CapacityChanged
from topo.model.forest import Snapshot
from topo.model.ids import Generation, NodeName
from topo.placement.booking.events import Pod, PodGone, PodPhase, PodSeen

NODE = NodeName("node-1")
TAKEN = PodSeen(Pod(uid="p", namespace="jobs", name="p", node=NODE, gpus=8), PodPhase.BOUND)


def begun() -> tuple[BookingState, CapacityDelta]:
    state = booking_state()
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
