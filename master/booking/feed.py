"""The last events about holds and capacity, for those who listen."""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

MAX_BYTES = 8 << 20
"""Events that are kept for slow listeners: a hundred thousand nodes that change at once fit."""


class BookingFeed:
    """Events as text, numbered; only while somebody listens.

    As with the history of the forest, a listener remembers the number that it has read up to. One
    that is too slow finds that its place is gone.
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
        """While one more listens."""
        self.listeners += 1
        try:
            yield
        finally:
            self.listeners -= 1

    def add(self, text: bytes) -> None:
        """Appends an event; the oldest go where they are too much, never the last."""
        self._texts.append(text)
        self._size += len(text)
        while self._size > self._limit_bytes and len(self._texts) > 1:
            self._size -= len(self._texts.popleft())
        self.now += 1
        self._added.set()
        self._added = asyncio.Event()

    def since(self, number: int) -> tuple[bytes, ...] | None:
        """The events after a number; None where they are not kept any more."""
        skipped = number - (self.now - len(self._texts))
        return None if skipped < 0 else tuple(islice(self._texts, skipped, None))

    async def wait_beyond(self, number: int) -> None:
        """Returns when there is a later one."""
        if self.now == number:
            await self._added.wait()
