"""When the state is saved: soon after holds change, seldom otherwise, with a bound on its cost.

The judgement is not saved before the sources behind the tree have answered in this process: until
then the kept state knows more, and its age is the true one. Holds are saved as soon as they change,
beside the discovery state that was saved last.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import structlog

from master.booking.state import BookingState
from master.metrics import ServiceMetrics
from master.state.document import SavedDiscovery, State
from master.tree.engine import Engine
from topo.discovery.modes import Mode
from topo.discovery.sources import Readiness
from topo.kit.threads import timed_in_thread, uninterrupted
from topo.model.errors import BrokenInvariantError
from topo.model.ids import Generation
from topo.placement.booking.holds import HoldsMemory

REFRESH_S = 30.0
"""An unchanged state is saved again this often, so that its age says when it was last true, and on
another boot no hold has more time left than it had then."""
MAX_SAVE_TIME_SHARE = 0.05
"""The largest share of a core for saving, at any size of the cluster. Time in which a disk is slow
or the process is stopped does not count."""
GATHER_S = 0.02
"""Holds that change within this time are saved together."""
MAX_HOLDS_SAVE_TIME_SHARE = 0.25
"""The largest share of a core for saving holds: promises must be on disk soon."""
LAST_S = 6.0
"""The last save is retried for this long. A leader has at least as much left of its term, and a
grace period has more beside the time in which requests are drained."""
LAST_RETRY_S = 0.2

_log = structlog.get_logger(__name__)


class StateStore(Protocol):
    """A place that keeps the newest state.

    Only a master whose role lets it act calls `load` and `save`.
    """

    name: str
    """The name of the store in logs."""

    is_shared: bool
    """Whether a follower may call `load`, which then changes nothing in the store."""

    @property
    def is_new(self) -> bool:
        """Whether the last `load` found nothing, neither good nor bad."""
        ...

    @property
    def unusable_holds(self) -> Mapping[str, str]:
        """The holds by id that the last `load` could not use, and why. Their records are kept."""
        ...

    async def load(self, mode: Mode, now_s: float) -> State | HoldsMemory | None:
        """Return the kept state; only its holds where the judgement is unusable; None without
        either.

        `now_s` is Unix time. Unusable content is quarantined and logged, never deleted: the setting
        may name the wrong place. From then on no other master may use the store. Raises
        `TakenError` where another one does, `BadInputError` where the content cannot be read.
        """
        ...

    async def save(self, discovery: SavedDiscovery, mode: Mode, holds: HoldsMemory) -> float:
        """Keep all of it or nothing; return the cost in seconds of a core.

        Raises `OSError`; a `BlockingIOError` passes by itself. Raises `ValueError` for a text
        without encoding.
        """
        ...

    def age_s(self, now_s: float) -> float | None:
        """Return the seconds since the kept judgement, as of the last `load` or `save`.

        None where none is kept; 0 where the clock was set back.
        """
        ...

    def close(self) -> None:
        """Leave the store to other masters; the last call."""
        ...


@dataclass(slots=True, kw_only=True)
class StateSaver:
    """Saves the state when it changed, at most every `interval_s`.

    It takes no more than `MAX_SAVE_TIME_SHARE` of a core.
    """

    store: StateStore
    interval_s: float
    engine: Engine
    readiness: Readiness
    bookings: BookingState
    metrics: ServiceMetrics
    clock: Callable[[], float] = time.monotonic
    newest: SavedDiscovery | None = None
    """The last state that was loaded or made to be saved, also where saving failed."""
    _discovery: SavedDiscovery | None = None
    _generation: Generation | None = None
    _saved_s: float = 0.0
    _holds_saved_s: float = 0.0
    _failing: bool = False
    _is_passing: bool = False
    """Whether the last failure passes by itself."""
    _has_begun: bool = False
    _worked_s: float = 0.0
    """The cost of the last write, without time in which it was blocked."""

    def __post_init__(self) -> None:
        self.bookings.saved.required = True

    async def loaded(self, found: State | HoldsMemory) -> None:
        """Adopt what the store kept, so that new holds are saved beside it."""
        if isinstance(found, State):
            make = partial(SavedDiscovery.of, found.memory, found.saved_at_s)
            self._discovery = await asyncio.to_thread(make)
            self.newest = self._discovery
        else:
            # The holds are in a document of another kind until the first save.
            self.bookings.saved.count()

    async def run(self) -> None:
        """Save until cancelled; a write in progress is completed."""
        self._has_begun = True
        next_s = self.clock() + self.interval_s
        while True:
            await self._until(next_s)
            if self.clock() >= next_s:
                pause_s = await (self._save() if self._is_due() else self._save_old_holds())
                next_s = self.clock() + max(self.interval_s, pause_s)
            elif self.bookings.saved.changed.is_set():
                await asyncio.sleep(GATHER_S)
                await asyncio.sleep(await self._save_holds())

    async def end(self) -> None:
        """Save what is not saved yet, and leave the store. Call it when all other work has ended.

        A store that will accept the state a moment later is retried for `LAST_S`.
        """
        try:
            gives_up_s = self.clock() + LAST_S
            while self._has_begun and not await self._save_rest():
                if not self._is_passing or self.clock() >= gives_up_s:
                    _log.error("the last state is not saved", store=self.store.name)
                    return
                await asyncio.sleep(LAST_RETRY_S)
        finally:
            self.store.close()

    async def _until(self, next_s: float) -> None:
        """Return at that time, or when holds changed."""
        try:
            async with asyncio.timeout(max(0.0, next_s - self.clock())):
                await self.bookings.saved.changed.wait()
        except TimeoutError:
            return

    def _is_settled(self) -> bool:
        """Return whether all sources behind the tree have answered in this process."""
        snapshot = self.engine.snapshot
        spoken = snapshot.generation > 0 and snapshot.restored_at_s is None
        return spoken and not self.readiness.missing(snapshot, self.engine.clock())

    def _is_due(self) -> bool:
        old = self.clock() - self._saved_s >= REFRESH_S
        return self._is_settled() and (self._has_changed() or old)

    def _has_changed(self) -> bool:
        return (
            self.engine.snapshot.generation != self._generation
            or self.bookings.saved.changed.is_set()
        )

    async def _save(self) -> float:
        """Save everything; return the pause."""
        began_s = self.clock()
        await self._save_with_holds(self._new_discovery)
        self.metrics.save_seconds.set(self.clock() - began_s)
        return self._worked_s / MAX_SAVE_TIME_SHARE

    async def _save_holds(self) -> float:
        """Save the holds beside the discovery saved last, or the first one; return the pause."""
        if self._discovery is None:
            return await self._save() if self._is_settled() else self.interval_s
        if not await self._save_with_holds(self._last_discovery):
            return self.interval_s
        return self._worked_s / MAX_HOLDS_SAVE_TIME_SHARE

    async def _save_old_holds(self) -> float:
        """Save holds that were saved long ago, also while no source answers; return the pause."""
        old = self.clock() - self._holds_saved_s >= REFRESH_S
        running = any(hold.deadline_s is not None for hold in self.bookings.bookings)
        return await self._save_holds() if old and running and self._discovery else 0.0

    async def _save_rest(self) -> bool:
        """Save what can be; return whether nothing is left."""
        if self._is_settled() and self._has_changed():
            return await self._save_with_holds(self._new_discovery)
        if self.bookings.saved.changed.is_set() and self._discovery is not None:
            return await self._save_with_holds(self._last_discovery)
        return True

    async def _new_discovery(self) -> SavedDiscovery:
        """Return what is saved of discovery now, made in a thread."""
        now_s = time.time()
        memory, copied_s = await self.engine.persistent_state()
        made, packed_s = await timed_in_thread(lambda: SavedDiscovery.of(memory, now_s))
        self._worked_s = copied_s + packed_s
        return made

    async def _last_discovery(self) -> SavedDiscovery:
        if self._discovery is None:
            raise BrokenInvariantError("holds are saved beside a judgement, and there is none")
        return self._discovery

    async def _save_with_holds(self, make: Callable[[], Awaitable[SavedDiscovery]]) -> bool:
        """Save discovery with the current holds and notify those who wait for it."""
        holds = self.bookings.persistent_state()
        changes = self.bookings.saved.start_save()
        # The last save must not be overtaken by this one.
        return await uninterrupted(self._write_and_notify(make, holds, changes))

    async def _write_and_notify(
        self, make: Callable[[], Awaitable[SavedDiscovery]], holds: HoldsMemory, changes: int
    ) -> bool:
        if reason := await self._write(make, holds):
            self.bookings.saved.save_failed(reason)
        else:
            self.bookings.saved.save_succeeded(changes)
        return not reason

    async def _write(
        self, make: Callable[[], Awaitable[SavedDiscovery]], holds: HoldsMemory
    ) -> str:
        """Save; return why that failed, empty if it did not."""
        self._worked_s = 0.0
        try:
            discovery = await make()
            if discovery is not self._discovery:
                self.newest = discovery
            self._worked_s += await self.store.save(discovery, self.readiness.mode, holds)
        except (OSError, ValueError) as error:  # a full disk; a text that no encoding has
            return self._failed(error)
        if self._failing:
            _log.info("state written again", store=self.store.name)
        self._failing = False
        self._holds_saved_s = self.clock()
        if discovery is not self._discovery:
            self._discovery = discovery
            self._generation, self._saved_s = discovery.generation, self.clock()
        self.metrics.saves.labels("ok").inc()
        self.metrics.saved_at.set(discovery.saved_at_s)
        return ""

    def _failed(self, error: Exception) -> str:
        if not self._failing:
            _log.error("state not written", store=self.store.name, reason=str(error))
        self._failing = True
        self._is_passing = isinstance(error, BlockingIOError)
        self.metrics.saves.labels("failed").inc()  # last: who sees it counted finds it in the log
        return (isinstance(error, OSError) and error.strerror) or str(error) or "it failed"
