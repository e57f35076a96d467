"""The limit of requests to the API server."""

import asyncio
import time
from collections.abc import Callable


class RequestRate:
    """Allows `burst` requests at once and `qps` a second from then on, in order of arrival.

    Kept as the time at which the bucket is full again (GCRA, ITU-T I.371), so no rounding errors
    add up. A caller that is cancelled while it waits has used nothing.
    """

    def __init__(self, qps: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(f"a bucket of {burst} tokens, {qps} a second, lets nobody pass")
        self._interval_s = 1.0 / qps
        self._slack_s = (burst - 1) * self._interval_s
        self._clock = clock
        self._full_at_s = float("-inf")
        self._turn = asyncio.Lock()

    async def take(self) -> None:
        """Return when the caller may send one request."""
        async with self._turn:  # first come, first served
            wait_s = self._full_at_s - self._slack_s - self._clock()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            self._full_at_s = max(self._full_at_s, self._clock()) + self._interval_s
