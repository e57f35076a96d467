"""Collections stay short, however much is replaced between two of them."""

import asyncio
import gc

import pytest

from topo.kit.process import collector

_MADE = 40_000


@pytest.mark.parametrize("rounds", [1, 5])
async def test_what_takes_the_place_of_as_much_does_not_wait_for_python_to_count_it(
    rounds: int,
) -> None:
    """Python takes freed objects off its count of made ones: by that it would look much later."""
    threshold = gc.get_threshold()
    gc.collect()
    gc.set_threshold(*collector.THRESHOLDS)
    looking = asyncio.create_task(collector.collect_often())
    try:
        held = _made()
        await _looked()
        for _ in range(rounds):
            held = _made()
            await _looked()
            assert len(gc.get_objects(0)) + len(gc.get_objects(1)) < _MADE / 10
        assert len(held) == _MADE
    finally:
        looking.cancel()
        gc.set_threshold(*threshold)


async def test_what_a_process_has_grown_by_is_kept_once_and_not_looked_at_again() -> None:
    """What comes and goes below the most that there ever was is not kept: its cycles are found."""
    threshold = gc.get_threshold()
    gc.collect()
    gc.set_threshold(*collector.THRESHOLDS)
    looking = asyncio.create_task(collector.collect_often())
    try:
        await _looked(60)
        before = gc.get_freeze_count()
        held = [_made() for _ in range(1 + 2 * collector.GROWN_BLOCKS // _MADE)]
        await _looked(60)
        assert gc.get_freeze_count() - before > len(held) * _MADE
        held.clear()
        left = gc.get_freeze_count()
        held = [_made() for _ in range(collector.GROWN_BLOCKS // _MADE)]
        await _looked(60)
        assert gc.get_freeze_count() <= left
        assert len(held) == collector.GROWN_BLOCKS // _MADE
    finally:
        looking.cancel()
        gc.set_threshold(*threshold)


def _made() -> list[list[int]]:
    return [[number] for number in range(_MADE)]


async def _looked(times: int = 1) -> None:
    """Returns after so many collections of the second generation that began after this call."""
    seen = asyncio.Semaphore(0)

    def collected(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 1:
            seen.release()

    gc.callbacks.append(collected)
    try:
        async with asyncio.timeout(120):
            for _ in range(times):
                await seen.acquire()
    finally:
        gc.callbacks.remove(collected)
