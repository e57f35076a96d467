"""The state file: what a restart needs to answer at once, and how old that is."""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import structlog
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from master.metrics import ServiceMetrics
from topo.discovery.memory import FORMAT, Memory
from topo.discovery.modes import Mode
from topo.kit.files import read_bounded
from topo.model.errors import Refusal
from topo.model.ids import Generation

MAX_STATE_BYTES = 1 << 30
REFRESH_S = 30.0
"""An unchanged state is written again this often, so that its age says when it was last true."""
DUTY = 0.05
"""The share of time that writing may take at most, at any size of the cluster."""

_log = structlog.get_logger(__name__)


@checked_dataclass(frozen=True)
class StateFile:
    """The file's content: whose state this is, when it was written (Unix time), the state."""

    kind: Literal["topo-master-state"]
    saved_at_s: Annotated[float, Field(ge=0)]
    mode: Mode
    memory: Memory


_STATE = TypeAdapter(StateFile)


@dataclass(frozen=True, slots=True)
class Restored:
    """A state taken from the file, `age_s` seconds old by the wall clock."""

    memory: Memory
    age_s: float


def load(path: Path, mode: Mode, now_s: float) -> Restored | None:
    """The kept state; None where there is none. `now_s` is Unix time.

    A file that is broken, of another mode or of another format is moved aside and said, never
    deleted: somebody may have pointed us at the wrong file.
    """
    content = read_bounded(path, MAX_STATE_BYTES)
    if isinstance(content, Refusal):
        if path.exists():
            _log.warning("state file not used", reason=str(content))
        return None
    kept = _understood(content, mode)
    if isinstance(kept, str):
        aside = path.with_name(f"{path.name}.{int(now_s)}.unusable")
        path.replace(aside)
        _log.warning("state file not used", reason=kept, moved_to=str(aside))
        return None
    if kept.saved_at_s > now_s:
        _log.warning("state file is from the future; is the clock right?", file=str(path))
    return Restored(kept.memory, max(0.0, now_s - kept.saved_at_s))


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
    return kept


def save(path: Path, state: StateFile) -> int:
    """Writes the file whole or not at all, readable by its owner only; its size in bytes."""
    content = _STATE.dump_json(state)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return len(content)


@dataclass(slots=True, kw_only=True)
class Keeper:
    """Writes the state when it changed, at most every `interval_s` and never more than `DUTY`.

    Nothing is written before `settled` says that the sources behind the tree have spoken in this
    process: until then the file that is there knows more, and its age is the true one.
    """

    path: Path
    mode: Mode
    interval_s: float
    memory: Callable[[], Memory]
    generation: Callable[[], Generation]
    settled: Callable[[], bool]
    metrics: ServiceMetrics
    _saved: Generation | None = None
    _saved_s: float = 0.0
    _failing: bool = False

    async def run(self) -> None:
        """Runs until cancelled, then writes once more."""
        pause_s = self.interval_s
        try:
            while True:
                await asyncio.sleep(pause_s)
                if self._due():
                    took_s = await self._save_in_thread()
                    pause_s = max(self.interval_s, took_s / DUTY)
        finally:
            if self.settled() and self._saved != self.generation():
                self._write(self._state())

    def _due(self) -> bool:
        if not self.settled():
            return False
        changed = self.generation() != self._saved
        return changed or time.monotonic() - self._saved_s >= REFRESH_S

    async def _save_in_thread(self) -> float:
        began_s = time.monotonic()
        state = self._state()
        await asyncio.to_thread(self._write, state)
        took_s = time.monotonic() - began_s
        self.metrics.save_seconds.set(took_s)
        return took_s

    def _state(self) -> StateFile:
        return StateFile("topo-master-state", time.time(), self.mode, self.memory())

    def _write(self, state: StateFile) -> None:
        try:
            save(self.path, state)
        except (OSError, ValueError) as error:  # a full disk; a text that no encoding has
            self.metrics.saves.labels("failed").inc()
            if not self._failing:
                _log.error("state file not written", file=str(self.path), reason=str(error))
            self._failing = True
            return
        if self._failing:
            _log.info("state file written again", file=str(self.path))
        self._failing = False
        self._saved, self._saved_s = state.memory.generation, time.monotonic()
        self.metrics.saves.labels("ok").inc()
        self.metrics.saved_at.set(state.saved_at_s)
