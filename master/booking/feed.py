"""The latest events about holds and capacity, for those who listen."""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

MAX_BYTES = 8 << 20
"""Events that are kept for slow listeners: a hundred thousand nodes that change at once fit."""


class BookingFeed:
    """Numbered events as text, for as many listeners as there are.

    A listener remembers the number up to which it has read. One that is too slow finds that its
    events are no longer kept.
    """

    def __init__(self, limit_bytes: int = MAX_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._texts: deque[bytes] = deque()
        self._size = 0
        self._added = asyncio.Event()
        self.listeners = 0
        self.now = 0
        """How many there have been."""
        self.greeting = b""
        """What a listener is told first, empty where nothing is known yet."""

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Count one more listener inside the block."""
        self.listeners += 1
        try:
            yield
        finally:
            self.listeners -= 1

    def add(self, text: bytes) -> None:
        """Append an event and drop the oldest beyond the limit, but never the last."""
        self._texts.append(text)
        self._size += len(text)
        while self._size > self._limit_bytes and len(self._texts) > 1:
            self._size -= len(self._texts.popleft())
        self.now += 1
        self._added.set()
        self._added = asyncio.Event()

    def since(self, number: int) -> tuple[bytes, ...] | None:
        """Return the events after a number; None if they are no longer kept."""
        skipped = number - (self.now - len(self._texts))
        return None if skipped < 0 else tuple(islice(self._texts, skipped, None))

    async def wait_beyond(self, number: int) -> None:
        """Wait until there is an event after a number."""
        if self.now == number:
            await self._added.wait()
