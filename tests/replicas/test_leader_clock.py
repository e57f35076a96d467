"""Times of the leader's clock on ours: never later than they were, as good as its best answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.replicas.leader_clock import KEPT, LASTS_S, LeaderClock, header_value
from topo.placement.booking.holds import ClockReading

AHEAD_S = 1000.0
delays = st.floats(0.0, 6.0)


def reading(clock_s: float, boot: str = "boot") -> ClockReading:
    """A reading of the leader's clock; what its wall clock says does not matter."""
    return ClockReading(boot, clock_s, -1.0)


def asked(clock: LeaderClock, at_s: float, waits_s: float, boot: str = "boot") -> None:
    """Ask at a time of ours; the answer is made after a wait."""
    clock.note(header_value(boot, at_s + waits_s - AHEAD_S), at_s)


@given(st.lists(delays, min_size=1, max_size=3 * KEPT), st.floats(0.0, 100.0))
def test_a_time_is_never_later_than_it_was_and_as_good_as_the_quickest_answer(
    waits: list[float], made_s: float
) -> None:
    clock = LeaderClock()
    for number, wait_s in enumerate(waits):
        asked(clock, 2000.0 + number, wait_s)
    ours_s = clock.time_of(reading(made_s))
    assert ours_s is not None
    error_s = made_s + AHEAD_S - ours_s
    assert error_s == pytest.approx(min(waits[-KEPT:]), abs=1e-5)


def test_an_answer_that_waits_for_seconds_shortens_no_hold() -> None:
    clock = LeaderClock()
    asked(clock, 2000.0, 0.01)
    asked(clock, 2001.0, 5.0)
    assert clock.time_of(reading(1005.9)) == pytest.approx(2005.89)


def test_an_old_answer_tells_nothing_of_a_clock_that_may_have_drifted() -> None:
    clock = LeaderClock()
    asked(clock, 2000.0, 0.01)
    asked(clock, 2001.0 + LASTS_S, 5.0)
    assert clock.time_of(reading(1000.0)) == pytest.approx(1995.0)


def test_another_boot_is_another_clock() -> None:
    clock = LeaderClock()
    assert clock.time_of(reading(1.0)) is None
    asked(clock, 2000.0, 0.0)
    assert clock.time_of(reading(1.0, "other")) is None
    asked(clock, 2001.0, 3.0, "other")
    assert clock.time_of(reading(1000.0, "other")) == pytest.approx(1997.0)
    assert clock.time_of(reading(1000.0)) is None


@pytest.mark.parametrize("value", ["", "boot", "boot soon", "boot nan", "boot inf"])
def test_a_header_that_is_no_reading_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r"float|reading"):
        LeaderClock().note(value, 0.0)
