"""Who works when: one piece a round of the loop, and what takes long in a thread, one by one.

Hundreds who ask for placements at once must not keep the tree from those who only read it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

WAITING = 256
"""Pieces that may wait for the loop: of the dearest, 7 ms each at 10,000 nodes, about two seconds.
"""
WAITING_ASIDE = 64
"""Jobs that may wait for the thread: most take a hundredth of a second, none has a copy before."""

R = TypeVar("R")


class CrowdedError(Exception):
    """So many wait already that one more is better sent away."""


class Turns:
    """Turns on the event loop, first come, first served; in between it serves everybody else."""

    def __init__(self, limit: int = WAITING) -> None:
        self._limit = limit
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._taken = False

    async def turn(self) -> None:
        """Returns in a round of the loop in which nobody else has a turn.

        It lasts until the caller awaits something. Raises `CrowdedError` when too many wait.
        """
        loop = asyncio.get_running_loop()
        if not self._taken:
            self._taken = True
            loop.call_soon(self._next, loop)
            return
        if len(self._waiting) >= self._limit:
            raise CrowdedError
        mine: asyncio.Future[None] = loop.create_future()
        self._waiting.append(mine)
        await mine

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting:
            first = self._waiting.popleft()
            if not first.done():
                first.set_result(None)
                loop.call_soon(self._next, loop)
                return
        self._taken = False


class Aside:
    """Long work in a thread, one job at a time: the loop shares its core with one thread only."""

    def __init__(self, limit: int = WAITING_ASIDE) -> None:
        self._limit = limit
        self._waiting = 0
        self._turn = asyncio.Lock()

    @property
    def crowded(self) -> bool:
        """Whether one more would be sent away."""
        return self._waiting >= self._limit

    async def do(self, begin: Callable[[], Callable[[], R]]) -> R:
        """What the work returns; `begin` makes it on the loop when its turn has come.

        Raises `CrowdedError` when too many wait, and what the two raise.
        """
        if self.crowded:
            raise CrowdedError
        self._waiting += 1
        try:
            async with self._turn:
                return await asyncio.to_thread(begin())
        finally:
            self._waiting -= 1
