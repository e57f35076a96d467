"""Server-sent events from the bytes of a stream. Format: WHATWG HTML, section 9.2.6."""

from collections.abc import AsyncIterable, AsyncIterator
from typing import NamedTuple

MAX_DATA_CHARS = 64 << 20
"""A generation in which all of 100,000 nodes changed; more is no answer of a topo-master."""


class ServerEvent(NamedTuple):
    """One event: its type, the id to resume from, its data."""

    event: str
    id: str
    data: str


async def events(chunks: AsyncIterable[bytes]) -> AsyncIterator[ServerEvent]:
    """Yield the events of a stream; raise `ValueError` for one of more than `MAX_DATA_CHARS`."""
    kind, event_id, data, size = "", "", "", 0
    async for line in _lines(chunks):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            size += len(value)
            _check(size)
            data += value + "\n"
        elif name == "event":
            kind = value
        elif name == "id":
            event_id = value
        elif not line:
            if text := data.removesuffix("\n"):
                yield ServerEvent(kind or "message", event_id, text)
            kind, data, size = "", "", 0


async def _lines(chunks: AsyncIterable[bytes]) -> AsyncIterator[str]:
    pending = bytearray()
    async for chunk in chunks:
        pending += chunk
        _check(len(pending))
        if b"\n" in chunk:
            *lines, pending = pending.split(b"\n")
            for line in lines:
                yield line.rstrip(b"\r").decode("utf-8", "replace")


def _check(size: int) -> None:
    if size > MAX_DATA_CHARS:
        raise ValueError(f"an event of more than {MAX_DATA_CHARS} characters")
