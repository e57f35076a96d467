"""An error that a step raises for one gang is that gang's: all others go on in the same step."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.gangs.jobs import dragonflies, job
from tests.gangs.leader import Leader
from tests.gangs.world import Cluster
from topo.gangs.machine import gangs
from topo.gangs.machine.events import GangUnreadable, Observed, Planned, Vanished, WriteRefused
from topo.gangs.machine.gang import GangId, Member, PodUid
from topo.gangs.machine.gangs import Gangs
from topo.gangs.machine.instructions import OpenUnplanned, Place, Release, ReportStatus
from topo.gangs.machine.registry import questions
from topo.gangs.machine.registry.unreadable import Failures, SetAside, set_aside_writes
from topo.gangs.machine.settings import GangSettings
from topo.model.conditions.gang_states import GangState
from topo.model.errors import SharedStateError
from topo.model.ids import NodeName
from topo.model.isolation import ObjectError
from topo.placement.booking.holds import HoldId

BAD, GOOD = GangId("bad"), GangId("good")
SETTINGS = GangSettings(gate_s=900.0)
STEPS = (
    "restore_record",
    "update_record",
    "follow_unbound_pods",
    "placement_need",
    "progress_of",
    "next_writes",
    "state_of",
    "with_plan",
    "check_request",
    "place_request",
)


def gang_in(argument: object) -> object:
    record = getattr(argument, "gang", argument)
    return getattr(record, "id", None)


@pytest.fixture(params=STEPS)
def broken_step(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], None]:
    """A step of the machine raises for the gang `bad`, until the returned function is called."""
    name = request.param
    module: Any = gangs if hasattr(gangs, name) else questions
    real = getattr(module, name)
    is_broken = True

    def step(*args: Any, **kwargs: Any) -> Any:
        of = {gang_in(each) for each in args} | {getattr(each, "id", None) for each in args}
        if is_broken and BAD in of:
            raise StopIteration("one step too far")
        return real(*args, **kwargs)

    def mend() -> None:
        nonlocal is_broken
        is_broken = False

    monkeypatch.setattr(module, name, step)
    return mend


def status(leader: Leader, gang_id: GangId) -> GangState | None:
    found = leader.gangs.status(gang_id)
    return found.state if found is not None else None


@pytest.mark.usefixtures("broken_step")
def test_whatever_step_raises_the_others_are_placed_and_the_gang_is_shown() -> None:
    cluster = Cluster(dragonflies(2, 2))
    cluster.submit(job("bad", 2))
    leader = Leader.over(cluster, SETTINGS)
    cluster.submit(job("good", 4, created_s=1.0))
    leader.settle()
    for uid in cluster.uids(BAD)[:1]:  # one more look, at a gang that is known by now
        cluster.change(uid, unscheduled="")
    leader.settle()
    assert len(cluster.bound(GOOD)) == 4
    assert status(leader, GOOD) is GangState.BOUND
    assert status(leader, BAD) is GangState.UNREADABLE
    [(gang_id, error)] = leader.gangs.errors()
    assert (gang_id, "one step too far" in error.reason) == (BAD, True)
    assert not cluster.holds_of(BAD), "what nobody plans on is given back"
    again = Leader.over(cluster, SETTINGS)
    again.settle()
    assert status(again, GOOD) is GangState.BOUND


def test_it_is_tried_again_once_it_is_another_one(broken_step: Callable[[], None]) -> None:
    cluster = Cluster(dragonflies(2, 2))
    cluster.submit(job("bad", 2))
    leader = Leader.over(cluster, SETTINGS)
    leader.settle()
    broken_step()
    for uid in cluster.uids(BAD):
        cluster.change(uid, unscheduled="")
    leader.now_s = SETTINGS.retry_ceiling_s  # what failed several times rests for a while
    leader.settle()
    assert len(cluster.bound(BAD)) == 2
    assert status(leader, BAD) is GangState.BOUND
    assert not [*leader.gangs.errors()]


@pytest.mark.usefixtures("broken_step")
def test_its_gates_are_opened_after_the_gate_timeout_and_not_before() -> None:
    cluster = Cluster(dragonflies(2, 2))
    cluster.submit(job("bad", 2))
    leader = Leader.over(cluster, SETTINGS)
    leader.settle()
    leader.now_s = 899.0
    leader.settle()
    gated = [member.gated for member in cluster.members(BAD)]
    is_opened_by_plan = not any(gated)
    if not is_opened_by_plan:
        assert status(leader, BAD) is GangState.UNREADABLE
        assert all(gated)
    leader.now_s = 900.0
    assert leader.gangs.next_s is None or leader.gangs.next_s <= 900.0 or is_opened_by_plan
    leader.settle()
    assert not any(member.gated for member in cluster.members(BAD))


@pytest.mark.usefixtures("broken_step")
def test_the_steps_replay_with_a_gang_set_aside() -> None:
    cluster = Cluster(dragonflies(2, 2))
    leader = Leader.over(cluster, SETTINGS)
    cluster.submit(job("bad", 2))
    cluster.submit(job("good", 4, created_s=1.0))
    leader.settle()
    again = Gangs(SETTINGS)
    for now_s, events, instructions in leader.log:
        assert again.advance(now_s, *events) == instructions
    assert again.state() == leader.gangs.state()


def test_an_error_of_what_all_share_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(*_: object) -> None:
        raise SharedStateError("bookings: counted twice")

    cluster = Cluster(dragonflies(1))
    leader = Leader.over(cluster)
    cluster.submit(job("bad", 2))
    monkeypatch.setattr(gangs, "placement_need", step)
    with pytest.raises(SharedStateError):
        leader.settle()


def set_aside(cluster: Cluster) -> tuple[Gangs, Any, list[Any]]:
    """A machine for which reading the gang `bad` failed."""
    leader = Leader.over(cluster, SETTINGS)
    machine, gang = leader.gangs, cluster.seen(BAD).gang
    found = machine.advance(0.0, GangUnreadable(gang, ObjectError("KeyError: 'spec'")))
    return machine, gang, [*found]


def test_a_gang_that_cannot_even_be_read_is_reported_once() -> None:
    cluster = Cluster(dragonflies(1))
    cluster.submit(job("bad", 2))
    machine, gang, found = set_aside(cluster)
    reports = [each for each in found if isinstance(each, ReportStatus)]
    assert [each.state for each in reports] == [GangState.UNREADABLE]
    assert "KeyError" in reports[0].text
    again = machine.advance(1.0, GangUnreadable(gang, ObjectError("KeyError: 'spec'")))
    assert not [each for each in again if isinstance(each, ReportStatus)]
    machine.validate()


def test_an_answer_that_comes_late_gives_its_hold_back() -> None:
    cluster = Cluster(dragonflies(1))
    leader = Leader.over(cluster, SETTINGS)
    cluster.submit(job("bad", 2))
    out = leader.gangs.advance(0.0, cluster.seen(BAD))
    [asked] = [each for each in out if isinstance(each, Place)]
    planned = cluster.place(asked)
    assert isinstance(planned, Planned)
    leader.gangs.advance(0.0, GangUnreadable(cluster.seen(BAD).gang, ObjectError("x")))
    late = leader.gangs.advance(0.0, planned)
    assert Release(BAD, HoldId(planned.hold)) in late


def test_it_is_forgotten_with_its_job() -> None:
    cluster = Cluster(dragonflies(1))
    cluster.submit(job("bad", 2))
    machine, _, _ = set_aside(cluster)
    machine.advance(1.0, Vanished(BAD))
    machine.validate()
    assert machine.status(BAD) is None
    assert not [*machine.errors()]
    cluster.end(BAD)
    cluster.submit(job("bad", 2))
    machine.advance(2.0, Observed(cluster.seen(BAD).gang))
    machine.validate()


def test_the_gate_timeout_goes_on_where_an_earlier_leader_began_it() -> None:
    cluster = Cluster(dragonflies(1))
    cluster.submit(job("bad", 2))
    gang = replace(cluster.seen(BAD).gang, aside_s=-300.0)
    machine = Leader.over(cluster, SETTINGS).gangs
    machine.advance(0.0, GangUnreadable(gang, ObjectError("x")))
    assert machine.next_s is not None
    assert machine.next_s <= 600.0
    assert not [each for each in machine.advance(599.0) if isinstance(each, OpenUnplanned)]
    opened = [each for each in machine.advance(600.0) if isinstance(each, OpenUnplanned)]
    assert len(opened) == 2


def aside_with(*members: Member, **more: Any) -> SetAside:
    """A gang of these pods that is set aside."""
    cluster = Cluster(dragonflies(1))
    cluster.submit(job("bad", 2))
    gang = replace(cluster.seen(BAD).gang, members=members, **more)
    return SetAside(gang, gang, ObjectError("x"), Failures(0.0, 0.0))


def test_its_holds_are_given_back_and_gates_of_pods_that_wait_are_opened_alone() -> None:
    def member(name: str, **more: Any) -> Member:
        return Member(uid=PodUid(name), name=name, rank=0, version="1", **more)

    node = NodeName("n1")
    waits, chooser = member("waits", gated=True), member("chooser", gated=True)
    others = (
        member("opened"),
        member("bound", node=node),
        member("leaves", gated=True, terminating=True),
        member("ended", gated=True, finished=True),
        member("left", node=node, terminating=True),
    )
    aside = aside_with(waits, *others, choosers=(chooser,), holds={HoldId("h"): {}})
    released = {("hold", "h"): Release(BAD, HoldId("h"))}
    assert set_aside_writes(aside, opens=False) == released
    writes = set_aside_writes(aside, opens=True)
    assert {*writes} == {("hold", "h"), ("pod", "waits"), ("pod", "chooser")}
    assert aside.status.places == ((0, node),), "of the pod that runs and stays"


def test_pauses_between_tries_grow_to_a_ceiling_and_begin_anew_after_a_good_time() -> None:
    failures = Failures(0.0, 0.0)
    pauses = []
    for _ in range(8):
        pauses.append(failures.retry_s(SETTINGS) - failures.last_s)
        failures = failures.next(failures.last_s + 1.0, SETTINGS)
    assert pauses == [0.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert failures.since_s == 0.0
    well_s = max(2 * SETTINGS.retry_ceiling_s, SETTINGS.gate_s)
    readmitted = replace(failures, read_s=100.0)
    assert readmitted.next(100.0 + well_s, SETTINGS).times == failures.times + 1
    assert readmitted.next(101.0 + well_s, SETTINGS) == Failures(101.0 + well_s, 101.0 + well_s)


def test_a_time_that_is_yet_to_come_delays_no_gate() -> None:
    """The clocks of two leaders differ."""
    gang = aside_with(aside_s=500.0).gang
    assert Failures.first(gang, 100.0) == Failures(100.0, 100.0)
    assert Failures.first(replace(gang, aside_s=40.0), 100.0) == Failures(40.0, 100.0)


def test_without_a_gate_timeout_its_gates_stay() -> None:
    cluster = Cluster(dragonflies(1))
    cluster.submit(job("bad", 2))
    machine = Leader.over(cluster, GangSettings(gate_s=0.0)).gangs
    for now_s in (0.0, 1e6):
        out = machine.advance(now_s, GangUnreadable(cluster.seen(BAD).gang, ObjectError("x")))
        assert not [each for each in out if isinstance(each, OpenUnplanned)]


def test_a_write_for_it_that_is_late_or_refused_is_made_again() -> None:
    cluster = Cluster(dragonflies(1))
    cluster.submit(job("bad", 2))
    machine, gang, _ = set_aside(cluster)
    opened = [each for each in machine.advance(900.0) if isinstance(each, OpenUnplanned)]
    assert len(opened) == 2
    assert machine.next_s == 900.0 + SETTINGS.given_s, "it is late then"
    pod = opened[0].pod
    assert not machine.advance(901.0, WriteRefused(BAD, pod.uid, "conflict", pod.version))
    assert machine.next_s == 901.0 + SETTINGS.retry_s
    again = machine.advance(901.0 + SETTINGS.retry_s)
    assert [each.pod.uid for each in again if isinstance(each, OpenUnplanned)] == [pod.uid]
    late = machine.advance(900.0 + SETTINGS.given_s)
    assert [each.pod.uid for each in late if isinstance(each, OpenUnplanned)] == [opened[1].pod.uid]
    assert gang.id == BAD


def test_it_is_tried_again_without_an_event_once_its_pause_is_over() -> None:
    cluster = Cluster(dragonflies(1))
    cluster.submit(job("bad", 2))
    machine, gang, _ = set_aside(cluster)
    machine.advance(1.0, GangUnreadable(gang, ObjectError("x")))
    machine.advance(1.5, Observed(replace(gang, priority=gang.priority + 1)))
    assert status_in(machine) is GangState.UNREADABLE
    assert machine.next_s == 1.0 + SETTINGS.retry_s
    machine.advance(1.0 + SETTINGS.retry_s)
    assert status_in(machine) is not GangState.UNREADABLE


def status_in(machine: Gangs) -> GangState | None:
    found = machine.status(BAD)
    return found.state if found is not None else None


def test_another_error_is_reported_again() -> None:
    cluster = Cluster(dragonflies(1))
    cluster.submit(job("bad", 2))
    machine, gang, _ = set_aside(cluster)
    out = machine.advance(1.0, GangUnreadable(gang, ObjectError("TypeError: x")))
    assert [each.text for each in out if isinstance(each, ReportStatus)] == [
        "planning it failed: TypeError: x"
    ]


def test_pods_that_are_expected_have_no_gates_to_open() -> None:
    cluster = Cluster(dragonflies(1))
    late = job("bad", 4)
    late.is_late = True
    cluster.jobs[BAD] = late
    cluster.create(BAD, 0)
    machine, _, _ = set_aside(cluster)
    opened = [each for each in machine.advance(900.0) if isinstance(each, OpenUnplanned)]
    assert [each.pod.rank for each in opened] == [0]
