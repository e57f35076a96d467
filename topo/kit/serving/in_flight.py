"""Bytes of answers that their readers have not taken yet: one budget, the slowest cut first.

A reader that takes nothing is the cheapest attack there is: each answer stays in memory until it is
read. So a large body is written in pieces, each taken before the next is given, and what is held is
counted: every body that is being sent once, however many read it, and the bytes that wait in the
transports. Beyond the budget the reader that has waited longest with its piece is cut, and so is
everybody who has not taken a piece in `TAKEN_WITHIN_S`.
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
"""What one write hands to a transport: as much as a slow reader holds there."""
SMALL_BYTES = 16 * 1024
"""A body up to this is written in one go; aiohttp keeps it until the connection's next request."""
TAKEN_WITHIN_S = 20.0
"""A reader takes each piece within this time: 3.2 KiB/s at the least."""

Why = Literal["unread", "budget", "room"]
Transport = asyncio.WriteTransport


class InFlight:
    """What is held for the readers of one port, within `budget_bytes` and one answer more.

    `on_cut` is told why a reader was cut. All calls are O(1), spread over the cuts; they belong to
    the event loop.
    """

    def __init__(self, budget_bytes: int, on_cut: Callable[[Why], None] = lambda _: None) -> None:
        self.budget_bytes = budget_bytes
        self.held_bytes = 0
        self._on_cut = on_cut
        self._waiting: dict[Transport, tuple[float, int]] = {}
        """Since when, and with how many bytes; in the order of time."""
        self._sending: dict[Transport, bytes] = {}
        self._readers: Counter[int] = Counter()
        """How many are being sent a body, by the identity of the body."""
        self._timer: asyncio.TimerHandle | None = None

    async def send(self, body: bytes, writer: AbstractStreamWriter) -> None:
        """Writes a body, piece by piece, and returns when the kernel has taken all of it.

        One body at a time for each connection. Raises `ConnectionError` when it ended or was cut.
        """
        pieces = memoryview(body)
        with self._held(body, _open(writer)):
            for start in range(0, len(body), PIECE_BYTES):
                await writer.write(pieces[start : start + PIECE_BYTES])
                await writer.drain()
                _open(writer)

    def waits(self, transport: Transport) -> None:
        """Its reader leaves bytes where they are; call it as the transport pauses its protocol."""
        unsent_bytes = transport.get_write_buffer_size()
        self._waiting[transport] = (asyncio.get_running_loop().time(), unsent_bytes)
        self.held_bytes += unsent_bytes
        self._fit(keep=1)
        self._watch()

    def took(self, transport: Transport) -> None:
        """Its reader has taken everything, or is gone."""
        _, unsent_bytes = self._waiting.pop(transport, (0.0, 0))
        self.held_bytes -= unsent_bytes

    def cut_slowest(self, why: Why) -> bool:
        """Ends the connection whose reader has waited longest; False if none waits."""
        for transport in self._waiting:
            self.took(transport)
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
        """Makes room for so many bytes; the readers that have waited least are kept."""
        while self.held_bytes + more_bytes > self.budget_bytes and len(self._waiting) > keep:
            self.cut_slowest("budget")

    def _watch(self) -> None:
        """Wakes when the reader that waits longest has done so for `TAKEN_WITHIN_S`."""
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
    """The body of an answer that `send` writes, and that is let go when it was sent.

    aiohttp holds the last answer of a connection until its next request.
    """

    def __init__(
        self, body: bytes, send: Callable[[bytes, AbstractStreamWriter], Awaitable[None]]
    ) -> None:
        super().__init__(body)
        self._size = len(body)
        self._send = send

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The body as text."""
        return bytes(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Sends it; raises `ConnectionError`."""
        await self._send(self._value, writer)

    async def close(self) -> None:
        """Lets the bytes go."""
        self.let_go()

    def let_go(self) -> None:
        """Keeps the size alone, which is all that the answer to a HEAD has."""
        self._value = b""


def _drop(transport: Transport) -> None:
    """Ends a connection, and what the kernel holds for its reader with it: socket(7), SO_LINGER."""
    wire = transport.get_extra_info("socket")
    if wire is not None:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def _open(writer: AbstractStreamWriter) -> Transport:
    """The transport of a connection that stands; raises `ConnectionResetError`."""
    transport = writer.transport
    if transport is None or transport.is_closing():
        raise ConnectionResetError("the connection ended inside the answer")
    return transport
