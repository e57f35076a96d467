"""The course of one request, step by step, and what is refused on the way."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gangs.jobs import dragonflies
from tests.provisioning.world import KilledError, Leader, World
from topo.gangs.annotation_keys import AnnotationKeys
from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.placement.booking.events import HoldReleased
from topo.placement.booking.holds import HoldsMemory
from topo.placement.job.request import PlacementMode, Request
from topo.provisioning.course import (
    Phase,
    RequestCondition,
    RequestTimes,
    RequestUid,
    read_times,
)
from topo.provisioning.machine import FENCE_S, SLACK_S, Provisioning
from topo.provisioning.messages import (
    Book,
    EndBooking,
    NoRoom,
    RequestObserved,
    StatusRefused,
    TermBegun,
    WriteStatus,
)
from topo.provisioning.record import BookedGroups, node_details, read_nodes
from topo.provisioning.terms import Awaited, TemplatePods, Terms, read_request

KEYS = AnnotationKeys("metax-tech.com")
PAIR = Request(pods=2, gpus_per_pod=8, group_size=16)


def one_request() -> tuple[World, Leader, str]:
    world = World(lambda: dragonflies(1))
    uid = world.ask("one", PAIR)
    leader = world.lead()
    leader.turn()
    return world, leader, uid


def test_a_request_is_accepted_booked_promised_and_ended_in_this_order() -> None:
    world, leader, _ = one_request()
    world.now_s += 600
    leader.turn()
    done = [each for _, _, out in leader.told for each in out]
    assert [type(each) for each in done] == [
        WriteStatus,
        Book,
        WriteStatus,
        WriteStatus,
        EndBooking,
    ]
    phases = [each.phase for each in done if isinstance(each, WriteStatus)]
    assert phases == [Phase.ACCEPTED, Phase.PROVISIONED, Phase.EXPIRED]


def test_the_same_events_give_the_same_instructions() -> None:
    world, leader, uid = one_request()
    world.ask("two", PAIR)
    leader.turn()
    world.now_s += 600
    leader.turn()
    assert world.api.requests[uid].phase is Phase.EXPIRED  # type: ignore[index]
    again = Provisioning()
    for now_s, events, out in leader.told:
        assert again.advance(now_s, *events) == out


def test_nothing_is_decided_before_all_requests_were_observed() -> None:
    world, leader, _ = one_request()
    (_, events, _), *_ = leader.told
    assert Provisioning().advance(world.now_s, *events[:-1]) == ()


def test_a_booking_that_would_end_before_its_promise_is_made_anew() -> None:
    """Its leader died between the booking and the promise, and nobody led for a minute."""
    world = World(lambda: dragonflies(1))
    uid = world.ask("one", PAIR, parameters=(("BookingSeconds", "100"),))
    first = world.lead()
    world.dies_after = 3
    with pytest.raises(KilledError):
        first.turn()
    assert world.api.requests[uid].phase is Phase.ACCEPTED
    assert world.saved.holds
    world.now_s += SLACK_S + 1
    second = world.lead()
    second.turn()
    hold, deadline_s = second.hold_of(uid), world.api.requests[uid].deadline_s
    assert hold is not None
    assert hold.deadline_s is not None
    assert deadline_s is not None
    assert hold.deadline_s > deadline_s


def test_a_write_that_was_refused_is_due_no_more_once_its_time_came() -> None:
    """Else the loop of its owner would never wait again."""
    world, leader, uid = one_request()
    found = world.api.requests[RequestUid(uid)]
    accepted = replace(found, version="9", conditions=found.conditions[:1])
    waits = RequestCondition(Phase.PROVISIONED.value, False, "Waiting", "no room", 1000.0)
    accepted = replace(accepted, conditions=(*accepted.conditions, waits))
    machine, asked = leader.machine, Terms(PAIR)
    held = leader._observed(RequestUid(uid)).held
    (write,) = machine.advance(1000.0, RequestObserved(request=accepted, asked=asked, held=held))
    assert isinstance(write, WriteStatus)
    assert machine.advance(1001.0, StatusRefused(write.request.uid, "9", 1031.0)) == ()
    (book,) = machine.advance(1040.0, RequestObserved(request=accepted, asked=asked))
    assert isinstance(book, Book)
    assert machine.advance(1040.0, NoRoom(book.uid, "no room")) == ()
    assert machine.next_s == found.created_s + found.times.valid_s


def test_a_new_leader_waits_its_time_for_a_request_that_is_not_written_and_no_longer() -> None:
    """It says by itself when that is over; then it books for others that came meanwhile."""
    world, _, uid = one_request()
    found = world.api.requests[RequestUid(uid)]
    waits = replace(found, version="9", conditions=found.conditions[:1])
    machine, asked, now_s = Provisioning(), Terms(PAIR), 1000.0
    (write,) = machine.advance(now_s, RequestObserved(request=waits, asked=asked), TermBegun())
    assert isinstance(write, WriteStatus)
    assert [*machine.awaited] == [waits.full_name]
    assert machine.next_s == now_s + FENCE_S
    other = replace(waits, uid=RequestUid("other"), name="other")
    observed = RequestObserved(request=other, asked=asked)
    assert machine.advance(now_s + FENCE_S - 1, observed) == ()
    assert not machine.has_begun
    (book,) = machine.advance(now_s + FENCE_S)
    assert isinstance(book, Book)
    assert (book.uid, machine.has_begun) == (other.uid, True)


def test_a_lost_booking_is_made_again_on_the_same_nodes() -> None:
    world = World(lambda: dragonflies(2, 2))
    uid = world.ask("one", PAIR)
    world.lead().turn()
    nodes = read_nodes(dict(world.api.requests[uid].details))
    world.saved = HoldsMemory(1, ())
    world.now_s += 100
    second = world.lead()
    second.turn()
    hold = second.hold_of(uid)
    assert hold is not None
    assert BookedGroups(tuple(group.pods for group in hold.groups)) == nodes
    assert hold.deadline_s == world.now_s + 500 + SLACK_S


def test_a_lost_booking_whose_nodes_are_taken_is_revoked() -> None:
    world = World(lambda: dragonflies(1))
    uid = world.ask("one", PAIR)
    world.lead().turn()
    world.saved = HoldsMemory(1, ())
    second = world.lead()
    second.bookings_capacity.book("somebody", {NodeName("n1-1-2"): 8})
    second.turn()
    found = world.api.requests[uid]
    assert found.phase is Phase.REVOKED
    revoked = found.condition(Phase.REVOKED)
    assert revoked is not None
    assert "its nodes are not free" in revoked.message


def test_of_two_leaders_bookings_that_counts_which_was_written() -> None:
    """The first wrote its promise late; the second, without its state, had booked other nodes."""
    world = World(lambda: dragonflies(2))
    uid = world.ask("one", PAIR)
    first = world.lead()
    world.dies_after = 4
    with pytest.raises(KilledError):
        first.turn()
    (late,) = first.late
    world.saved = HoldsMemory(1, ())
    second = world.lead()
    second.bookings_capacity.book("somebody", {NodeName("n1-1-1"): 8})
    world.api.write(late)
    second.turn()
    found = world.api.requests[uid]
    assert found.phase is Phase.REVOKED
    assert second.hold_of(uid) is None


def test_a_hold_that_somebody_else_releases_is_made_again_or_lost() -> None:
    world, leader, uid = one_request()
    hold = leader.hold_of(uid)  # type: ignore[arg-type]
    assert hold is not None
    leader.bookings.advance(world.now_s, HoldReleased(hold.id))
    leader.turn()
    assert leader.hold_of(uid) is not None  # type: ignore[arg-type]


@given(
    st.lists(
        st.lists(
            st.tuples(
                st.from_regex(r"[a-z][a-z0-9.-]{0,20}[a-z0-9]", fullmatch=True),
                st.integers(1, 99_999),
            ),
            min_size=1,
            max_size=5,
        ),
        min_size=1,
        max_size=6,
    )
)
def test_the_nodes_of_a_record_are_read_as_they_were_written(groups):
    named = tuple(tuple((NodeName(node), pods) for node, pods in group) for group in groups)
    details = node_details(named)
    assert details is not None
    assert read_nodes(details) == BookedGroups(named)


def test_a_record_of_many_nodes_is_cut_into_details_and_one_that_is_too_long_is_none() -> None:
    long = [[(NodeName(f"{'n' * 58}-{number:04}"), 1)] for number in range(2000)]
    details = node_details([tuple(each) for each in long])
    assert details is not None
    assert len(details) > 1
    assert max(map(len, details.values())) == 32_768
    assert read_nodes(details) == BookedGroups(tuple(tuple(each) for each in long))
    assert node_details([tuple(each) for each in long * 20]) is None


@pytest.mark.parametrize("text", ["", "n1,,n2", "n1;", "n1:0", "N1", "n1:x", "n1 "])
def test_a_record_that_somebody_changed_is_none(text: str) -> None:
    assert read_nodes({"nodes": text}) is None


@pytest.mark.parametrize(
    ("parameters", "annotations", "found"),
    [
        ({}, {}, "8 pods of 8, one group"),
        ({"gpu-group-size": "16"}, {}, "8 pods of 8, groups of 16"),
        ({"metax-tech.com/gpu-group-size": "16"}, {}, "8 pods of 8, groups of 16"),
        ({}, {"metax-tech.com/gpu-group-size": "16"}, "8 pods of 8, groups of 16"),
        ({"gpu-group-size": "32"}, {"metax-tech.com/gpu-group-size": "16"}, "groups of 32"),
        ({"maxRunDurationSeconds": "600"}, {}, "one group"),
        ({"gpu-group-size": "12"}, {}, "not a multiple of the 8 GPUs of a pod"),
        ({"gpu-group-size": "many"}, {}, "gpu-group-size is 'many'"),
        ({"BookingSeconds": "0"}, {}, "BookingSeconds is '0'"),
        ({"BookingSeconds": "2d"}, {}, "give seconds from 1 to 82800"),
        ({"ValidUntilSeconds": "-1"}, {}, "ValidUntilSeconds is '-1'"),
        ({"gpu-group-mode": "hard"}, {}, "(at spec.parameters[gpu-group-mode])"),
        ({}, {"metax-tech.com/gpu-group-mode": "hard"}, "(at spec.podSets)"),
        ({"bookingSeconds": "60"}, {}, "did you mean BookingSeconds?"),
        ({"gpu-group-sise": "16"}, {}, "did you mean gpu-group-size?"),
    ],
)
def test_what_a_request_asks_for_is_read_from_parameters_and_templates(
    parameters: dict[str, str], annotations: dict[str, str], found: str
) -> None:
    templates = [
        TemplatePods("master", 1, 8, {}),
        TemplatePods("worker", 7, 8, annotations),
        TemplatePods("logs", 3, 0, {}),
    ]
    read = read_request(parameters, templates, KEYS)
    if isinstance(read, Refusal):
        shown = str(read)
    else:
        groups = f"groups of {read.group_size}" if read.group_size else "one group"
        shown = f"{read.pods} pods of {read.gpus_per_pod}, {groups}"
    assert found in shown


def test_mode_and_domain_of_a_request_hold_also_where_all_its_pods_are_one_group() -> None:
    words = {"gpu-group-mode": "preferred", "gpu-group-within": "switchbox"}
    read = read_request(words, [TemplatePods("train", 4, 8, {})], KEYS)
    assert isinstance(read, Request)
    found = (read.group_size, read.mode, read.within)
    assert found == (None, PlacementMode.PREFERRED, "switchbox")


def test_a_request_without_gpus_and_one_that_is_too_large_are_refused() -> None:
    assert "no pod of the request takes whole GPUs" in str(
        read_request({}, [TemplatePods("logs", 3, 0, {})], KEYS)
    )
    assert "10001 pods" in str(read_request({}, [TemplatePods("all", 10_001, 8, {})], KEYS))


def test_times_are_whole_seconds_with_the_defaults_of_the_cluster_autoscaler() -> None:
    assert read_times({}) == RequestTimes(600, 600)
    assert read_times({"BookingSeconds": "1.9", "ValidUntilSeconds": "2m"}) == RequestTimes(1, 120)


def test_a_new_leader_books_nothing_before_earlier_promises_can_no_longer_arrive() -> None:
    """Its template is not there either, so that nothing else would be written of the first."""
    world = World(lambda: dragonflies(1))
    first = world.ask("first", PAIR)
    world.dies_after = 3
    leader = world.lead()
    with pytest.raises(KilledError):
        leader.turn()
    world.saved = HoldsMemory(1, ())
    second = world.ask("second", PAIR)
    machine, now_s = Provisioning(), world.now_s
    waits = RequestObserved(
        request=world.api.requests[first], asked=Awaited("its template is gone")
    )
    other = RequestObserved(request=world.api.requests[second], asked=Terms(PAIR))
    writes = machine.advance(now_s, waits, other, TermBegun())
    assert [type(each) for each in writes] == [WriteStatus, WriteStatus]
    for each in writes:
        assert isinstance(each, WriteStatus)
        assert world.api.write(each)
    assert not machine.has_begun
    other = replace(other, request=world.api.requests[second])
    assert machine.advance(now_s, other) == ()
    waits = replace(waits, request=world.api.requests[first])
    (book,) = machine.advance(now_s, waits)
    assert isinstance(book, Book)
    assert book.uid == second
    assert machine.has_begun
