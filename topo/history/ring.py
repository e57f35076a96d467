"""Moments of a forest, kept within bytes and an age, any of which is rebuilt in bounded work.

The row is made of segments: a whole forest, then edits, each of the forest before it. A segment
ends before its edits are many, or more bytes than a few whole forests. What is too much goes by
whole segments from the old end, so a segment is at most a quarter of the bytes that are allowed.
"""

import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, Literal

import orjson

from topo.history.edits import apply_edit, edit
from topo.history.rows import BrokenEditError
from topo.model.forest import Change, Forest
from topo.model.ids import Generation
from topo.model.rest.generation_id import GenerationId

Limit = Literal["age", "bytes"]
LIMITS: tuple[Limit, ...] = ("age", "bytes")
MOMENT_BYTES = 600
"""Bytes that a moment counts for besides its content: 430 are measured, with some reserve."""
MAX_EDITS = 128
"""Of a segment: an edit of one node among 10,000 is applied in half a millisecond."""
MAX_EDITS_SHARE = 4
"""Edits of a segment are at most so many times the bytes of its whole forest."""
SEGMENT_SHARE = 4
MAX_FOREST_BYTES = 256 << 20
"""Of one unpacked piece: 100,000 nodes are 40 MB."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When a forest was first so (Unix seconds), and which run counted it as which generation.

    `changes`: how many of each kind led to it from the moment before.
    """

    generation: Generation
    run: str
    at_s: float
    changes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Piece:
    """A moment with what rebuilds it, packed: an edit of the moment before, or all of it."""

    moment: Moment
    is_whole: bool
    content: bytes

    @property
    def held_bytes(self) -> int:
        """What it takes in memory."""
        return MOMENT_BYTES + len(self.content)


def counted(changes: Iterable[Change]) -> Mapping[str, int]:
    """Return how many changes there are of each kind."""
    return Counter(change.what for change in changes)


def piece(moment: Moment, old: Forest | None, new: Forest) -> Piece:
    """Return the piece that makes `new` of `old`, or of nothing. O(what differs), at most
    O(nodes).
    """
    return Piece(moment, old is None, _packed(edit(old or Forest(), new)))


def rebuild(pieces: Sequence[Piece], start: Forest | None = None) -> Forest:
    """Return the forest that a whole piece and the edits after it make, or edits of `start`.

    Raises `BrokenEditError` where they are none. O(nodes + edits).
    """
    forest = start or Forest()
    for each in pieces:
        forest = apply_edit(_unpacked(each.content), Forest() if each.is_whole else forest)
    return forest


def _packed(made: list[list[Any]]) -> bytes:
    """Return an edit in few bytes: lines of JSON, first the lengths of its sequences, then their
    items.

    Each line is made and read apart, so that in a thread it holds others up for as long only.
    """
    lengths = [len(sequence) for sequence in made]
    lines = (orjson.dumps(item) for sequence in made for item in sequence)
    return zlib.compress(b"\n".join((orjson.dumps(lengths), *lines)))


def _unpacked(content: bytes) -> list[list[Any]]:
    try:
        # Bounded, because the file may be anybody's: a small text can unpack to gigabytes.
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(content, MAX_FOREST_BYTES)
        if not unpacking.eof:
            raise BrokenEditError(f"more than {MAX_FOREST_BYTES} bytes, or cut short")
        lengths, *items = (orjson.loads(line) for line in text.split(b"\n"))
        stops = [0, *accumulate(map(int, lengths))]
        if stops[-1] != len(items):
            raise BrokenEditError(f"{len(items)} items, {stops[-1]} are said to be there")
        return [items[start:stop] for start, stop in pairwise(stops)]
    except (zlib.error, orjson.JSONDecodeError, TypeError) as error:
        raise BrokenEditError(f"an edit that cannot be read: {error}") from error


class Ring:
    """The moments from the oldest to the newest. `limit_bytes` counts what they hold in memory."""

    def __init__(self, limit_bytes: int, age_s: float) -> None:
        self._limit_bytes = limit_bytes
        self._age_s = age_s
        self._pieces: list[Piece] = []
        self._starts: list[int] = []
        self.held_bytes = 0
        self.dropped: dict[Limit, int] = dict.fromkeys(LIMITS, 0)
        """How many moments went for their age, and how many for their bytes."""

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All that is kept; the first is whole. O(moments)."""
        return tuple(self._pieces)

    def __len__(self) -> int:
        """Return how many moments are kept."""
        return len(self._pieces)

    @property
    def oldest(self) -> Moment | None:
        """The first moment that is kept."""
        return self._pieces[0].moment if self._pieces else None

    @property
    def newest(self) -> Moment | None:
        """The last moment that is kept."""
        return self._pieces[-1].moment if self._pieces else None

    @property
    def wants_whole(self) -> bool:
        """Whether the next piece is to be a whole forest."""
        if not self._starts:
            return True
        start = self._starts[-1]
        whole, edits = self._pieces[start], self._pieces[start + 1 :]
        of_edits = sum(each.held_bytes for each in edits)
        return (
            len(edits) >= MAX_EDITS
            or of_edits >= MAX_EDITS_SHARE * whole.held_bytes
            or of_edits + whole.held_bytes >= self._limit_bytes // SEGMENT_SHARE
        )

    def add(self, new: Piece) -> None:
        """Keep a piece after all others; what is too old or too much goes.

        Where the clock was set back no earlier moment stays in its future.
        """
        at_s = new.moment.at_s
        # The clock was set back; moments have to stay in the order of their times.
        if self._pieces and self._pieces[-1].moment.at_s > at_s:
            self._pieces = [_not_after(each, at_s) for each in self._pieces]
        if new.is_whole:
            self._starts.append(len(self._pieces))
        elif not self._pieces:
            raise BrokenEditError("the first piece is an edit of nothing")
        self._pieces.append(new)
        self.held_bytes += new.held_bytes
        # Whole segments only: an edit without the forest before it cannot be applied.
        while len(self._starts) > 1 and (limit := self._exceeded_limit(at_s)) is not None:
            self._drop_and_count(self._starts[1], limit)
        if self.held_bytes > self._limit_bytes:
            self._drop_and_count(len(self._pieces), "bytes")

    def _exceeded_limit(self, at_s: float) -> Limit | None:
        """Return the limit that the oldest segment is beyond."""
        if self._pieces[self._starts[1]].moment.at_s <= at_s - self._age_s:
            return "age"
        return "bytes" if self.held_bytes > self._limit_bytes else None

    def _drop_and_count(self, stop: int, limit: Limit) -> None:
        self.dropped[limit] += stop
        self._drop(stop)

    def clear(self) -> None:
        """Keep nothing."""
        self._drop(len(self._pieces))

    def _drop(self, stop: int) -> None:
        self.held_bytes -= sum(each.held_bytes for each in self._pieces[:stop])
        del self._pieces[:stop]
        self._starts = [start - stop for start in self._starts if start >= stop]

    def at(self, at_s: float) -> int | None:
        """Return the place of the moment that held at a time; None before the oldest. O(log)."""
        place = bisect_right(self._pieces, at_s, key=lambda each: each.moment.at_s)
        return place - 1 if place else None

    def of(self, named: GenerationId) -> int | None:
        """Return the place of the last moment up to a generation, of its run where it names one.

        None where that is not kept. O(moments).
        """
        for place in range(len(self._pieces) - 1, -1, -1):
            moment = self._pieces[place].moment
            if moment.generation <= named.number and named.is_of(moment.run):
                return place
        return None

    def moment(self, place: int) -> Moment:
        """Return the moment at a place."""
        return self._pieces[place].moment

    def pieces_for(self, place: int) -> tuple[Piece, ...]:
        """Return the pieces that rebuild the moment at a place."""
        start = self._starts[bisect_right(self._starts, place) - 1]
        return tuple(self._pieces[start : place + 1])


def _not_after(each: Piece, at_s: float) -> Piece:
    if each.moment.at_s <= at_s:
        return each
    return replace(each, moment=replace(each.moment, at_s=at_s))


def thin(pieces: Sequence[Piece], limit: int) -> list[tuple[Moment, int]]:
    """Return at most `limit` moments, each with the number and changes that it stands for.

    Each is the last one of those that it stands for, so its description is what it shows.
    """
    size = len(pieces)
    count = min(size, limit)
    stops = [size * number // count for number in range(count + 1)] if count else []
    found: list[tuple[Moment, int]] = []
    for start, stop in pairwise(stops):
        part = pieces[start:stop]
        changes: Counter[str] = Counter()
        for each in part:
            changes.update(each.moment.changes)
        found.append((replace(part[-1].moment, changes=changes), len(part)))
    return found
