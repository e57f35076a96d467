"""What happens to holds is told when the loop is free: nobody who takes one waits for a line."""

import asyncio

import prometheus_client as prom
from structlog.testing import capture_logs

from master.booking.metrics import PlacementMetrics
from master.booking.state import BookingState
from tests.support.capacity import host
from topo.kit.tasks import run
from topo.placement.booking.events import HoldAsked, HoldReleased
from topo.placement.booking.holds import HoldId, HoldRequest, Limits
from topo.placement.engine import place
from topo.placement.job.plan import Plan
from topo.placement.job.policy import Policy
from topo.placement.job.request import Request

JOB = Request(pods=2, gpus_per_pod=8, group_size=16)


def booking() -> tuple[BookingState, list[str]]:
    """An empty switchbox of two-node dragonflies, and what those who listen heard."""
    state = BookingState(
        Policy(), Limits(), PlacementMetrics(prom.CollectorRegistry()), clock=lambda: 1.0
    )
    for dragonfly in ("d1", "d2"):
        for number in (1, 2):
            state._capacity.upsert(host(f"n-{dragonfly}-{number}", ("s1", dragonfly)))
    heard: list[str] = []
    state.on_hold = lambda change: heard.append(f"{change.what} {change.hold.id}")
    return state, heard


def hold(state: BookingState, name: str) -> None:
    plan = place(state.capacity, JOB)
    assert isinstance(plan, Plan)
    state.advance(HoldAsked.of(HoldRequest(JOB, 60.0), plan, HoldId(name), 1))


async def test_a_hold_is_booked_before_it_is_told_and_all_are_told_in_their_order() -> None:
    state, heard = booking()
    with capture_logs() as lines:
        hold(state, "a")
        hold(state, "b")
        state.advance(HoldReleased(HoldId("a")))
        assert (len(state.bookings), lines, heard) == (1, [], [])
        assert state.saved.changes == 3
        await asyncio.sleep(0)
    assert heard == ["reserved a", "reserved b", "released a"]
    assert [f"{line['event']} {line['hold']}" for line in lines] == [f"hold {h}" for h in heard]


def test_a_process_that_ends_properly_tells_of_the_hold_that_it_took_last() -> None:
    state, heard = booking()

    async def service() -> None:
        hold(state, "last")

    with capture_logs() as lines:
        run(service())
    assert heard == ["reserved last"]
    assert [line["hold"] for line in lines] == ["last"]


def test_where_no_loop_runs_a_hold_is_told_at_once() -> None:
    state, heard = booking()
    with capture_logs() as lines:
        hold(state, "a")
    assert heard == ["reserved a"]
    assert [line["pods"] for line in lines] == [2]
