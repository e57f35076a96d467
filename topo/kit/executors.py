"""Keeps the API responsive while many ask for placements.

At most one placement per event-loop iteration and long work in one thread, both behind bounded
queues: hundreds who ask at once must not keep the tree from those who only read it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from topo.kit.threads import uninterrupted

LOOP_QUEUE = 256
"""Callers that may wait for the loop: of the dearest, 7 ms each at 10,000 nodes, about two seconds.
"""
THREAD_QUEUE = 64
"""Jobs that may wait for the thread: most take a hundredth of a second, none has a copy before."""

R = TypeVar("R")


class QueueFullError(Exception):
    """The queue is full: one more caller would wait too long."""


class LoopQueue:
    """A FIFO that lets one caller run per event-loop iteration."""

    def __init__(self, limit: int = LOOP_QUEUE) -> None:
        self._limit = limit
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._busy = False

    async def acquire(self) -> None:
        """Wait for an iteration of the loop in which no other caller runs.

        The caller has it until its next await. Raises `QueueFullError` if too many wait.
        """
        loop = asyncio.get_running_loop()
        if not self._busy:
            self._busy = True
            loop.call_soon(self._next, loop)
            return
        if len(self._waiting) >= self._limit:
            raise QueueFullError
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
        self._busy = False


class SingleThreadExecutor:
    """One worker thread behind a bounded queue: the loop shares its core with one thread only."""

    def __init__(self, limit: int = THREAD_QUEUE) -> None:
        self._limit = limit
        self._waiting = 0
        self._lock = asyncio.Lock()

    @property
    def full(self) -> bool:
        """Whether `run` would raise `QueueFullError`."""
        return self._waiting >= self._limit

    async def run(self, prepare: Callable[[], Callable[[], R]]) -> R:
        """Run the job that `prepare` makes, in the thread, and return its result.

        `prepare` is called on the loop once the thread is free. A thread goes on when its caller is
        cancelled, so that the next job waits for it all the same. Raises `QueueFullError` if too
        many wait, and what the two raise.
        """
        if self.full:
            raise QueueFullError
        self._waiting += 1
        try:
            async with self._lock:
                return await uninterrupted(asyncio.to_thread(prepare()))
        finally:
            self._waiting -= 1


class SharedExecutor(Generic[R]):
    """A `SingleThreadExecutor` in which all who ask for one result while it is made get that one.

    Results are told apart by keys that are compared, and need no hash. None is kept.
    """

    def __init__(self, limit: int) -> None:
        self._executor = SingleThreadExecutor(limit)
        self._coming: list[tuple[object, asyncio.Task[R]]] = []

    async def run(self, key: object, prepare: Callable[[], Callable[[], R]]) -> R:
        """Return the result of the job that `prepare` makes, or of the same one under way.

        Raises what `SingleThreadExecutor.run` raises. The job goes on when one of its callers
        leaves.
        """
        task = next((task for known, task in self._coming if known == key), None)
        if task is None:
            task = asyncio.ensure_future(self._executor.run(prepare))
            self._coming.append((key, task))
            task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    def _forget(self, ended: "asyncio.Task[R]") -> None:
        self._coming = [each for each in self._coming if each[1] is not ended]
        if not ended.cancelled():
            ended.exception()  # those who asked have it, or have left
