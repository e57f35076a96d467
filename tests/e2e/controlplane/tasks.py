"""Tasks of the harness: they end before their loop does, and what fails in one is shown."""

import asyncio
import sys
import traceback
from collections.abc import Coroutine, Iterable
from typing import Any


async def ended(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancels those that are not cancelled yet; returns when all have ended, whatever with."""
    found = list(tasks)
    for task in found:
        if not task.cancelling():  # a second time would break off what it does at its end
            task.cancel()
    await asyncio.gather(*found, return_exceptions=True)


class Tasks:
    """Tasks that end by themselves; `failures` is what went wrong in those that have ended."""

    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task that is kept until it has ended."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return task

    async def end(self) -> None:
        """Cancels all; returns when they have ended."""
        await ended(self._tasks)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.failures.append(failure)
            traceback.print_exception(failure, file=sys.stderr)
