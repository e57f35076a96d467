"""Pods that a scheduler binds after their gang was read, and before it is placed."""

import pytest

from tests.controllers.nomination.test_held_room import NAMES, answers, place
from topo.gangs.machine.events import Planned
from topo.placement.booking.events import Pod, PodPhase, PodSeen


@pytest.mark.parametrize("phase", [PodPhase.NOMINATED, PodPhase.BOUND])
def test_the_gpus_of_a_pod_that_was_bound_meanwhile_stay_its_own(phase: PodPhase) -> None:
    """Those of an opened pod that only waits go to the hold of its gang."""
    made = answers()
    pod = Pod(uid="a-0", namespace="jobs", name="a-0", node=NAMES[0], gpus=8)
    made._state.advance(PodSeen(pod, phase))
    assert isinstance(place(made, "a"), Planned)
    assert made._state.bookings.has_pod("a-0") is (phase is PodPhase.BOUND)
    used = made._state.capacity.bookings().get(pod.owner, {})
    assert dict(used) == ({NAMES[0]: 8} if phase is PodPhase.BOUND else {})
