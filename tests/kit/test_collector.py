"""Collections stay short, however much is replaced between two of them."""

import asyncio
import gc

import pytest

from topo.kit import collector

_MADE = 40_000


@pytest.mark.parametrize("rounds", [1, 5])
async def test_what_takes_the_place_of_as_much_does_not_wait_for_python_to_count_it(
    rounds: int,
) -> None:
    """Python takes freed objects off its count of made ones: by that it would look much later."""
    threshold = gc.get_threshold()
    gc.collect()
    gc.set_threshold(*collector.THRESHOLDS)
    looking = asyncio.create_task(collector.look_often())
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


def _made() -> list[list[int]]:
    return [[number] for number in range(_MADE)]


async def _looked() -> None:
    """Returns after a collection of the second generation that began later than this call."""
    seen = asyncio.Event()

    def collected(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 1:
            seen.set()

    gc.callbacks.append(collected)
    try:
        async with asyncio.timeout(60):
            await seen.wait()
    finally:
        gc.callbacks.remove(collected)
