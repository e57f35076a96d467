"""A copy on the own disk of what this master shows, for reads while no leader can be reached.

That is after a restart while the API server is away: the kept state cannot be read, and no leader
is known. It is the document of the state file, with its checks and its lock. A leader copies what
it saves in the cluster, also where that fails; a follower what the leader sent. No master acts by
it: a new leader restores what the cluster keeps.
"""

import asyncio
import time
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from pathlib import Path

from master.file_warnings import FileWarnings
from master.replicas.follower import Follower, Replicated
from master.role import Replica
from master.state.document import SavedDiscovery, State
from master.state.saving import MAX_SAVE_TIME_SHARE, REFRESH_S, StateSaver
from master.state.state_file import StateFile
from topo.kit.threads import off_loop, timed_in_thread, uninterrupted
from topo.model.conditions.master import MasterCondition
from topo.model.errors import BadInputError
from topo.placement.booking.holds import HoldsMemory

MAX_BYTES = 96 << 20
"""100,000 nodes are 70 MB. While it is replaced there are two of it, and the chart's volume has
room for both: a pod that outgrows its volume is evicted."""


@dataclass(eq=False)
class StateCopy:
    """The copy in one file of what `saver` keeps in the cluster."""

    path: Path
    saver: StateSaver
    _: KW_ONLY
    follower: Follower
    replica: Replica
    warnings: FileWarnings
    _told: Replicated | None = None
    _followed: SavedDiscovery | None = None
    """The discovery state of `_told`."""
    _copied: tuple[SavedDiscovery, int] | None = None
    """The last copy: its discovery, and how many changes of holds were in it."""
    _copied_s: float = 0.0
    _worked_s: float = 0.0

    def __post_init__(self) -> None:
        self._file = StateFile(self.path, "--state-file", MAX_BYTES)
        self._mode = self.saver.readiness.mode
        self._clock = self.saver.clock

    async def load(self) -> State | None:
        """Return the copy of an earlier process, None where it cannot be used."""
        try:
            found = await off_loop(partial(self._file.load, self._mode, time.time()))
        except BadInputError as error:
            self._tell(error.refusal.what)
            return None
        return found if isinstance(found, State) else None

    async def run(self) -> None:
        """Copy what is new until cancelled, as often as the saver may save."""
        while True:
            rest_s = self._worked_s / MAX_SAVE_TIME_SHARE
            await asyncio.sleep(max(self.saver.interval_s, rest_s))
            await self._copy()

    async def close(self) -> None:
        """Copy what the saver saved last. Call it when all other work has ended."""
        await self._copy()
        self._file.close()

    async def _copy(self) -> None:
        discovery = self.saver.newest if self.replica.is_fed else await self._leader_discovery()
        changes = self.saver.bookings.saved.changes
        if discovery is None or not self._is_news(discovery, changes):
            return
        holds = self.saver.bookings.persistent_state()
        writing = timed_in_thread(partial(self._write, discovery, holds))
        try:  # the last copy must not be overtaken by this one
            _, self._worked_s = await uninterrupted(writing)
        except (OSError, ValueError) as error:  # a full disk; a text that no encoding has
            self._tell((isinstance(error, OSError) and error.strerror) or str(error))
            return
        self._copied, self._copied_s = (discovery, changes), self._clock()
        self.warnings.clear(MasterCondition.STATE_COPY_FILE)

    def _write(self, discovery: SavedDiscovery, holds: HoldsMemory) -> None:
        self._file.save(discovery.with_holds(self._mode, holds), discovery)

    def _is_news(self, discovery: SavedDiscovery, changes: int) -> bool:
        """Return whether it differs from the copy, or is known to hold since."""
        if self._copied is None:
            return True
        copied, copied_changes = self._copied
        if discovery.text is not copied.text or changes != copied_changes:
            return True
        is_old = self._clock() - self._copied_s >= REFRESH_S
        return is_old and (self.follower.heard_s or 0.0) > self._copied_s

    async def _leader_discovery(self) -> SavedDiscovery | None:
        """Return the leader's discovery state, with the time as of which it is known to hold."""
        told, age_s = self.follower.newest, self.follower.age_s
        if told is None or age_s is None:
            return None
        known_at_s = time.time() - age_s
        if self._followed is None or self._told is not told:
            make = partial(SavedDiscovery.of, told.state.memory, known_at_s)
            self._told, self._followed = told, await asyncio.to_thread(make)
        return replace(self._followed, saved_at_s=known_at_s)

    def _tell(self, what: str) -> None:
        text = f"what is shown cannot be copied or taken up from its copy: {what}"
        code = MasterCondition.STATE_COPY_FILE
        self.warnings.warn(code, text, code.step, where=self._file.name)
