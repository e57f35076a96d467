"""The state file: what a restart needs to answer at once, and how old that is."""

import asyncio
import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import structlog
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from master.booking.ledger import Ledger
from master.metrics import ServiceMetrics
from topo.discovery.memory import FORMAT, Memory
from topo.discovery.modes import Mode
from topo.kit.files import read_bounded
from topo.model.errors import BrokenInvariantError, Refusal
from topo.model.ids import Generation
from topo.placement.booking.holds import FORMAT as HOLDS_FORMAT
from topo.placement.booking.holds import HoldsMemory

MAX_STATE_BYTES = 1 << 30
REFRESH_S = 30.0
"""An unchanged state is written again this often, so that its age says when it was last true."""
DUTY = 0.05
"""The share of time that writing may take at most, at any size of the cluster."""

GATHER_S = 0.02
"""Holds that change within this are written together."""
HOLDS_DUTY = 0.25
"""The share of time that writing holds may take: what was promised has to be on disk soon."""

_log = structlog.get_logger(__name__)


def _with_sound_times(memory: HoldsMemory) -> HoldsMemory:
    """A hold whose end never comes, or that JSON cannot say, would be kept for ever."""
    for hold in memory.holds:
        for name in ("created_s", "deadline_s"):
            value = getattr(hold, name)
            if value is not None and not 0 <= value < math.inf:
                message = f"{name} of hold {hold.id[:64]!r} is {value}, no Unix time"
                raise ValueError(message)
    return memory


_KeptHolds = Annotated[HoldsMemory, AfterValidator(_with_sound_times)]


@checked_dataclass(frozen=True)
class StateFile:
    """The file's content: whose state this is, when it was written (Unix time), the state."""

    kind: Literal["topo-master-state"]
    saved_at_s: Annotated[float, Field(ge=0)]
    mode: Mode
    memory: Memory
    holds: _KeptHolds | None = None
    """Absent in files of earlier versions. They are as of the file's last write, which may be
    later than `saved_at_s`: holds are written at once, the judgement every few seconds."""


_STATE = TypeAdapter(StateFile)
_MEMORY = TypeAdapter(Memory)
_HOLDS: TypeAdapter[HoldsMemory] = TypeAdapter(_KeptHolds)


@dataclass(frozen=True, slots=True)
class Restored:
    """A state taken from the file; the judgement is `age_s` seconds old by the wall clock.

    None where only the holds are good here: `memory`.
    """

    memory: Memory | None
    age_s: float
    saved_at_s: float
    holds: HoldsMemory | None


def load(path: Path, mode: Mode, now_s: float) -> Restored | None:
    """The kept state; None where there is none. `now_s` is Unix time.

    A file that is broken, of another mode or of another format is moved aside and said, never
    deleted: somebody may have pointed us at the wrong file. Holds that can be read are taken up
    all the same: jobs run on them, whatever became of the judgement.
    """
    content = read_bounded(path, MAX_STATE_BYTES)
    if isinstance(content, Refusal):
        if path.exists():
            _log.warning("state file not used", reason=str(content))
        return None
    kept = _understood(content, mode)
    if isinstance(kept, str):
        aside = path.with_name(f"{path.name}.{int(now_s)}.unusable")
        holds = _holds_in(content)
        if holds is None:
            path.replace(aside)
        else:  # who ends before the next write finds them again
            shutil.copy2(path, aside)
        _log.warning("state file not used", reason=kept, moved_to=str(aside))
        return None if holds is None else Restored(None, 0.0, now_s, holds)
    if kept.saved_at_s > now_s:
        _log.warning("state file is from the future; is the clock right?", file=str(path))
    age_s = max(0.0, now_s - kept.saved_at_s)
    return Restored(kept.memory, age_s, kept.saved_at_s, kept.holds)


def _understood(content: bytes, mode: Mode) -> StateFile | str:
    try:
        kept = _STATE.validate_json(content)
    except ValidationError as error:
        finding = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in finding["loc"]) or "the document"
        return f"not a state file of this product: {finding['msg']} (at {where})"
    if kept.mode is not mode:
        return f"it was written in mode {kept.mode}, this is mode {mode}"
    if kept.memory.format != FORMAT:
        return f"it has format {kept.memory.format}, this version reads {FORMAT}"
    if kept.holds is not None and kept.holds.format != HOLDS_FORMAT:
        return f"its holds have format {kept.holds.format}, this version reads {HOLDS_FORMAT}"
    return kept


def _holds_in(content: bytes) -> HoldsMemory | None:
    """The holds of a state whose judgement is of no use here; None where there are none."""
    try:
        document = json.loads(content)
        if document["kind"] != "topo-master-state":
            return None
        holds = _HOLDS.validate_json(json.dumps(document["holds"]))
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return holds if holds.format == HOLDS_FORMAT and holds.holds else None


def save(path: Path, state: StateFile) -> int:
    """Writes the file whole or not at all, readable by its owner only; its size in bytes."""
    return _put(path, _STATE.dump_json(state))


def _put(path: Path, content: bytes) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
        _flush_directory(path.parent)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return len(content)


def _flush_directory(path: Path) -> None:
    """The new name of a file is on disk only when its directory is."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass(frozen=True, slots=True)
class _Judgement:
    """The bulk of the file as JSON, made once: holds are written beside it many times."""

    saved_at_s: float
    generation: Generation
    text: bytes

    @classmethod
    def of(cls, memory: Memory, saved_at_s: float) -> "_Judgement":
        return cls(saved_at_s, memory.generation, _MEMORY.dump_json(memory))

    def with_holds(self, mode: Mode, holds: HoldsMemory) -> bytes:
        """The file's content; the keys are those of `StateFile`."""
        head = {"kind": "topo-master-state", "saved_at_s": self.saved_at_s, "mode": mode.value}
        parts = (json.dumps(head).encode()[:-1], self.text, _HOLDS.dump_json(holds))
        return b'%s,"memory":%s,"holds":%s}' % parts


@dataclass(slots=True, kw_only=True)
class Keeper:
    """Writes the state when it changed, at most every `interval_s` and never more than `DUTY`.

    Nothing is judged anew before `settled` says that the sources behind the tree have spoken in
    this process: until then the file that is there knows more, and its age is the true one. Holds
    are written as soon as they change, beside the judgement that was written last.
    """

    path: Path
    mode: Mode
    interval_s: float
    memory: Callable[[], Memory]
    generation: Callable[[], Generation]
    settled: Callable[[], bool]
    holds: Callable[[], HoldsMemory]
    ledger: Ledger
    metrics: ServiceMetrics
    _judgement: _Judgement | None = None
    _saved: Generation | None = None
    _saved_s: float = 0.0
    _failing: bool = False

    def found(self, kept: Restored) -> None:
        """Takes up what the file holds, to write new holds beside it."""
        if kept.memory is None:
            self.ledger.note()  # they are in a file of another kind until this one is written
            return
        self._judgement = _Judgement.of(kept.memory, kept.saved_at_s)

    async def run(self) -> None:
        """Runs until cancelled, then writes once more."""
        next_s = time.monotonic() + self.interval_s
        try:
            while True:
                await self._until(next_s)
                if time.monotonic() >= next_s:
                    pause_s = await self._save() if self._due() else 0.0
                    next_s = time.monotonic() + max(self.interval_s, pause_s)
                elif self.ledger.changed.is_set():
                    await asyncio.sleep(GATHER_S)
                    await asyncio.sleep(await self._save_soon())
        finally:
            self._save_last()

    async def _until(self, next_s: float) -> None:
        """Returns at that time, or when holds changed."""
        try:
            async with asyncio.timeout(max(0.0, next_s - time.monotonic())):
                await self.ledger.changed.wait()
        except TimeoutError:
            return

    def _due(self) -> bool:
        if not self.settled():
            return False
        changed = self.generation() != self._saved or self.ledger.changed.is_set()
        return changed or time.monotonic() - self._saved_s >= REFRESH_S

    async def _save(self) -> float:
        """Writes everything; how long to rest."""
        began_s = time.monotonic()
        made = partial(_Judgement.of, self.memory(), time.time())
        await self._written(made)
        took_s = time.monotonic() - began_s
        self.metrics.save_seconds.set(took_s)
        return took_s / DUTY

    async def _save_soon(self) -> float:
        """Writes the holds beside the last judgement, or beside the first; how long to rest."""
        if self._judgement is None:
            return await self._save() if self.settled() else self.interval_s
        began_s = time.monotonic()
        if not await self._written(self._last):
            return self.interval_s
        return (time.monotonic() - began_s) / HOLDS_DUTY

    def _save_last(self) -> None:
        changed = self.ledger.changed.is_set()
        if self.settled() and (self._saved != self.generation() or changed):
            self._write(partial(_Judgement.of, self.memory(), time.time()), self.holds())
        elif changed and self._judgement is not None:
            self._write(self._last, self.holds())

    def _last(self) -> _Judgement:
        if self._judgement is None:
            raise BrokenInvariantError("holds are written beside a judgement, and there is none")
        return self._judgement

    async def _written(self, made: Callable[[], _Judgement]) -> bool:
        """Writes what is made, with the holds as they are now; those who wait for it are told."""
        holds = self.holds()
        changes = self.ledger.begin()
        reason = await asyncio.to_thread(self._write, made, holds)
        if reason:
            self.ledger.failed(reason)
        else:
            self.ledger.written(changes)
        return not reason

    def _write(self, made: Callable[[], _Judgement], holds: HoldsMemory) -> str:
        """Why it could not be written; empty if it was."""
        try:
            judgement = made()
            _put(self.path, judgement.with_holds(self.mode, holds))
        except (OSError, ValueError) as error:  # a full disk; a text that no encoding has
            return self._failed(error)
        if self._failing:
            _log.info("state file written again", file=str(self.path))
        self._failing = False
        if judgement is not self._judgement:
            self._judgement = judgement
            self._saved, self._saved_s = judgement.generation, time.monotonic()
        self.metrics.saves.labels("ok").inc()
        self.metrics.saved_at.set(judgement.saved_at_s)
        return ""

    def _failed(self, error: Exception) -> str:
        self.metrics.saves.labels("failed").inc()
        if not self._failing:
            _log.error("state file not written", file=str(self.path), reason=str(error))
        self._failing = True
        return (isinstance(error, OSError) and error.strerror) or str(error) or "it failed"
