"""The time of the cluster is that of its API servers, whatever this master's own clock says."""

import pytest

from master.kube.server_clock import LOOK_S, ServerClock

DATE, DATE_S = "Sun, 22 Nov 2026 18:00:00 GMT", 1795370400.0


def clock(now_s: float, looks: list[float] | None = None) -> ServerClock:
    times = iter(looks or [0.0])
    return ServerClock(now=lambda: now_s, clock=lambda: next(times))


@pytest.mark.parametrize("ahead_s", [3600.0, -600.0])
def test_a_wall_clock_that_is_wrong_is_put_right(ahead_s: float) -> None:
    found = clock(DATE_S + ahead_s)
    assert found.now() == DATE_S + ahead_s, "nothing was heard yet"
    found.observe(DATE)
    assert found.ahead_s == ahead_s
    assert found.now() == DATE_S


def test_less_than_a_date_can_say_is_no_difference() -> None:
    found = clock(DATE_S + 1.4)
    found.observe(DATE)
    assert found.ahead_s == 0.0


@pytest.mark.parametrize("date", [None, "", "yesterday", "Sun, 99 Nov 2026 18:00:00 GMT"])
def test_what_is_no_date_says_nothing(date: str | None) -> None:
    found = clock(DATE_S + 3600, [0.0, 0.0])
    found.observe(date)
    assert found.ahead_s == 0.0
    found.observe(DATE)
    assert found.ahead_s == 3600.0


def test_a_clock_that_is_stepped_is_seen_at_the_next_look() -> None:
    now_s = [DATE_S + 3600, DATE_S]
    times = iter([0.0, LOOK_S - 1, LOOK_S])
    found = ServerClock(now=lambda: now_s[0], clock=lambda: next(times))
    found.observe(DATE)
    now_s.pop(0)
    found.observe(DATE)
    assert found.ahead_s == 3600.0
    found.observe(DATE)
    assert found.ahead_s == 0.0
