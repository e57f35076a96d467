"""Bounded reads, atomic replacement and change detection of files.

The services read every file through `read_bounded` or `call_unless_silent`: only regular files, up
to a size, and only while the file system answers. A mount whose server is gone (NFS, FUSE) and a
FIFO without a writer would block a reader for ever.
"""

import errno
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from topo.kit.threads import DAEMON_THREADS
from topo.model.errors import Refusal

T = TypeVar("T")
LOOK_S = 1.0
"""How often a file is looked at for a change: one `stat`, which costs nothing."""
SILENCE_S = 5.0
"""A disk answers within milliseconds, a busy one within a second; a dead mount never."""
RAISE_FILES = "raise the limit of open files of this process (`ulimit -n`, `LimitNOFILE=`)"
_CHUNK_BYTES = 1 << 20
_SETTLED_NS = 2_000_000_000
"""Two writes within one tick of a file system's clock (4 ms; FAT 2 s) leave the same times."""
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)

Fingerprint = tuple[int, int, int, int, int]


class AbsentFile(Refusal):
    """There is no file of that name."""


class NotAFile(Refusal):
    """The name belongs to something other than a regular file."""


class OutOfFiles(Refusal):
    """The process or the system has no file descriptor left; the file itself is not at fault."""


class _Call:
    """One call about a file, and how often it reported progress through `alive`."""

    def __init__(self) -> None:
        self.signs = 0

    def alive(self) -> None:
        self.signs += 1


_hanging: dict[Path, Future[Any]] = {}
"""Abandoned calls by path. A path is not tried again while its call hangs: one thread each."""


def call_unless_silent(path: Path, call: Callable[[Callable[[], None]], T]) -> T | Refusal:
    """Return the result of a call about a file, or a refusal if the file system does not answer.

    The call runs in a daemon thread and calls its argument after each step. It is abandoned after
    `SILENCE_S` without a step. Its exceptions are raised here.
    """
    before = _hanging.get(path)
    if before is not None and not before.done():
        return _silent(path)
    _hanging.pop(path, None)
    state, seen = _Call(), -1
    future = DAEMON_THREADS.submit(call, state.alive)
    while not future.done() and state.signs != seen:
        seen = state.signs
        wait([future], SILENCE_S)
    if not future.done():
        _hanging[path] = future
        return _silent(path)
    return future.result()


def _silent(path: Path) -> Refusal:
    what = f"the file does not answer: nothing was read in {SILENCE_S:g} s"
    return Refusal(what, str(path), "is it on a mount whose server is gone?")


def _fingerprint(path: Path) -> Fingerprint | None:
    """Return device, inode, mtime, ctime (ns) and size, which identify a version of a file.

    None if there is no file, or if it was written so recently that the next write could leave the
    same numbers. Symlinks are followed: Kubernetes swaps the `..data` of a ConfigMap, which gives
    another inode.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    times = found.st_mtime_ns, found.st_ctime_ns
    if time.time_ns() - max(times) < _SETTLED_NS:
        return None
    return found.st_dev, found.st_ino, *times, found.st_size


def read_bounded(path: Path, limit_bytes: int) -> bytes | Refusal:
    """Return the content of a file, or why it cannot be read. Reads `limit_bytes` + 1 at most.

    The refusal is an `AbsentFile` or `NotAFile` if there is nothing to read, and `OutOfFiles` if
    the cause is not this file.
    """
    return call_unless_silent(path, partial(_content, path, limit_bytes))


def _content(path: Path, limit_bytes: int, alive: Callable[[], None]) -> bytes | Refusal:
    try:
        # Opening a device can have an effect, so the type is checked before the file is opened.
        refused = _no_file(path, path.stat().st_mode)
        content = _read(path, limit_bytes, alive) if refused is None else refused
    except (FileNotFoundError, NotADirectoryError):
        return AbsentFile("the file does not exist", str(path), "create it, or correct the path")
    except (OSError, ValueError) as error:  # a path with a NUL is a ValueError
        number = getattr(error, "errno", None)
        if number in (errno.EMFILE, errno.ENFILE):
            return OutOfFiles(
                f"no file can be opened: {os.strerror(number)}", str(path), RAISE_FILES
            )
        reason = os.strerror(number) if number else str(error)
        what = f"the file cannot be read: {reason}"
        return Refusal(what, str(path), "make it readable for this user")
    if isinstance(content, bytes) and len(content) > limit_bytes:
        what = f"the file is larger than {limit_bytes} bytes"
        return Refusal(what, str(path), "is it the right file?")
    return content


def _read(path: Path, limit_bytes: int, alive: Callable[[], None]) -> bytes | Refusal:
    # Non-blocking: if a FIFO has replaced the file since the check, opening it does not wait.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        if (refused := _no_file(path, os.fstat(descriptor).st_mode)) is not None:
            return refused
        content = bytearray()
        while chunk := file.read(min(_CHUNK_BYTES, limit_bytes + 1 - len(content))):
            content += chunk
            alive()
        return bytes(content)


def _no_file(path: Path, mode: int) -> NotAFile | None:
    if stat.S_ISREG(mode):
        return None
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "no file")
    what = f"this is {kind}, and only a regular file is read"
    return NotAFile(what, str(path), "put a regular file there, or correct the path")


def write_private(path: Path, content: bytes) -> None:
    """Write a new file with mode 0600, set before the first byte is written."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def replace_whole(
    path: Path,
    content: bytes,
    replaced: Callable[[os.stat_result], object] = lambda _: None,
    *,
    mode: int = 0o600,
) -> None:
    """Replace a file atomically: readers see the old content or all of the new.

    Only this user can read it unless `mode` says otherwise. Returns when the content is on disk.
    `replaced` is called with the new file's status right after
    the rename. Raises `OSError`: before the rename the old file stays; after it, a power cut may
    bring the old file back.
    """
    handle, temporary = tempfile.mkstemp(".tmp", f".{path.name}.", path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
            written = os.fstat(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    replaced(written)
    # A rename survives a power cut only after the directory is synced.
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def remove_abandoned(path: Path) -> int:
    """Remove temporary files of interrupted `replace_whole` calls. Return how many there were.

    The caller must know that no other process is replacing the file. Raises `OSError`.
    """
    temporary = re.compile(rf"\.{re.escape(path.name)}\.[a-z0-9_]{{8}}\.tmp")  # as mkstemp names
    with os.scandir(path.parent) as entries:
        found = [
            entry.path
            for entry in entries
            if temporary.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
        ]
    for name in found:
        Path(name).unlink(missing_ok=True)
    return len(found)


@dataclass(slots=True)
class WatchedFile:
    """A file that is polled for changes.

    A poll costs one `stat`. The content is read only when the fingerprint moved, and compared, so
    touching a file without changing it is not reported.
    """

    path: Path
    limit_bytes: int
    _seen: Fingerprint | None = None
    _last: bytes | Refusal | None = None

    @property
    def written_at_s(self) -> float | None:
        """When the file was written that the last poll saw, since 1970; None if it saw none."""
        return None if self._seen is None else self._seen[2] / 1e9

    def poll(self) -> bytes | Refusal | None:
        """Return new content, a refusal if the file became unusable, None if nothing changed."""
        found = call_unless_silent(self.path, partial(self._look, self._seen))
        self._seen, content = (None, found) if isinstance(found, Refusal) else found
        if isinstance(content, OutOfFiles):
            self._seen = None  # read again at the next poll, although the file did not change
        if content is None or content == self._last:
            return None
        self._last = content
        return content

    def _look(
        self, seen: Fingerprint | None, alive: Callable[[], None]
    ) -> tuple[Fingerprint | None, bytes | Refusal | None]:
        """Return the fingerprint, and the content if the fingerprint changed.

        It has no side effects, because a call that hangs is abandoned.
        """
        now = _fingerprint(self.path)
        if now is not None and now == seen:
            return now, None
        # A swap between the two calls shows as a fingerprint that is older than the content:
        # the next poll then reads once more and finds it equal.
        return now, _content(self.path, self.limit_bytes, alive)
