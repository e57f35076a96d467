"""`--booking-log`: what happened to bookings, on disk, for `topo sim replay`."""

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import structlog

from topo.kit.file_lock import FileLock
from topo.kit.files import remove_abandoned, replace_whole
from topo.placement.booking.log import Entry, LogHeader, line_of

FLUSH_S = 0.25
"""How much of the last that happened a kill may lose."""
RETRY_S = 5.0
"""Rest after a write that failed: the next begins with all hosts and bookings."""
MAX_BYTES = 64 << 20
"""Of the file and of the one before together: it is begun anew at half of that."""

_log = structlog.get_logger(__name__)


class BookingLog:
    """Writes entries in a thread, in their order.

    A file begins with the state at that time, so each file can be replayed by itself. A full file,
    or that of an earlier process, is renamed to FILE.1 and replaces the one before. A file lock
    keeps a second process from writing the same file.
    """

    def __init__(
        self, path: Path, header: Callable[[], LogHeader], max_bytes: int = MAX_BYTES
    ) -> None:
        self._path, self._header, self._limit = path, header, max_bytes // 2
        self._entries: list[Entry] = []
        self._bytes = 0
        self._failure = ""
        self._lock = FileLock(path)
        self._writing = threading.Lock()

    def record(self, entry: Entry) -> None:
        """Queue an entry. To be called on the event loop."""
        self._entries.append(entry)

    async def run(self) -> None:
        """Write until cancelled, then write what is left."""
        try:
            while True:
                await self.flush()
                await asyncio.sleep(RETRY_S if self._failure else FLUSH_S)
        finally:
            entries, anew = self._taken()
            self._write(entries, anew=anew)
            self._lock.release()

    async def flush(self) -> None:
        """Write all queued entries; a failure is logged once."""
        entries, anew = self._taken()
        writing = asyncio.ensure_future(asyncio.to_thread(self._write, entries, anew=anew))
        try:
            await asyncio.shield(writing)
        finally:
            await asyncio.wait({writing})  # the last entries must not be overtaken by these

    def _taken(self) -> tuple[list[Entry], bool]:
        """Return the entries to write, and whether to begin a new file with the state now."""
        anew = not 0 < self._bytes < self._limit
        entries, self._entries = self._entries, []
        return ([self._header()] if anew else entries), anew

    def _write(self, entries: list[Entry], *, anew: bool) -> None:
        """Write entries. After a failure a new file is begun, so that no file has a gap."""
        with self._writing:  # a write that was under way when the loop ended
            try:
                text = b"".join(map(line_of, entries))
                if anew:
                    self._begin(text)
                else:
                    self._append(text)
            except (OSError, ValueError) as error:  # a full disk; a text that no encoding has
                self._bytes = 0
                self._say((isinstance(error, OSError) and error.strerror) or str(error))
            else:
                self._bytes = len(text) + (0 if anew else self._bytes)
                self._say("")

    def _begin(self, text: bytes) -> None:
        """Replace the file by a new one once that is complete: a full disk loses neither."""
        if self._path.exists() and not self._path.is_file():  # a directory, a device: not ours
            raise OSError(errno.EEXIST, "it is no regular file")
        self._lock.acquire()
        new = self._path.with_name(f"{self._path.name}.new")
        remove_abandoned(new)
        replace_whole(new, text)
        if self._path.exists():
            self._path.replace(f"{self._path}.1")
        new.replace(self._path)

    def _append(self, text: bytes) -> None:
        """Append to the file of this process; raise `OSError` if another program changed it."""
        with self._path.open("r+b") as file:
            if file.seek(0, os.SEEK_END) != self._bytes:
                raise OSError(errno.ESTALE, "somebody else changed it")
            file.write(text)

    def _say(self, failure: str) -> None:
        if failure and failure != self._failure:
            _log.warning("booking log not written", file=str(self._path), reason=failure)
        self._failure = failure
