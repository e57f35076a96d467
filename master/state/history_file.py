"""The kept moments on disk: a file beside the state file to which each moment is appended.

Neither judgement nor placement needs it, so it is not part of the state: a history that cannot be
read is quarantined and logged, and the state is restored without it. ConfigMaps hold 1 MiB each and
are written whole: there the history is not kept.

After a line that names the format come records: length and CRC-32 of what follows (4 bytes each,
big endian), a line of JSON about the moment, and its content. An incomplete last record is cut off.
A record is on the disk before the next is made, so a power cut costs the last one only.
"""

import os
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import orjson
import structlog
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from master.state.checks import MAX_UNIX_S
from master.state.quarantine import quarantine_path
from topo.history.ring import Moment, Piece
from topo.kit.files import AbsentFile, read_bounded, remove_abandoned, replace_whole
from topo.model.errors import Refusal
from topo.model.ids import Generation

MAX_BYTES = 1 << 30
"""Four times the largest history that may be held."""
SPARE_BYTES = 1 << 20
_FORMAT = b"topo-master-history 1\n"
_LENGTHS = struct.Struct(">II")

_log = structlog.get_logger(__name__)

Number = Annotated[int, Field(ge=0)]


@checked_dataclass(frozen=True)
class _Head:
    """The description of a record's moment; `whole`: its content is no edit."""

    generation: Number
    run: Annotated[str, Field(pattern="^[0-9a-f]{8}$")]
    at_s: Annotated[float, Field(ge=0, le=MAX_UNIX_S, allow_inf_nan=False)]
    whole: bool
    changes: Annotated[dict[Annotated[str, Field(max_length=32)], Number], Field(max_length=16)]


_HEAD = TypeAdapter(_Head)


class HistoryFile:
    """The moments of one master, in a file that only its owner can read.

    Only the master with the lock of the state file beside it uses it.
    """

    def __init__(self, state_file: Path) -> None:
        self.path = Path(os.path.realpath(state_file) + ".history")
        self._written_bytes = 0
        self._is_begun = False

    def load(self) -> Sequence[Piece]:
        """Return the kept pieces, of which the first is whole; none where they cannot be used."""
        content = read_bounded(self.path, MAX_BYTES)
        if isinstance(content, AbsentFile):
            return ()
        if isinstance(content, Refusal):
            self._set_aside(content.what)
            return ()
        pieces: list[Piece] = []
        flaw = ""
        end = 0
        try:
            for each, end in _read(content):  # noqa: B007 - how far it went is the answer
                pieces.append(each)
        except ValueError as error:
            flaw = str(error)
        if flaw:
            self._set_aside(flaw)
            self._keep_good(pieces)
            return pieces
        self._is_begun = end == len(content)  # else the next one is written behind what is whole
        self._written_bytes = len(content)
        return pieces

    def append(self, new: Piece, kept: Callable[[], Sequence[Piece]]) -> None:
        """Append a piece; rewrite all that are kept where most of the file is not."""
        pieces = kept() if not self._is_begun or self._written_bytes > SPARE_BYTES else ()
        held_bytes = sum(each.held_bytes for each in pieces)
        if not self._is_begun or self._written_bytes > SPARE_BYTES + 2 * held_bytes:
            self._replace(pieces)
            return
        record = _record(new)
        self._is_begun = False  # a half record is followed by nothing
        with os.fdopen(os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW), "wb") as file:
            file.write(record)
            file.flush()
            os.fdatasync(file.fileno())
        self._is_begun = True
        self._written_bytes += len(record)

    def _replace(self, pieces: Sequence[Piece]) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_abandoned(self.path)
        content = b"".join((_FORMAT, *map(_record, pieces)))
        replace_whole(self.path, content)
        self._is_begun, self._written_bytes = True, len(content)

    def _keep_good(self, pieces: Sequence[Piece]) -> None:
        """Keep the pieces before a flaw for the next start."""
        if not pieces:
            return
        try:
            self._replace(pieces)
        except OSError as error:
            _log.warning("history not written", why=error.strerror or str(error))

    def _set_aside(self, why: str) -> None:
        """Move the file away, never delete it; the next moment begins a new one."""
        quarantine = quarantine_path(self.path, time.time())
        try:
            self.path.rename(quarantine)
        except OSError as error:
            _log.warning("history not used, nor put aside", reason=why, why=str(error))
        else:
            _log.warning("history not used", reason=why, moved_to=str(quarantine))


def _record(each: Piece) -> bytes:
    moment = each.moment
    head = {
        "generation": moment.generation,
        "run": moment.run,
        "at_s": moment.at_s,
        "whole": each.is_whole,
        "changes": dict(moment.changes),
    }
    body = orjson.dumps(head) + b"\n" + each.content
    return _LENGTHS.pack(len(body), zlib.crc32(body)) + body


def _read(content: bytes) -> Iterator[tuple[Piece, int]]:
    """Yield the pieces, each with its end; raise `ValueError` behind the last good one.

    A record that the end of the file cuts short is left out.
    """
    if not content.startswith(_FORMAT):
        raise ValueError("it is no history of this version")
    at = len(_FORMAT)
    is_first = True
    while at + _LENGTHS.size <= len(content):
        length, checksum = _LENGTHS.unpack_from(content, at)
        start = at + _LENGTHS.size
        if start + length > len(content) and length <= MAX_BYTES:
            return
        body = content[start : start + length]
        if not length or zlib.crc32(body) != checksum:
            raise ValueError(f"the record at byte {at} is damaged")
        piece = _piece(body, at)
        if is_first and not piece.is_whole:
            raise ValueError("it begins with an edit of what it does not have")
        is_first = False
        at = start + length
        yield piece, at


def _piece(body: bytes, at: int) -> Piece:
    text, _, content = body.partition(b"\n")
    try:
        head = _HEAD.validate_json(text, strict=True)
    except ValidationError as error:
        raise ValueError(
            f"the record at byte {at} is none: {error.error_count()} faults"
        ) from error
    moment = Moment(Generation(head.generation), head.run, head.at_s, head.changes)
    return Piece(moment, head.whole, content)
