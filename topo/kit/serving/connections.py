"""The connections of one port: how many are held, whose answers wait, and who gives way."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import orjson
import structlog
from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.streams import EMPTY_PAYLOAD

from topo.kit.files import RAISE_FILES
from topo.kit.serving.in_flight import SMALL_BYTES, HeldBody, InFlight, Transport
from topo.kit.serving.problem import CONTENT_TYPE
from topo.kit.serving.runner import READ_BYTES
from topo.model.errors import BrokenInvariantError

TOLD_EVERY_S = 60.0
"""The log tells of cut readers at most this often, with how many there were so far."""
HEADS_BYTES = 16 * 1024 * 1024
"""Heads of requests that have begun and not ended, together. One may have hundreds of kB, and
anybody can begin one; most come in one piece and are never held."""
REASONS = ("handshake", "idle", "room", "unread", "budget", "heads", "refused")

_log = structlog.get_logger(__name__)


class Connections:
    """What is open on a port, at most `limit`, with `budget_bytes` of answers that nobody took.

    Beyond the limit the connection that has been idle longest is closed; if none is idle, that of
    the slowest reader; if all are at work, the new one is refused with 503.
    `setting` raises the limit, where there is one for it.
    One that shakes hands counts as well; beyond half the limit the oldest of these gives way.
    `ended` counts who was ended, by the reason: `handshake`, `idle`, `room` (a slow reader, for a
    new one), `unread` (a piece not taken in time), `budget`, `heads` (one that began long ago and
    has not ended, beyond `HEADS_BYTES`), `refused`.
    """

    def __init__(
        self, name: str, limit: int, budget_bytes: int, *, setting: str | None = None
    ) -> None:
        self.name = name
        self.limit = limit
        self._fix = "keep fewer" if setting is None else f"keep fewer, or raise {setting}"
        self.in_flight = InFlight(budget_bytes, self._ended)
        self.ended = Counter(dict.fromkeys(REASONS, 0))
        self.heads_bytes = 0
        self._heads: dict[_Connection, int] = {}
        """Bytes of heads that have not ended, in the order in which they began."""
        self._shaking: dict[asyncio.Protocol, Callable[[], object]] = {}
        """What ends those that have not ended their TLS handshake, in the order of their coming."""
        self._open: set[_Connection] = set()
        self._idle: dict[_Connection, None] = {}
        """In the order in which they fell idle."""
        self._silent_until_s = 0.0

    def __len__(self) -> int:
        return len(self._open) + len(self._shaking)

    def factory(self, server: web.Server, **options: Any) -> Callable[[], asyncio.Protocol]:
        """What makes the protocol of a connection; `options` are those of `web.RequestHandler`."""
        loop = asyncio.get_running_loop()
        return lambda: _Connection(self, server, loop=loop, **options)

    @web.middleware
    async def serve(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        """Marks the connection as busy meanwhile, and sends a large body within the budget."""
        connection = request.protocol
        if not isinstance(connection, _Connection):
            raise BrokenInvariantError("the port is served without `factory`")
        with self._at_work(connection):
            answer = await handler(request)
        if isinstance(answer, web.Response):
            body = answer.body
            if isinstance(body, bytes) and len(body) > SMALL_BYTES:
                answer.body = held = HeldBody(body, partial(self._send, connection))
                if request.method == "HEAD":
                    held.let_go()
        return answer

    def fit(self, most: int) -> None:
        """Lowers the limit to what the process can open, where that is less."""
        if most < self.limit:
            self.limit = most
            self._fix = f"keep fewer, or {RAISE_FILES}"

    @property
    def refusal(self) -> bytes:
        """The whole answer to a connection that there is no room for."""
        return _refusal(self._fix)

    def accepted(self, connection: asyncio.Protocol, end: Callable[[], object]) -> None:
        """Counts one in that begins its TLS handshake, until `shaken`; `end` ends it."""
        self._shaking[connection] = end
        if len(self._shaking) > max(1, self.limit // 2):
            oldest = next(iter(self._shaking))
            self._shaking.pop(oldest)()
            self._ended("handshake")

    def shaken(self, connection: asyncio.Protocol) -> None:
        """Its handshake has ended, well or badly."""
        self._shaking.pop(connection, None)

    def opened(self, connection: "_Connection") -> bool:
        """Counts one in; False when it was refused."""
        self.shaken(connection)
        if len(self) >= self.limit and not self._made_room():
            self._ended("refused")
            return False
        self._open.add(connection)
        self._idle[connection] = None
        return True

    def closed(self, connection: "_Connection") -> None:
        """Counts one out."""
        self.head_ended(connection)
        self._open.discard(connection)
        self._idle.pop(connection, None)

    def head_grew(self, connection: "_Connection", more_bytes: int) -> None:
        """So many bytes came of a head that has not ended; beyond the limit the oldest is cut."""
        self._heads[connection] = self._heads.get(connection, 0) + more_bytes
        self.heads_bytes += more_bytes
        while self.heads_bytes > HEADS_BYTES:
            oldest = next(iter(self._heads))
            self.head_ended(oldest)
            oldest.abort()
            self._ended("heads")

    def head_ended(self, connection: "_Connection") -> None:
        """The head is a request's, or nobody's any more."""
        self.heads_bytes -= self._heads.pop(connection, 0)

    def waits(self, connection: "_Connection", transport: Transport) -> None:
        """Its reader does not take what was written."""
        self._idle.pop(connection, None)
        self.in_flight.waits(transport)

    def took(self, connection: "_Connection", transport: Transport) -> None:
        """Its reader has taken it."""
        self.in_flight.took(transport)
        self.settled(connection)

    def settled(self, connection: "_Connection") -> None:
        """Nothing is under way on it: idle from here on, unless it is closed."""
        if connection in self._open and not connection.busy and not connection.writing_paused:
            self._idle[connection] = None

    @contextmanager
    def _at_work(self, connection: "_Connection") -> Iterator[None]:
        self._idle.pop(connection, None)
        connection.busy = True
        try:
            yield
        finally:
            connection.busy = False
            self.settled(connection)

    async def _send(
        self, connection: "_Connection", body: bytes, writer: AbstractStreamWriter
    ) -> None:
        """A reader that takes piece after piece is idle between no two of them."""
        with self._at_work(connection):
            await self.in_flight.send(body, writer)

    def _made_room(self) -> bool:
        for connection in self._idle:
            del self._idle[connection]
            connection.abort()
            self._ended("idle")
            return True
        return self.in_flight.cut_slowest("room")

    def _ended(self, why: str) -> None:
        self.ended[why] += 1
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._silent_until_s:
            self._silent_until_s = now_s + TOLD_EVERY_S
            _log.warning(
                "connections ended to stay within the limits",
                site=self.name,
                ended={each: n for each, n in self.ended.items() if n},
                open=len(self),
                limit=self.limit,
                unread_bytes=self.in_flight.held_bytes,
            )


def _refusal(fix: str) -> bytes:
    said = {"title": "Service Unavailable", "status": 503}
    body = orjson.dumps({**said, "detail": "too many connections are open", "fix": fix})
    head = (
        "HTTP/1.1 503 Service Unavailable\r\n"
        f"Content-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n"
        "Retry-After: 10\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


class _Connection(web.RequestHandler):
    """aiohttp's protocol of a connection, which tells its port what becomes of it."""

    __slots__ = ("_body", "_port", "_wire", "busy")

    def __init__(self, port: Connections, server: web.Server, **options: Any) -> None:
        super().__init__(server, **options)
        self._port = port
        self._wire: Transport | None = None
        self._body: StreamReader = EMPTY_PAYLOAD
        """That of the request that came last."""
        self.busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        wire = cast("Transport", transport)
        if not self._port.opened(self):
            wire.write(self._port.refusal)
            wire.abort()
            return
        self._wire = wire
        # The protocol pauses as soon as bytes are left; at a limit of 0, TLS pauses it for none.
        wire.set_write_buffer_limits(high=1, low=0)
        if transport.get_extra_info("sslcontext"):  # else it would keep 256 KiB that nobody took
            cast("Any", transport).set_read_buffer_limits(high=READ_BYTES)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        in_body, requests = not self._body.is_eof(), len(self._messages)
        super().data_received(data)
        if len(self._messages) > requests:
            self._body = self._messages[-1][1]
            self._port.head_ended(self)
        elif data and not in_body:  # aiohttp calls it with nothing to go on after a body
            self._port.head_grew(self, len(data))

    def abort(self) -> None:
        """Ends the connection at once: what a reader has not taken is dropped."""
        if self._wire is not None:
            self._wire.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._wire is not None:
            self._port.waits(self, self._wire)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._wire is not None:
            self._port.took(self, self._wire)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._wire is not None:
            self._port.in_flight.took(self._wire)
        self._port.closed(self)
        super().connection_lost(exc)
