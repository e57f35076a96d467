"""A small HTTP/1.1 client on a kept connection: cheap enough to be a thousand workers at once.

One request at a time per connection, answers with a Content-Length or without a body (RFC 9112
section 6.3), which is all that the services under measurement send here.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import cast

import uvloop

from bench.scale import CannotRunError

_END = b"\r\n\r\n"
_BODILESS = (204, 304)
_READY_S = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: its status, its head as sent, its body as sent, its size on the wire in bytes."""

    status: int
    head: bytes
    body: bytes

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return len(self.head) + len(self.body)

    def header(self, name: str) -> str | None:
        """The value of a header, None where it is not there."""
        for line in self.head.split(b"\r\n")[1:]:
            key, _, value = line.partition(b":")
            if key.strip().lower() == name.lower().encode():
                return value.strip().decode()
        return None


class Connection(asyncio.Protocol):
    """A connection that stays open; `ConnectionError` from `ask` when it did not."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Answer] | None = None
        self._parts: list[bytes] = []
        self._head = b""
        self._status = 0
        self._missing = -1

    @classmethod
    async def open(cls, host: str, port: int) -> "Connection":
        """A connection to that port."""
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(cls, host, port)
        return protocol

    async def ask(self, request: bytes) -> Answer:
        """The answer to one request, given as its bytes."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the connection is closed")
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting = waiting
        self._transport.write(request)
        return await waiting

    def close(self) -> None:
        """Ends the connection."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(exc or ConnectionResetError("closed by the server"))

    def data_received(self, data: bytes) -> None:
        """Called by the loop with whatever has come."""
        self._parts.append(data)
        if self._missing < 0:
            self._read_head()
        else:
            self._missing -= len(data)
        if self._missing == 0:
            self._finish()

    def _read_head(self) -> None:
        text = b"".join(self._parts)
        head, end, body = text.partition(_END)
        if not end:
            return
        self._head, self._parts = head + end, [body]
        self._status = int(head[9:12])
        try:
            length = 0 if self._status in _BODILESS else _content_length(head)
        except ValueError:
            self.connection_lost(ConnectionError(f"an answer without a Content-Length: {head!r}"))
            return
        self._missing = length - len(body)

    def _finish(self) -> None:
        answer = Answer(self._status, self._head, b"".join(self._parts))
        self._parts, self._missing = [], -1
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(answer)


def _content_length(head: bytes) -> int:
    lowered = head.lower()
    at = lowered.index(b"\r\ncontent-length:") + len(b"\r\ncontent-length:")
    return int(lowered[at:].partition(b"\r\n")[0])


def get(path: str, **headers: str) -> bytes:
    """A GET as bytes; header names with underscores for dashes."""
    named = {"Host": "bench", **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items())]
    return "\r\n".join([*lines, "", ""]).encode()


async def once_ready(connection: Connection, request: bytes) -> Answer:
    """The first answer of status 200; a master that is not ready yet is asked again."""
    until_s = time.monotonic() + _READY_S
    while (answer := await connection.ask(request)).status != 200:
        if time.monotonic() > until_s:
            raise CannotRunError(f"no good answer: {answer.body.decode('utf-8', 'replace')[:200]}")
        await asyncio.sleep(0.1)
    return answer


def on_uvloop() -> asyncio.Runner:
    """A runner on the loop that the services use too."""
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)
