"""When the loop of gangs has its turns, and how much of the loop it leaves to others."""

import asyncio

import pytest

from master.controllers.nomination.debounce import (
    GATHER_MOST_S,
    GATHER_S,
    SHARE_OF_OTHERS,
    TICK_S,
    Debounce,
)

pytestmark = pytest.mark.virtual_time


async def _waited_s(pace: Debounce, due_s: float | None = None) -> float:
    clock = asyncio.get_running_loop().time
    began_s = clock()
    await pace.wait(due_s)
    return clock() - began_s


@pytest.mark.parametrize("turn_s", [0.0, 0.02, 0.04, 5.0])
async def test_after_a_turn_others_have_the_loop_for_nine_times_as_long_within_bounds(
    turn_s: float,
) -> None:
    clock = asyncio.get_running_loop().time
    pace, began_s = Debounce(clock), clock()
    await asyncio.sleep(turn_s)
    pace.note_turn(began_s)
    pace.wake()
    expected_s = min(max(GATHER_S, SHARE_OF_OTHERS * turn_s), GATHER_MOST_S)
    assert await _waited_s(pace) == pytest.approx(expected_s)


async def test_without_news_a_turn_comes_with_the_tick_or_when_one_is_due() -> None:
    pace = Debounce(asyncio.get_running_loop().time)
    now_s = asyncio.get_running_loop().time()
    assert await _waited_s(pace) == pytest.approx(TICK_S)
    assert await _waited_s(pace, now_s) == 0
    due_s = asyncio.get_running_loop().time() + TICK_S / 2
    assert await _waited_s(pace, due_s) == pytest.approx(TICK_S / 2)


async def test_what_happens_while_it_gathers_is_of_the_same_turn() -> None:
    loop = asyncio.get_running_loop()
    pace = Debounce(loop.time)
    pace.wake()
    loop.call_later(GATHER_S / 2, pace.wake)
    assert await _waited_s(pace) == pytest.approx(GATHER_S)
    assert await _waited_s(pace) == pytest.approx(TICK_S)
