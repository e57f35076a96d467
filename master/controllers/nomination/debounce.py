"""When the controller's loop runs next: soon after a change, with pauses for other tasks."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

GATHER_S, GATHER_MOST_S = 0.01, 0.2
"""Changes within this time are handled together: the shortest and the longest of such times."""
SHARE_OF_OTHERS = 9.0
"""The pause after a turn, as a multiple of how long the turn took: a large gang changes pod by pod
and is read whole each time, while the webhook's reviews of its pods wait for the same loop."""
TICK_S = 0.1
"""The longest time until freed capacity is noticed, which no object of the cluster reports."""


class Debounce:
    """The pauses between iterations of the loop. Mutable; one owner."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._woken = asyncio.Event()
        self.wake = self._woken.set
        """Requests an iteration soon, because something changed."""
        self._took_s = 0.0

    async def wait(self, due_s: float | None) -> None:
        """Return after a change, at `due_s` by the clock, or after a tick."""
        wait_s = TICK_S if due_s is None else min(TICK_S, max(0.0, due_s - self._clock()))
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._woken.wait()
        if self._woken.is_set():
            await asyncio.sleep(min(max(GATHER_S, SHARE_OF_OTHERS * self._took_s), GATHER_MOST_S))
        self._woken.clear()

    def note_turn(self, began_s: float) -> None:
        """Note that an iteration, which began then, has ended."""
        self._took_s = self._clock() - began_s
