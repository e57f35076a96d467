"""A lock that reserves a file for one process.

flock(2): the lock belongs to the open file, so the kernel releases it when the process ends, also
after a kill. It holds between hosts if the file system supports it (NFS 4 does, unless mounted
`nolock` or `local_lock`).
"""

import errno
import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path

_MAX_OWNER_BYTES = 128


class FileLock:
    """The lock file `NAME.lock` of a file; removing it could let two processes hold the lock."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(f"{path.name}.lock")
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock; do nothing if it is held already.

        Raises `BlockingIOError`, which names the process that holds it, or another `OSError` if the
        lock file cannot be created or locked.
        """
        if self._descriptor is not None and not self._is_current(self._descriptor):
            self.release()  # its file was removed, so another process may lock a new file
        if self._descriptor is None:
            self._descriptor = self._locked()

    def release(self) -> None:
        """Release the lock; do nothing if it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.lstat(self._path))
        except OSError:
            return False

    def _locked(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _owner(descriptor)
            os.close(descriptor)
            raise BlockingIOError(errno.EAGAIN, f"{owner} has it") from None
        except BaseException:
            os.close(descriptor)
            raise
        with suppress(OSError):  # for people only: on a full disk the lock still holds
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        return descriptor


def _owner(descriptor: int) -> str:
    """Return the holder that the lock file names, such as `process 4711 on node-7`."""
    try:
        text = os.pread(descriptor, _MAX_OWNER_BYTES, 0).decode(errors="replace")
    except OSError:
        text = ""
    return text if text and text.isprintable() else "another process"
