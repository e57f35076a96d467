"""A state file at any moment, a restart at any later one: nothing lost, nothing booked twice."""

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tests.placement.booking.holding import committed, reserved_as
from tests.support.capacity import capacity_of, host
from topo.model.ids import Kind, NodeName
from topo.placement.booking.bookings import Bookings
from topo.placement.booking.holds import ClockReading, Hold, HoldId, HoldRequest, HoldsMemory
from topo.placement.capacity.capacity import Capacity
from topo.placement.engine import place
from topo.placement.job.plan import NoFit
from topo.placement.job.request import Eligibility, PlacementMode, Request, Toleration

MEMORY = TypeAdapter(HoldsMemory)


def three_dragonflies() -> Capacity:
    """Twelve nodes n0, n1, …, four in each dragonfly of one switchbox."""
    return capacity_of(host(f"n{each}", ("s1", f"d{each // 4}"), gpu_type="") for each in range(12))


REQUESTS = st.builds(
    Request,
    pods=st.integers(1, 6),
    gpus_per_pod=st.sampled_from([1, 4, 8]),
    group_size=st.sampled_from([None, 8, 32]),
    mode=st.sampled_from(list(PlacementMode)),
    within=st.sampled_from([None, Kind("switchbox")]),
    eligible=st.builds(
        Eligibility,
        gpu_type=st.sampled_from([None, ""]),
        selector=st.sampled_from([(), ()]),
        tolerations=st.sampled_from([(), (Toleration("k", "Exists"),)]),
        exclude=st.frozensets(st.sampled_from([NodeName(f"n{n}") for n in range(3)])),
    ),
)
ASKED = st.tuples(
    REQUESTS, st.floats(1, 100), st.booleans(), st.sampled_from([None, "a", "b", "ü ¿"])
)


@given(
    asked=st.lists(ASKED, max_size=8),
    later_s=st.floats(0, 200),
    started_s=st.floats(0, 1e6),
)
@settings(max_examples=60)
def test_a_restart_has_exactly_the_holds_whose_time_is_not_over(
    asked: list[tuple[Request, float, bool, str | None]], later_s: float, started_s: float
) -> None:
    capacity = three_dragonflies()
    holds = Bookings(capacity)
    for number, (request, hold_s, kept, key) in enumerate(asked):
        wish = HoldRequest(request, hold_s, key)
        plan = place(capacity, request)
        if isinstance(plan, NoFit) or holds.find_by_key(wish):
            continue
        hold = reserved_as(holds, wish, plan, HoldId(f"h{number}"), 50.0)
        assert isinstance(hold, Hold)
        if kept:
            committed(holds, hold.id, 50.0)

    text = MEMORY.dump_json(holds.persistent_state(ClockReading("", 50.0, 1e9)))
    fresh = three_dragonflies()
    again = Bookings(fresh)
    now = ClockReading("", started_s, 1e9 + later_s)
    dropped = again.restore(MEMORY.validate_json(text), now)

    living = {
        hold.id: hold
        for hold in holds
        if hold.deadline_s is None or hold.deadline_s - 50.0 > later_s + 1e-3
    }
    over = {
        hold.id
        for hold in holds
        if hold.deadline_s is not None and hold.deadline_s - 50.0 < later_s - 1e-3
    }
    found = {hold.id: hold for hold in again}
    assert living.keys() <= found.keys()
    assert over <= {hold.id for hold in dropped}
    assert found.keys() | {hold.id for hold in dropped} == {hold.id for hold in holds}
    for name, hold in living.items():
        assert found[name].wish == hold.wish
        assert found[name].groups == hold.groups
        assert fresh.bookings()[name] == capacity.bookings()[name]
        assert again.find_by_key(hold.wish) == (found[name] if hold.wish.key else None)
    assert again.recount() == ()
    assert fresh.recount() == ()
