"""Reads files up to a limit, replaces them whole, and notices that they changed."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from topo.model.errors import Refusal

Fingerprint = tuple[int, int, int, int]


def fingerprint(path: Path) -> Fingerprint | None:
    """What tells two versions of a file apart: device, inode, mtime (ns), size; None where absent.

    Symlinks are followed: Kubernetes swaps the `..data` of a ConfigMap, which shows as another
    inode.
    """
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size


def read_bounded(path: Path, limit_bytes: int) -> bytes | Refusal:
    """The file's content, or why it cannot be read; never reads more than the limit."""
    try:
        with path.open("rb") as file:
            content = file.read(limit_bytes + 1)
    except FileNotFoundError:
        return Refusal("the file does not exist", str(path), "create it, or correct the path")
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        return Refusal(
            f"the file cannot be read: {reason}", str(path), "make it readable for this user"
        )
    if len(content) > limit_bytes:
        return Refusal(
            f"the file is larger than {limit_bytes} bytes", str(path), "is it the right file?"
        )
    return content


def write_private(path: Path, content: bytes) -> None:
    """Writes a new file that only its owner can read, from its first moment on."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def replace_whole(path: Path, content: bytes) -> None:
    """Replaces a file at once, readable by its owner only: readers see all of it or the old one.

    Returns when the content is on disk. Raises `OSError`, and then leaves the old file.
    """
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
    # The new name is on disk only when the directory is.
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


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
        now = fingerprint(self.path)
        if now is not None and now == self._seen:
            return None
        content = read_bounded(self.path, self.limit_bytes)
        # A swap between the two calls shows as a fingerprint that is older than the content:
        # the next poll then reads once more and finds it equal.
        self._seen = now
        if content == self._last:
            return None
        self._last = content
        return content
