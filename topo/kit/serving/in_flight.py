"""A shared memory budget for answers that their readers have not read yet.

A client that reads nothing is a cheap attack: its answer stays in memory. So a large body is
written in pieces, and each piece waits until the previous one was read. Every body that is being
sent counts once, however many clients read it; the bytes in the transports count too. Beyond the
budget the connection of the slowest reader is closed, as is every reader that does not read a piece
within `TAKEN_WITHIN_S`.
"""

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

PIECE_BYTES = 64 * 1024
"""Size of one write: a slow reader holds so much in its transport."""
SMALL_BYTES = 16 * 1024
"""A body up to this is written at once; aiohttp keeps it until the connection's next request."""
TAKEN_WITHIN_S = 20.0
"""Time to read a piece: 3.2 KiB/s."""

Why = Literal["unread", "budget", "room"]
Transport = asyncio.WriteTransport


class InFlight:
    """The unread bytes of one port: at most `budget_bytes` plus one answer.

    `on_cut` is called with the reason for each reader that is cut. Calls are amortized O(1) and
    must be made on the event loop.
    """

    def __init__(self, budget_bytes: int, on_cut: Callable[[Why], None] = lambda _: None) -> None:
        self.budget_bytes = budget_bytes
        self.held_bytes = 0
        self._on_cut = on_cut
        self._waiting: dict[Transport, tuple[float, int]] = {}
        """Readers that pause: since when, and with how many bytes, oldest first."""
        self._sending: dict[Transport, bytes] = {}
        self._readers: Counter[int] = Counter()
        """Number of readers of each body, by the identity of the body."""
        self._timer: asyncio.TimerHandle | None = None

    async def send(self, body: bytes, writer: AbstractStreamWriter) -> None:
        """Write a body in pieces; return when the kernel has all of it.

        One body at a time per connection. Raises `ConnectionError` if it ended or was cut.
        """
        pieces = memoryview(body)
        with self._held(body, _open(writer)):
            for start in range(0, len(body), PIECE_BYTES):
                await writer.write(pieces[start : start + PIECE_BYTES])
                await writer.drain()
                _open(writer)

    def on_paused(self, transport: Transport) -> None:
        """Record that the reader does not read; called when the transport pauses its protocol."""
        unsent_bytes = transport.get_write_buffer_size()
        self._waiting[transport] = (asyncio.get_running_loop().time(), unsent_bytes)
        self.held_bytes += unsent_bytes
        self._fit(keep=1)
        self._watch()

    def on_drained(self, transport: Transport) -> None:
        """Record that the reader has read everything, or is gone."""
        _, unsent_bytes = self._waiting.pop(transport, (0.0, 0))
        self.held_bytes -= unsent_bytes

    def cut_slowest(self, why: Why) -> bool:
        """Cut the connection whose reader has paused longest; return False if no reader pauses."""
        for transport in self._waiting:
            self.on_drained(transport)
            self._release(transport)
            _drop(transport)
            self._on_cut(why)
            return True
        return False

    @contextmanager
    def _held(self, body: bytes, transport: Transport) -> Iterator[None]:
        if not self._readers[id(body)]:
            self._fit(len(body))
        if not self._readers[id(body)]:
            self.held_bytes += len(body)
        self._readers[id(body)] += 1
        self._sending[transport] = body
        try:
            yield
        finally:
            self._release(transport)

    def _release(self, transport: Transport) -> None:
        body = self._sending.pop(transport, None)
        if body is None:
            return
        self._readers[id(body)] -= 1
        if not self._readers[id(body)]:
            del self._readers[id(body)]
            self.held_bytes -= len(body)

    def _fit(self, more_bytes: int = 0, *, keep: int = 0) -> None:
        """Cut the slowest readers until so many more bytes fit; the newest `keep` readers stay."""
        while self.held_bytes + more_bytes > self.budget_bytes and len(self._waiting) > keep:
            self.cut_slowest("budget")

    def _watch(self) -> None:
        """Set the timer for the reader that has paused longest."""
        if self._timer is None and self._waiting:
            since_s, _ = next(iter(self._waiting.values()))
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(since_s + TAKEN_WITHIN_S, self._cut_unread)

    def _cut_unread(self) -> None:
        self._timer = None
        now_s = asyncio.get_running_loop().time()
        while self._waiting and next(iter(self._waiting.values()))[0] + TAKEN_WITHIN_S <= now_s:
            self.cut_slowest("unread")
        self._watch()


class HeldBody(Payload):
    """The body of an answer, written by `send` and released when it is sent.

    aiohttp itself would keep the last answer of a connection until its next request.
    """

    def __init__(
        self, body: bytes, send: Callable[[bytes, AbstractStreamWriter], Awaitable[None]]
    ) -> None:
        super().__init__(body)
        self._size = len(body)
        self._send = send

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the body as text."""
        return bytes(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send the body. Raises `ConnectionError`."""
        await self._send(self._value, writer)

    async def close(self) -> None:
        """Release the bytes."""
        self.release()

    def release(self) -> None:
        """Keep only the size, which is all that the answer to a HEAD request needs."""
        self._value = b""


def _drop(transport: Transport) -> None:
    """Abort a connection and drop the kernel's buffer for its reader; socket(7), SO_LINGER."""
    wire = transport.get_extra_info("socket")
    if wire is not None:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def _open(writer: AbstractStreamWriter) -> Transport:
    """Return the transport of an open connection. Raises `ConnectionResetError`."""
    transport = writer.transport
    if transport is None or transport.is_closing():
        raise ConnectionResetError("the connection ended inside the answer")
    return transport
