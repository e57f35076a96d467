"""The kept state as the leader sends it to followers: packed, and made again when it changed.

One document is made at a time, whatever the number of requests, and making them takes no more than
`MAX_TIME_SHARE` of a core.
"""

import asyncio
import gzip
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from master.booking.state import BookingState
from master.state.document import SavedDiscovery
from master.tree.engine import Engine
from topo.discovery.modes import Mode
from topo.kit.threads import timed_in_thread

MAX_TIME_SHARE = 0.1
_LEVEL = 3
"""10,000 nodes of 7 MB become 1.7 MB in 0.06 s; higher levels cost more than they save."""


@dataclass(frozen=True, slots=True)
class LeaderDocument:
    """The packed state, its tag, and the monotonic time as of which it holds."""

    tag: str
    packed: bytes
    made_s: float


@dataclass(slots=True, eq=False)
class LeaderDocuments:
    """The newest document for followers."""

    engine: Engine
    bookings: BookingState
    mode: Mode
    clock: Callable[[], float]
    _making: asyncio.Lock = field(default_factory=asyncio.Lock)
    _newest: LeaderDocument | None = None
    _rests_until_s: float = 0.0

    async def newest(self) -> LeaderDocument:
        """Return the current state, or the last one while making another would cost too much."""
        async with self._making:
            newest, now_s = self._newest, self.clock()
            if newest is not None and newest.tag == self._tag():
                return LeaderDocument(newest.tag, newest.packed, now_s)
            if newest is not None and now_s < self._rests_until_s:
                return newest
            return await self._make(now_s)

    def _tag(self) -> str:
        engine = self.engine
        changes = self.bookings.saved.changes
        return f'"{engine.history.run_id}-{engine.snapshot.generation}-{changes}"'

    async def _make(self, now_s: float) -> LeaderDocument:
        tag, unix_s = self._tag(), time.time()
        memory, copied_s = await self.engine.persistent_state()
        holds = self.bookings.persistent_state()

        def packed() -> bytes:
            content = SavedDiscovery.of(memory, unix_s).with_holds(self.mode, holds)
            return gzip.compress(content, _LEVEL, mtime=0)

        content, packed_s = await timed_in_thread(packed)
        self._rests_until_s = now_s + (copied_s + packed_s) / MAX_TIME_SHARE
        self._newest = LeaderDocument(tag, content, now_s)
        return self._newest
