"""Holds: booked whole or not at all, given back in time, the same for the same key."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tests.placement.booking.holding import committed, expired, released, reserved, reserved_as
from tests.support.capacity import capacity_of, host
from topo.model.ids import NodeName
from topo.placement.booking.bookings import Bookings
from topo.placement.booking.holds import (
    ClockReading,
    Ended,
    Hold,
    HoldId,
    HoldRefused,
    HoldRequest,
    HoldsMemory,
    HoldState,
    Limits,
    Obstacle,
    unusable_nodes,
)
from topo.placement.capacity.capacity import Capacity
from topo.placement.engine import place
from topo.placement.job.plan import NoFit, Plan
from topo.placement.job.request import Eligibility, Request


def two_dragonflies() -> Capacity:
    """Two dragonflies of four nodes: `n<dragonfly>-<node>`."""
    return capacity_of(
        host(f"n{fly}-{node}", ("s1", f"d{fly}")) for fly in range(2) for node in range(4)
    )


def wish(pods: int = 4, hold_s: float = 60.0, key: str | None = None) -> HoldRequest:
    return HoldRequest(Request(pods=pods, gpus_per_pod=8), hold_s, key)


def test_a_hold_books_its_gpus_until_it_is_released() -> None:
    capacity = two_dragonflies()
    holds = Bookings(capacity)
    hold = reserved(holds, capacity, wish(), name="h1")
    assert isinstance(hold, Hold)
    assert hold.state is HoldState.HELD
    assert capacity.bookings() == {"h1": hold.gpus}
    assert sum(hold.gpus.values()) == 32
    assert released(holds, HoldId("h1"), 1.0) == hold
    assert not capacity.bookings()
    assert holds.find(HoldId("h1")) == Ended(HoldId("h1"), "released", 1.0)


def test_a_hold_ends_at_its_deadline_and_not_before() -> None:
    capacity = two_dragonflies()
    holds = Bookings(capacity)
    hold = reserved(holds, capacity, wish(hold_s=60), name="h1", now_s=5.0)
    assert expired(holds, 64.9) == ()
    assert expired(holds, 65.0) == (hold,)
    assert not capacity.bookings()
    assert committed(holds, HoldId("h1"), 65.0) == Ended(HoldId("h1"), "expired", 65.0)


def test_a_deadline_counts_also_before_anybody_swept() -> None:
    capacity = two_dragonflies()
    holds = Bookings(capacity)
    reserved(holds, capacity, wish(hold_s=60), name="h1")
    assert isinstance(committed(holds, HoldId("h1"), 60.0), Ended)


def test_a_committed_hold_stays_until_it_is_released() -> None:
    capacity = two_dragonflies()
    holds = Bookings(capacity)
    reserved(holds, capacity, wish(hold_s=60), name="h1")
    kept = committed(holds, HoldId("h1"), 59.0)
    assert isinstance(kept, Hold)
    assert kept.state is HoldState.COMMITTED
    version = holds.version
    assert committed(holds, HoldId("h1"), 59.5) == kept, "twice is once"
    assert holds.version == version
    assert expired(holds, 1e9) == ()
    assert capacity.bookings()
    assert released(holds, HoldId("h1"), 1e9) == kept
    assert not capacity.bookings()


def test_the_same_key_and_request_is_the_same_hold() -> None:
    capacity = two_dragonflies()
    holds = Bookings(capacity)
    first = reserved(holds, capacity, wish(key="job-7"), name="h1")
    assert holds.find_by_key(wish(key="job-7")) == first
    assert reserved(holds, capacity, wish(key="job-7"), name="h2") == first
    assert list(capacity.bookings()) == ["h1"]
    committed(holds, HoldId("h1"), 0.0)
    assert holds.find_by_key(wish(key="job-7")) == holds.find(HoldId("h1"))


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (wish(5, key="job-7"), "pods 4, now 5"),
        (wish(hold_s=30, key="job-7"), "hold_s 60, now 30"),
        (
            HoldRequest(Request(pods=4, gpus_per_pod=8, eligible=Eligibility("A")), 60.0, "job-7"),
            "filters differ",
        ),
        (replace(wish(key="job-7"), namespace="team-a"), "namespace '', now 'team-a'"),
    ],
)
def test_the_same_key_with_another_request_is_refused_and_names_both(
    other: HoldRequest, difference: str
) -> None:
    capacity = two_dragonflies()
    holds = Bookings(capacity)
    reserved(holds, capacity, wish(key="job-7"), name="h1")
    found = holds.find_by_key(other)
    assert isinstance(found, HoldRefused)
    assert found.obstacle is Obstacle.KEY
    for part in ("job-7", "h1", difference):
        assert part in found.refusal.what
    assert list(capacity.bookings()) == ["h1"]


def test_a_key_is_free_again_when_its_hold_has_ended() -> None:
    capacity = two_dragonflies()
    holds = Bookings(capacity)
    reserved(holds, capacity, wish(key="job-7"), name="h1")
    released(holds, HoldId("h1"), 1.0)
    assert holds.find_by_key(wish(5, key="job-7")) is None
    hold = reserved(holds, capacity, wish(key="job-7"), name="h2")
    assert isinstance(hold, Hold)
    assert hold.id == "h2"


def test_a_plan_that_does_not_fit_any_more_is_declined_with_the_node() -> None:
    capacity = two_dragonflies()
    holds = Bookings(capacity)
    asked = wish()
    plan = place(capacity, asked.request)
    assert isinstance(plan, Plan)
    (taken, _), *_ = plan.groups[0].pods
    for change, part in (
        (lambda: capacity.book("pods", {taken: 1}), "7 free GPUs where 8 are needed"),
        (lambda: capacity.upsert(replace(host(taken, ("s1", "d1")), cordoned=True)), "cordoned"),
        (lambda: capacity.upsert(replace(host(taken, ("s1", "d1")), ready=False)), "not ready"),
        (lambda: capacity.remove(taken), "not there"),
    ):
        change()
        found = reserved_as(holds, asked, plan, HoldId("h1"), 0.0)
        assert isinstance(found, HoldRefused)
        assert found.obstacle is Obstacle.NO_LONGER_FITS
        assert taken in found.refusal.what
        assert part in found.refusal.what
    assert "h1" not in capacity.bookings()


@pytest.mark.parametrize(
    ("asked", "obstacle", "field"),
    [
        (wish(hold_s=0), Obstacle.TERMS, "hold_s"),
        (wish(hold_s=-1), Obstacle.TERMS, "hold_s"),
        (wish(hold_s=3601), Obstacle.TERMS, "hold_s"),
        (wish(hold_s=float("nan")), Obstacle.TERMS, "hold_s"),
        (wish(hold_s=float("inf")), Obstacle.TERMS, "hold_s"),
        (wish(pods=6), Obstacle.TERMS, "pods"),
        (wish(key=""), Obstacle.TERMS, "key"),
        (wish(key="k" * 256), Obstacle.TERMS, "key"),
        (wish(key="job\n7"), Obstacle.TERMS, "key"),
        (wish(key="\udcff"), Obstacle.TERMS, "key"),
        (replace(wish(), namespace="Team A"), Obstacle.TERMS, "namespace"),
        (replace(wish(), namespace="-a"), Obstacle.TERMS, "namespace"),
        (replace(wish(), namespace="a\n"), Obstacle.TERMS, "namespace"),
        (replace(wish(), namespace="a" * 64), Obstacle.TERMS, "namespace"),
    ],
)
def test_what_is_beyond_the_limits_is_declined(
    asked: HoldRequest, obstacle: Obstacle, field: str
) -> None:
    capacity = two_dragonflies()
    holds = Bookings(capacity, Limits(holds=2, hold_s=3600, pods=5))
    found = reserved(holds, capacity, asked, name="h1")
    assert isinstance(found, HoldRefused)
    assert (found.obstacle, found.refusal.where) == (obstacle, field)
    assert not capacity.bookings()


def test_there_are_never_more_holds_than_allowed() -> None:
    capacity = two_dragonflies()
    holds = Bookings(capacity, Limits(holds=2))
    for name in ("h1", "h2"):
        assert isinstance(reserved(holds, capacity, wish(1), name=name), Hold)
    found = reserved(holds, capacity, wish(1), name="h3")
    assert isinstance(found, HoldRefused)
    assert found.obstacle is Obstacle.FULL
    released(holds, HoldId("h1"), 0.0)
    assert isinstance(reserved(holds, capacity, wish(1), name="h3"), Hold)


def test_a_restart_keeps_what_is_held_and_the_time_that_is_left() -> None:
    capacity = two_dragonflies()
    holds = Bookings(capacity)
    reserved(holds, capacity, wish(1, hold_s=60), name="short", now_s=100.0)
    reserved(holds, capacity, wish(1, hold_s=600, key="k"), name="long", now_s=100.0)
    reserved(holds, capacity, wish(1, hold_s=60), name="kept", now_s=100.0)
    committed(holds, HoldId("kept"), 100.0)
    text = TypeAdapter(HoldsMemory).dump_json(
        holds.persistent_state(ClockReading("boot-1", 100.0, 1_000_100.0))
    )

    # Another boot, whose clock is at 5, two minutes later by the wall clock.
    fresh = two_dragonflies()
    again = Bookings(fresh)
    memory = TypeAdapter(HoldsMemory).validate_json(text)
    dropped = again.restore(memory, ClockReading("boot-2", 5.0, 1_000_220.0))
    assert [hold.id for hold in dropped] == ["short"]
    assert sorted(fresh.bookings()) == ["kept", "long"]
    assert fresh.bookings()["long"] == capacity.bookings()["long"]
    found = again.find(HoldId("long"))
    assert isinstance(found, Hold)
    assert found.deadline_s == pytest.approx(5.0 + 480.0)
    assert again.find_by_key(wish(1, hold_s=600, key="k")) == found
    assert expired(again, 484.0) == ()
    assert expired(again, 486.0) == (found,)
    assert expired(again, 1e9) == ()


def test_holds_of_an_earlier_version_get_no_more_than_their_own_length_again() -> None:
    """It kept no moment beside them: how much was left is not known where the clock went back."""
    capacity = two_dragonflies()
    holds = Bookings(capacity)
    reserved(holds, capacity, wish(hold_s=120), name="h1")
    memory = replace(holds.persistent_state(ClockReading("", 0.0, 2_000_000.0)), saved=None)
    again = Bookings(two_dragonflies())
    again.restore(memory, ClockReading("", 0.0, 1_000_000.0))
    found = again.find(HoldId("h1"))
    assert isinstance(found, Hold)
    assert found.deadline_s == 120.0


def test_a_booking_on_a_node_that_went_stays_and_is_told_as_lost() -> None:
    capacity = two_dragonflies()
    holds = Bookings(capacity)
    hold = reserved(holds, capacity, wish(), name="h1")
    assert isinstance(hold, Hold)
    assert unusable_nodes(capacity, hold) == {}
    gone, closed, shrunk, fine = hold.gpus
    capacity.remove(gone)
    capacity.upsert(replace(host(closed, ("s1", "d1")), ready=False))
    before = capacity.host(shrunk)
    assert before is not None
    capacity.upsert(replace(before, gpus=4))
    assert capacity.bookings()["h1"] == hold.gpus
    told = unusable_nodes(capacity, hold)
    assert list(told) == [gone, closed, shrunk]
    assert fine not in told
    assert told[shrunk] == "8 GPUs are booked where 4 are left"
    released(holds, HoldId("h1"), 0.0)
    capacity.upsert(host(gone, ("s1", "d1")))
    assert capacity.used(gone) == 0


def test_ends_are_remembered_for_a_while_only() -> None:
    capacity = two_dragonflies()
    holds = Bookings(capacity)
    for number in range(1001):
        reserved(holds, capacity, wish(1), name=f"h{number}")
        released(holds, HoldId(f"h{number}"), 0.0)
    assert holds.find(HoldId("h0")) is None
    assert isinstance(holds.find(HoldId("h1")), Ended)


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), st.integers(1, 9), st.floats(0.5, 20)),
        st.tuples(st.just("commit"), st.integers(0, 30), st.just(0.0)),
        st.tuples(st.just("release"), st.integers(0, 30), st.just(0.0)),
        st.tuples(st.just("wait"), st.integers(1, 10), st.just(0.0)),
        st.tuples(st.just("node"), st.integers(0, 7), st.just(0.0)),
    ),
    max_size=40,
)


@given(_STEPS)
@settings(max_examples=60)
def test_whatever_happens_nothing_is_booked_twice(steps: Sequence[tuple[str, int, float]]) -> None:
    """Bookings are those of the living holds, each node's sum is within its GPUs while it is up."""
    capacity = two_dragonflies()
    holds = Bookings(capacity)
    now_s, made = 0.0, 0
    for what, number, seconds in steps:
        if what == "reserve":
            asked = wish(number, seconds)
            plan = place(capacity, asked.request)
            if isinstance(plan, NoFit):
                continue
            made += 1
            hold = reserved_as(holds, asked, plan, HoldId(f"h{made}"), now_s)
            assert isinstance(hold, Hold)
        elif what == "commit":
            committed(holds, HoldId(f"h{number}"), now_s)
        elif what == "release":
            released(holds, HoldId(f"h{number}"), now_s)
        elif what == "wait":
            now_s += number
            expired(holds, now_s)
        else:
            node = f"n{number // 4}-{number % 4}"
            before = capacity.host(NodeName(node))
            assert before is not None
            capacity.upsert(replace(before, cordoned=not before.cordoned))
        holds.validate()
        assert capacity.bookings() == {hold.id: hold.gpus for hold in holds}
        for each in capacity.hosts():
            assert capacity.used(each.name) <= each.gpus
        assert all(h.deadline_s is None or h.deadline_s > now_s for h in holds)
    assert capacity.recount() == ()
