"""What a fall weighs: once, however it is told, and nothing where planned work looks the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import facts
from tests.discovery.suspicion.nodes import (
    HOUR_S,
    PORT,
    counted,
    fall,
    flap,
    host,
    links,
    restored,
    score,
    settled,
)
from topo.discovery.suspicion.machine import FORGIVEN_S, QUIET_S
from topo.discovery.suspicion.record import PAIRED_S
from topo.model.ids import NodeName
from topo.model.observation import WorkerReported


def test_a_fall_that_is_counted_before_it_is_seen_is_one():
    """The counters of a reading may come before its states."""
    state = settled(host("a"))
    state.advance(0.0, counted("a", {}))
    state.advance(1.0, counted("a", {(PORT, "link-downed"): 1}))
    fall(state, "a", 2.0)
    assert score(state, "a", PORT, 2.0) == pytest.approx(0.6, abs=1e-4)
    fall(state, "a", 3.0)
    assert links(state, "a") == {PORT: "2 flaps"}


_falls = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=4)


@given(falls=_falls, order=st.lists(st.booleans(), min_size=4, max_size=4), cut=st.booleans())
def test_falls_weigh_as_often_as_they_were_seen_or_counted_in_whatever_order(
    falls: list[tuple[int, int]], order: list[bool], *, cut: bool
):
    """In each hour so many are seen and so many counted; `cut`: with restarts between both."""
    state, total, begin_s = settled(host("a")), 0, 0.0
    state.advance(begin_s, counted("a", {}))
    expected = 0
    for number, (seen, risen) in enumerate(falls):
        begin_s, total, expected = number * HOUR_S, total + risen, expected + max(seen, risen)
        for is_seen in (order[number], not order[number]):
            if is_seen:
                for _ in range(seen):
                    fall(state, "a", begin_s)
            else:
                state.advance(begin_s, counted("a", {(PORT, "link-downed"): total}))
            if cut:
                state = restored(state, begin_s)
                state.advance(begin_s, WorkerReported(host("a")))
    record = state.links(NodeName("a")).get(PORT)
    kinds = record.evidence.values() if record is not None else ()
    assert sum(each.count for each in kinds) == expected
    state.validate()


def test_falls_of_another_time_are_others():
    """One that was too short to be seen, and one whose counter stands still."""
    state = settled(host("a"))
    state.advance(0.0, counted("a", {}))
    state.advance(1.0, counted("a", {(PORT, "link-downed"): 1}))
    fall(state, "a", 1.0 + PAIRED_S + 1)
    assert links(state, "a") == {PORT: "2 flaps"}
    fall(state, "a", HOUR_S)
    state.advance(HOUR_S + PAIRED_S + 1, counted("a", {(PORT, "link-downed"): 2}))
    assert score(state, "a", PORT, HOUR_S) == pytest.approx(4 * 0.6, rel=0.05)


def test_a_counter_of_unknown_age_makes_no_fall_that_is_seen_an_old_one():
    state = settled(host("a"))
    state.advance(0.0, counted("a", {(PORT, "link-downed"): 40}))
    before = score(state, "a", PORT, 0.0)
    fall(state, "a", 1.0)
    assert score(state, "a", PORT, 1.0) == pytest.approx(before + 0.6, abs=1e-4)


def test_a_cable_whose_fall_was_counted_first_is_forgiven_when_the_server_behind_it_booted():
    state = settled(facts("a", ["b"]), facts("b", ["a"]))
    state.advance(0.0, counted("a", {}))
    state.advance(1.0, counted("a", {("slot 1", "link-downed"): 1}))
    state.advance(2.0, WorkerReported(facts("a", ["b"], unplugged=["b"])))
    state.advance(600.0, WorkerReported(facts("b", ["a"], boot="boot-2")))
    assert score(state, "a", "slot 1", 600.0) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(("late_s", "is_forgiven"), [(0.0, True), (1.0, False)])
def test_a_fall_is_forgiven_for_half_an_hour_until_the_server_behind_it_boots(
    late_s: float, *, is_forgiven: bool
):
    state = settled(facts("a", ["b"]), facts("b", ["a"]))
    for _ in range(2):
        flap(state, 0.0, (facts("a", ["b"], unplugged=["b"]), facts("a", ["b"])))
    assert links(state, "a") == {"slot 1": "2 flaps"}
    state.advance(FORGIVEN_S + late_s, WorkerReported(facts("b", ["a"], boot="boot-2")))
    assert bool(links(state, "a")) is not is_forgiven


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize(("late_s", "flaps"), [(-1.0, 0), (0.0, 2)])
def test_falls_within_ten_minutes_of_a_boot_weigh_nothing_also_after_a_restart(
    late_s: float, flaps: int, *, cut: bool
):
    state = settled(host("a"), host("b"))
    state.advance(0.0, counted("a", {}), WorkerReported(host("a", boot="boot-2")))
    state.advance(1.0, counted("a", {(PORT, "symbol"): 1}))
    if cut:
        state = restored(state, 300.0, a="boot-2")
        state.advance(301.0, WorkerReported(host("a", boot="boot-2")))
    at_s = QUIET_S + late_s
    out, well = host("a", boot="boot-2", down=["mlx5_3"]), host("a", boot="boot-2")
    for _ in range(2):
        flap(state, at_s, (out, well))
    for later_s, recoveries in ((0.0, {}), (0.5, {(PORT, "recovery"): 3})):
        state.advance(at_s + later_s, counted("a", {(PORT, "symbol"): 1, **recoveries}))
    record = state.links(NodeName("a"))[PORT]
    found = {kind: each.count for kind, each in record.evidence.items()}
    assert found == ({"flap": flaps, "recovery": 3} if flaps else {})


def test_a_counter_that_a_worker_states_as_zero_is_as_one_that_it_leaves_out():
    state = settled(host("a"))
    state.advance(0.0, counted("a", {(PORT, "link-downed"): 0}))
    assert not state.errors
    assert not state.links(NodeName("a"))
    state.validate()


def test_what_counters_rose_by_since_a_reading_in_the_quiet_time_weighs_nothing():
    state = settled(host("a"), at_s=0.0)
    state.advance(QUIET_S - 30, counted("a", {}))
    state.advance(QUIET_S + 30, counted("a", {(PORT, "link-downed"): 2}))
    assert score(state, "a", PORT, QUIET_S + 30) == 0
    state.advance(QUIET_S + 90, counted("a", {(PORT, "link-downed"): 3}))
    assert score(state, "a", PORT, QUIET_S + 90) == pytest.approx(0.6)
