"""The state file: a store on the local disk, of one master, readable by its owner only.

A file that could not be read, or that another program wrote, is never replaced: holds of running
jobs may be in it. A broken one is quarantined.
"""

import errno
import glob
import os
import stat
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import structlog

from master.state.document import SavedDiscovery, State, Unusable, decode
from master.state.quarantine import quarantine_path
from topo.discovery.modes import Mode
from topo.kit.file_lock import FileLock
from topo.kit.files import AbsentFile, read_bounded, remove_abandoned, replace_whole
from topo.kit.threads import off_loop, timed_in_thread
from topo.model.errors import BadInputError, Refusal, TakenError
from topo.placement.booking.holds import HoldsMemory

MAX_STATE_BYTES = 1 << 30

_Version = tuple[int, int, int, int]

_log = structlog.get_logger(__name__)


class StateFile:
    """Keeps the state in one JSON file that is replaced atomically; a symbolic link to it stays.

    Its calls block; `StateFileStore` makes them in threads.
    """

    def __init__(
        self, path: Path, setting: str = "--state-file", limit_bytes: int = MAX_STATE_BYTES
    ) -> None:
        self.name = str(path)
        self.is_new = False
        self.unusable_holds: Mapping[str, str] = {}
        """See `StateStore`."""
        self._setting = setting
        self._limit_bytes = limit_bytes
        self._path = Path(os.path.realpath(path))
        self._lock = FileLock(self._path)
        self._known: _Version | None = None
        """The version that this master last read or wrote; None where there was no file."""
        self._saved_at_s: float | None = None

    def load(self, mode: Mode, now_s: float) -> State | HoldsMemory | None:
        """Implement `StateStore`; an unusable file is renamed to `NAME.<Unix time>.unusable`."""
        self._take()
        self._known = _read_version(self._path)
        content = self._content()
        if content is None:
            return None
        self._warn_of_others()
        found: State | HoldsMemory | Unusable | None = decode(content, mode)
        self.unusable_holds = {}
        if isinstance(found, Unusable):
            self._set_aside(found, content, now_s)
            self.unusable_holds = dict(found.holds)
            found = found.rest
        if isinstance(found, State):
            if found.saved_at_s > now_s:
                _log.warning("state file is from the future; is the clock right?", file=self.name)
            self._saved_at_s = found.saved_at_s
        return found

    def save(self, content: bytes, discovery: SavedDiscovery) -> None:
        """Write the whole document or nothing; create the directory where it is missing."""
        if len(content) > self._limit_bytes:
            what = f"{len(content)} bytes are more than the {self._limit_bytes} that are read again"
            raise OSError(errno.EFBIG, what)
        self._acquire()
        now = _read_version(self._path)
        if now is not None and now != self._known:
            what = "somebody else changed it: restart the master to take it up, or move it away"
            raise OSError(errno.ESTALE, what)
        replace_whole(self._path, content, self._know)
        self._saved_at_s = discovery.saved_at_s

    def age_s(self, now_s: float) -> float | None:
        """See `StateStore`."""
        return None if self._saved_at_s is None else max(0.0, now_s - self._saved_at_s)

    def close(self) -> None:
        """See `StateStore`."""
        self._lock.release()

    def _know(self, written: os.stat_result) -> None:
        self._known = _version_of(written)

    def _take(self) -> None:
        """Lock the file and remove what a kill left; log where that fails.

        Where the lock file cannot be made nothing can be saved either, so nothing can be lost.
        """
        try:
            self._acquire()
            removed = remove_abandoned(self._path)
        except BlockingIOError as error:
            what = f"another master keeps its state there: {error.strerror}"
            fix = f"stop it, or give each a {self._setting} of its own"
            raise TakenError(self._refusal(what, fix)) from error
        except OSError as error:
            file, why = error.filename or self.name, error.strerror or str(error)
            _log.error("state file cannot be written; no hold is given", file=file, why=why)
        else:
            if removed:
                _log.info("what a kill left of the state file was removed", files=removed)

    def _acquire(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock.acquire()

    def _content(self) -> bytes | None:
        """Return the file's bytes, None where there is no file. Raises
        `BadInputError` otherwise.
        """
        content = read_bounded(self._path, self._limit_bytes)
        self.is_new = isinstance(content, AbsentFile)
        if isinstance(content, bytes):
            return content
        if not self.is_new:
            what = f"the state, in which holds may be, cannot be read: {content.what}"
            fix = f"make it a file that user {os.geteuid()} can read, or name another one"
            raise self._refused(what, fix)
        return None

    def _refused(self, what: str, fix: str) -> BadInputError:
        return BadInputError(self._refusal(what, fix))

    def _refusal(self, what: str, fix: str) -> Refusal:
        return Refusal(what, f"{self._setting} {self.name}", fix)

    def _warn_of_others(self) -> None:
        """Log which users could read or change the file; the next write makes it private."""
        found, folder = self._path.stat(), self._path.parent
        if stat.S_IMODE(found.st_mode) & 0o077:
            fix = f"chmod 600 {self.name}"
            _log.warning("others can read or change the state file", file=self.name, fix=fix)
        if found.st_uid != os.geteuid():
            fix = f"chown {os.geteuid()} {self.name}"
            _log.warning("the state file is another user's", owner=found.st_uid, fix=fix)
        if folder.stat().st_mode & 0o022:
            fix = f"chmod go-w {folder}"
            _log.warning("others can replace the state file", directory=str(folder), fix=fix)

    def _set_aside(self, found: Unusable, content: bytes, now_s: float) -> None:
        """Keep the unusable file under another name. Raises `BadInputError` where that fails."""
        pattern = f"{glob.escape(self._path.name)}.*.unusable"
        earlier = sorted(self._path.parent.glob(pattern))
        quarantine = next((path for path in earlier if _has(path, content)), None)
        try:
            self._lock.acquire()
            if found.rest is None:
                quarantine = quarantine_path(self._path, now_s)
                self._path.replace(quarantine)
                self._known = None
            elif quarantine is None:
                # A master that ends before its first write finds the holds again.
                quarantine = quarantine_path(self._path, now_s)
                replace_whole(quarantine, content)
        except OSError as error:
            why = error.strerror or str(error)
            what = f"the state cannot be used ({found.reason}), nor put aside: {why}"
            raise self._refused(what, f"mend that, or move {self.name} away") from error
        moved = {"moved_to": str(quarantine), "put_aside_before": len(earlier)}
        what = "state file not used" if found.rest is None else "a part of the state file not used"
        _log.warning(what, reason=found.reason, **moved)


def _read_version(path: Path) -> _Version | None:
    """Return what identifies this version of the file, None where there is none."""
    try:
        return _version_of(path.stat())
    except OSError:
        return None


def _version_of(found: os.stat_result) -> _Version:
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _has(path: Path, content: bytes) -> bool:
    """Return whether a file has these bytes."""
    try:
        same_size = path.is_file() and path.stat().st_size == len(content)
    except OSError:
        return False
    return same_size and read_bounded(path, len(content)) == content


class StateFileStore:
    """A state file as a `StateStore`."""

    is_shared = False

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._file = StateFile(path)

    @property
    def is_new(self) -> bool:
        """See `StateStore`."""
        return self._file.is_new

    @property
    def unusable_holds(self) -> Mapping[str, str]:
        """See `StateStore`."""
        return self._file.unusable_holds

    async def load(self, mode: Mode, now_s: float) -> State | HoldsMemory | None:
        """See `StateStore`."""
        return await off_loop(partial(self._file.load, mode, now_s))

    async def save(self, discovery: SavedDiscovery, mode: Mode, holds: HoldsMemory) -> float:
        """Implement `StateStore`; the cost is processor time, without waits for the disk."""

        def write() -> None:
            self._file.save(discovery.with_holds(mode, holds), discovery)

        _, cost_s = await timed_in_thread(write)
        return cost_s

    def age_s(self, now_s: float) -> float | None:
        """See `StateStore`."""
        return self._file.age_s(now_s)

    def close(self) -> None:
        """See `StateStore`."""
        self._file.close()
