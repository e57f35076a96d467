"""Pods of one gang that ask for different numbers of GPUs: each is booked as what it asks for."""

from dataclasses import replace

import pytest

from master.controllers.nomination.placement_answers import PlacementAnswers
from tests.controllers.nomination.test_held_room import TAKES, answers, pair
from topo.gangs.machine.events import Planned
from topo.gangs.machine.gang import GangId, Member, PodUid
from topo.gangs.machine.instructions import Check, Place
from topo.model.ids import NodeName
from topo.placement.booking.events import Pod, PodPhase, PodSeen
from topo.placement.job.request import Kin, Request

PAIR = Request(pods=2, gpus_per_pod=8, group_size=16)


def members(*gpus: int | None) -> tuple[Member, ...]:
    """Pods by rank that ask for so many GPUs; None: such a pod is not there."""
    return tuple(
        Member(uid=PodUid(f"p{rank}"), name=f"p{rank}", rank=rank, version="1", gpus=asked)
        for rank, asked in enumerate(gpus)
    )


def place(made: PlacementAnswers, wanted: tuple[Member, ...]) -> Planned:
    found = made.place(Place(id=GangId("g"), ask=1, request=PAIR, wanted=wanted), tuple)
    assert isinstance(found, Planned)
    return found


def check(made: PlacementAnswers, wanted: tuple[Member, ...], found: Planned) -> tuple[str, ...]:
    """The nodes that can no longer take their pods."""
    waiting = tuple(zip(wanted, found.nodes, strict=True))
    asked = Check(
        id=GangId("g"), ask=2, request=PAIR, waiting=waiting, bound=(), holds=(found.hold,)
    )
    return tuple(node for node, _ in made.check(asked, "", ()).lost)


def foreign(made: PlacementAnswers, node: str, gpus: int) -> None:
    """Another pod is bound to the node."""
    pod = Pod(uid="f", namespace="x", name="f", node=NodeName(node), gpus=gpus)
    made._state.advance(PodSeen(pod, PodPhase.BOUND))


@pytest.mark.parametrize(("small", "free"), [(0, 8), (4, 4), (8, 0), (None, 0)])
def test_what_a_pod_does_not_ask_for_is_free_for_others(small: int | None, free: int) -> None:
    made, wanted = answers(), members(8, small)
    found = place(made, wanted)
    capacity = made._state.capacity
    assert [capacity.free(node) for node in found.nodes] == [0, free]
    assert check(made, wanted, found) == ()
    foreign(made, found.nodes[1], 4)
    assert check(made, wanted, found) == (() if free >= 4 else (found.nodes[1],))


def test_what_a_pod_asks_for_stays_its_own() -> None:
    made, wanted = answers(), members(8, 4)
    found = place(made, wanted)
    foreign(made, found.nodes[1], 5)
    assert check(made, wanted, found) == (found.nodes[1],)


def test_a_pod_that_keeps_its_place_is_held_with_what_it_asks_for() -> None:
    """A further pod is placed; that of no GPUs has a place, and its node can be another's."""
    made, (large, small) = answers(), members(8, 0)
    first = place(made, (large, small))
    seat = replace(small, note=None), first.nodes[1]
    asked = Place(
        id=GangId("g"), ask=2, request=PAIR, wanted=(large,), kept=((1, seat[1]),), held=(seat,)
    )
    found = made.place(asked, tuple)
    assert isinstance(found, Planned)
    (hold,) = made._state.holds()
    assert hold.gpus == {found.nodes[0]: 8}
    assert hold.places == {found.nodes[0]: 2}, "the node of its sibling is the nearest"


def test_the_cpus_of_a_pod_without_gpus_are_planned_once() -> None:
    """A node has 64 CPUs: the place of a pod of 40 that takes no GPU leaves none for another."""
    made, wanted = answers(), members(8, 0)
    gang = pair("g", wanted, PAIR, TAKES)
    made.known = {gang.id: gang}
    made.place(Place(id=gang.id, ask=1, request=PAIR, wanted=wanted, takes=TAKES), tuple)
    (hold,) = made._state.holds()
    another = Place(id=GangId("x"), ask=2, request=PAIR, wanted=(), takes=TAKES)
    room = made._room(another, (), ())
    assert room is not None
    assert room.tight().keys() == {*hold.places}


def test_a_place_of_no_gpus_keeps_the_kin_of_another_job_out_of_its_domain() -> None:
    made, wanted = answers(), members(8, 0)
    kin = Kin("rack", "jobs")
    request = replace(PAIR, kins=(kin,))
    gang = pair("g", wanted, request)
    made.known = {gang.id: gang}
    found = made.place(Place(id=gang.id, ask=1, request=request, wanted=wanted), tuple)
    assert isinstance(found, Planned)
    occupied = {each.node for each in made._held_by(kin, GangId("other"))}
    assert occupied == {*found.nodes}
