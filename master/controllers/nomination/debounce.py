"""When the loop of gangs has its next turn: soon after something happened, and not all the time."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

GATHER_S, GATHER_MOST_S = 0.01, 0.2
"""What happens within this is looked at together; within longer where turns take long."""
SHARE_OF_OTHERS = 9.0
"""How much longer than the turn before took the others have the loop: a large gang changes pod by
pod, is read whole each time, and reviews of its pods wait for the same loop."""
TICK_S = 0.1
"""How late it may be noticed that something became free: that is no object's event."""


class Debounce:
    """The time between turns, by the clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._woken = asyncio.Event()
        self._took_s = 0.0

    def wake(self) -> None:
        """Something happened."""
        self._woken.set()

    async def wait(self, due_s: float | None) -> None:
        """Returns when a turn is due: something happened, or this time or a tick has come."""
        wait_s = TICK_S if due_s is None else min(TICK_S, max(0.0, due_s - self._clock()))
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._woken.wait()
        if self._woken.is_set():
            await asyncio.sleep(min(max(GATHER_S, SHARE_OF_OTHERS * self._took_s), GATHER_MOST_S))
        self._woken.clear()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Inside the block is a turn."""
        began_s = self._clock()
        yield
        self._took_s = self._clock() - began_s
