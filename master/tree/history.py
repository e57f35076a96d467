"""The last steps of the forest, for queries and for listeners."""

import asyncio
import secrets
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from topo.model.forest import Change
from topo.model.ids import Generation


@dataclass(frozen=True, slots=True)
class Step:
    """The changes that led to one generation; empty where only texts or counts differ."""

    generation: Generation
    changes: tuple[Change, ...]


class History:
    """The last steps, bounded by the number of changes in them.

    Listeners keep no queue here: each remembers the generation it has seen and reads on from
    there, so a slow one costs nothing and falls out of the history instead of filling memory.
    `run_id` tells this history from that of another process, which may count the same generations.
    """

    def __init__(self, limit: int, start: Generation) -> None:
        self._limit = limit
        self._steps: deque[Step] = deque()
        self._size = 0
        self._now = start
        self._added = asyncio.Event()
        self.run_id = secrets.token_hex(4)
        self.closed = False

    @property
    def now(self) -> Generation:
        """The generation of the last step."""
        return self._now

    @property
    def oldest(self) -> Generation:
        """The oldest generation from which every step is still known."""
        return Generation(self._now - len(self._steps))

    def add(self, step: Step) -> None:
        """Append the next step and wake the listeners; old steps beyond the limit go."""
        self._steps.append(step)
        self._size += len(step.changes) + 1
        while self._size > self._limit:
            self._size -= len(self._steps.popleft().changes) + 1
        self._now = step.generation
        self._wake()

    def since(self, generation: int) -> tuple[Step, ...] | None:
        """Return the steps after a generation, None where it is too old or not of this history."""
        if not self.oldest <= generation <= self._now:
            return None
        return tuple(islice(self._steps, generation - self.oldest, None))

    async def wait_beyond(self, generation: int, timeout_s: float) -> None:
        """Wait for a later generation, the end of the history, or the timeout."""
        if self._now != generation or self.closed:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._added.wait()

    def close(self) -> None:
        """End every listener's wait, for good."""
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        self._added.set()
        self._added = asyncio.Event()
