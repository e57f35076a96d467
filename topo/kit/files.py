"""Reads files within bounds, replaces them whole, and notices that they changed.

Every file that the services read comes through `read_bounded` or `asked`: only regular files, up to
a size, and never for longer than the file system gives signs of life. A mount whose server is gone
(NFS, FUSE) and a FIFO without a writer would hold a reader for ever.
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
    """Nothing has that name."""


class NotAFile(Refusal):
    """Something else than a regular file has that name."""


class OutOfFiles(Refusal):
    """The process, or the whole system, can open no file at all: this one is not at fault."""


class _Call:
    """One call that asks something of a file; `alive` is told at each sign of life."""

    def __init__(self) -> None:
        self.signs = 0

    def alive(self) -> None:
        self.signs += 1


_hanging: dict[Path, Future[Any]] = {}
"""Calls that were given up. A file is not asked again while one of it hangs: one thread each."""


def asked(path: Path, call: Callable[[Callable[[], None]], T]) -> T | Refusal:
    """The result of a call about a file, or the refusal of a file that does not answer.

    The call runs in a daemon thread and may call its argument as a sign of life; it is given up
    after `SILENCE_S` without one. What it raises is raised here.
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
    """What tells two versions of a file apart: device, inode, mtime, ctime (ns) and size.

    None where there is none, or where it was written so lately that the next write may leave the
    same. Symlinks are followed: Kubernetes swaps the `..data` of a ConfigMap, which shows as
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
    """The file's content, or why it cannot be read; never reads more than the limit.

    The refusal is an `AbsentFile` or `NotAFile` where there is nothing to be read, `OutOfFiles`
    where it is not about this file.
    """
    return asked(path, partial(_content, path, limit_bytes))


def _content(path: Path, limit_bytes: int, alive: Callable[[], None]) -> bytes | Refusal:
    try:
        # To open a device can do something: what is no file is not opened.
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
    # Not blocking: a FIFO that took the place of the file since is opened at once, and refused.
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
    """Writes a new file that only its owner can read, from its first moment on."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def replace_whole(
    path: Path, content: bytes, replaced: Callable[[os.stat_result], object] = lambda _: None
) -> None:
    """Replaces a file at once, readable by its owner only: readers see all of it or the old one.

    Returns when all of it is on disk. `replaced` is told what the new file is as soon as it has the
    name. Raises `OSError`: before that the old file stays, after it a power cut may bring it back.
    """
    handle, temporary = tempfile.mkstemp(".tmp", f".{path.name}.", path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            written = os.fstat(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    replaced(written)
    # The new name is on disk only when the directory is.
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def remove_abandoned(path: Path) -> int:
    """Removes what kills in the middle of `replace_whole` left beside a file; how many files.

    Only for who knows that nobody else replaces it now. Raises `OSError`.
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
    """A file polled for changes: `poll` answers the content when it differs from last time.

    A fingerprint costs one `stat`; content is read only when that moved, and compared, so a file
    that is touched without a change is not reported.
    """

    path: Path
    limit_bytes: int
    _seen: Fingerprint | None = None
    _last: bytes | Refusal | None = None

    def poll(self) -> bytes | Refusal | None:
        """New content, a refusal when the file became unusable, None when nothing changed."""
        found = asked(self.path, partial(self._look, self._seen))
        self._seen, content = (None, found) if isinstance(found, Refusal) else found
        if isinstance(content, OutOfFiles):
            self._seen = None  # another time it can be read, without a change of its own
        if content is None or content == self._last:
            return None
        self._last = content
        return content

    def _look(
        self, seen: Fingerprint | None, alive: Callable[[], None]
    ) -> tuple[Fingerprint | None, bytes | Refusal | None]:
        """The fingerprint, and the content where it differs; changes nothing, for it may hang."""
        now = _fingerprint(self.path)
        if now is not None and now == seen:
            return now, None
        # A swap between the two calls shows as a fingerprint that is older than the content:
        # the next poll then reads once more and finds it equal.
        return now, _content(self.path, self.limit_bytes, alive)
