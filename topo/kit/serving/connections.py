"""How a port is served: aiohttp's options, the number of connections, who is closed at a limit.

By default aiohttp unpacks bodies while it reads them, before a handler knows the sender, and
reads an unwanted body for ten more seconds.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
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
from topo.kit.serving.malformed import MalformedRequests, fault_of
from topo.kit.serving.problem import CONTENT_TYPE, Handler, mistake, problem
from topo.model.errors import BrokenInvariantError

MAX_LINE_BYTES = 64 * 1024
"""The longest request line: a URL with every parameter of a call as long as it may be. What is
longer is refused with 400."""
MAX_HEADERS = 48
"""Fields of a head: a browser sends some 16, and a mesh of proxies adds as many. Each may have
8,190 bytes, so aiohttp's own 128 make a head of a megabyte, which anybody can send."""
KEEPALIVE_S = 75.0
READ_BYTES = 32 * 1024
"""Read-ahead of a body before a handler asks for it, and the size of one read. It also bounds the
number of chunks (RFC 9112 7.1), at a sixteenth: a chunk of a byte costs aiohttp a microsecond."""
UNREAD_BYTES = 2 << 20
"""Bytes that are read and dropped of an unread body, so that its sender can read the answer:
closing with unread bytes resets the connection. Twice the largest report. None are read of a
body without a size: it may never end."""
UNREAD_S = 2.0
TOLD_EVERY_S = 60.0
"""Pause between log lines about closed connections; each has the totals."""
HEADS_BYTES = 16 * 1024 * 1024
"""Budget for incomplete heads of requests. One may have hundreds of kB, and anybody can begin one;
most come in one piece and are never held."""
REASONS = ("handshake", "idle", "room", "unread", "budget", "heads", "refused")

_log = structlog.get_logger(__name__)


def handler_options(malformed: MalformedRequests) -> Mapping[str, Any]:
    """Return the options of aiohttp's `web.RequestHandler`, the protocol of a connection.

    Bodies stay packed. Requests that are not HTTP go to `malformed`.
    """
    return {
        "access_log": None,
        "keepalive_timeout": KEEPALIVE_S,
        "max_line_size": MAX_LINE_BYTES,
        "max_headers": MAX_HEADERS,
        "read_bufsize": READ_BYTES,
        "auto_decompress": False,
        "lingering_time": 0.0,
        "logger": malformed,
    }


def app_runner(app: web.Application, *, drain_s: float) -> web.AppRunner:
    """Return the runner of an application; `drain_s` limits the wait for requests at its end.

    If no handler read a body, its connection is closed. The factory of the connections gets
    `handler_options`.
    """
    app.middlewares.insert(0, _unread_bodies)
    return web.AppRunner(
        app, handle_signals=False, handler_cancellation=False, shutdown_timeout=drain_s
    )


@web.middleware
async def _unread_bodies(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer, read and drop the rest of an unread body, then close."""
    answer = await handler(request)
    body = request.content
    if body.is_eof():
        return answer
    with contextlib.suppress(ConnectionError, TimeoutError, web.RequestPayloadError):
        answer.force_close()
        await answer.prepare(request)
        await answer.write_eof()
        if request.content_length is None:
            return answer
        async with asyncio.timeout(UNREAD_S):
            dropped = 0
            while dropped < UNREAD_BYTES and (part := await body.readany()):
                dropped += len(part)
    return answer


class Connections:
    """The open connections of a port, at most `limit`, with `budget_bytes` of unread answers.

    Beyond the limit the connection that has been idle longest is closed; if none is idle, that of
    the slowest reader; if all are busy, the new one is refused with 503. Connections in their TLS
    handshake count; beyond half the limit the oldest of these is closed. `ended` counts closed
    connections by reason: `handshake`, `idle`, `room` (the slowest reader, for a new connection),
    `unread` (a piece not read in time), `budget`, `heads` (the oldest incomplete head, beyond
    `HEADS_BYTES`), `refused`.
    """

    def __init__(self, name: str, limit: int, budget_bytes: int) -> None:
        self.name = name
        self.limit = limit
        self._fix = "keep fewer"
        self.in_flight = InFlight(budget_bytes, self._ended)
        self.ended = Counter(dict.fromkeys(REASONS, 0))
        self.heads_bytes = 0
        self._heads: dict[_Connection, int] = {}
        """Bytes of incomplete heads, oldest first."""
        self._shaking: dict[asyncio.Protocol, Callable[[], object]] = {}
        """Connections in their TLS handshake and the call that ends each, oldest first."""
        self._open: set[_Connection] = set()
        self._idle: dict[_Connection, None] = {}
        """Idle connections, longest idle first."""
        self._silent_until_s = 0.0

    def __len__(self) -> int:
        return len(self._open) + len(self._shaking)

    def factory(self, server: web.Server, **options: Any) -> Callable[[], asyncio.Protocol]:
        """Return the factory of protocols; `options` are those of `web.RequestHandler`."""
        loop = asyncio.get_running_loop()
        return lambda: _Connection(self, server, loop=loop, **options)

    @web.middleware
    async def serve(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        """Mark the connection as busy while the handler runs, and send a large body in pieces.

        The pieces count toward the budget of unread answers.
        """
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
                    held.release()
        return answer

    def lower_limit(self, most: int) -> None:
        """Lower the limit to the connections that the process can open, if they are fewer."""
        if most < self.limit:
            self.limit = most
            self._fix = f"keep fewer, or {RAISE_FILES}"

    @property
    def refusal(self) -> bytes:
        """The complete HTTP answer to a connection beyond the limit."""
        return _refusal(self._fix)

    def on_handshake_begun(self, connection: asyncio.Protocol, end: Callable[[], object]) -> None:
        """Count a connection in its TLS handshake; `end` closes it."""
        self._shaking[connection] = end
        if len(self._shaking) > max(1, self.limit // 2):
            oldest = next(iter(self._shaking))
            self._shaking.pop(oldest)()
            self._ended("handshake")

    def on_handshake_ended(self, connection: asyncio.Protocol) -> None:
        """Remove a connection from the handshakes, because its handshake succeeded or failed."""
        self._shaking.pop(connection, None)

    def admit(self, connection: "_Connection") -> bool:
        """Count a new connection. Return False if it is refused."""
        self.on_handshake_ended(connection)
        if len(self) >= self.limit and not self._make_room():
            self._ended("refused")
            return False
        self._open.add(connection)
        self._idle[connection] = None
        return True

    def on_closed(self, connection: "_Connection") -> None:
        """Remove a closed connection."""
        self.on_head_ended(connection)
        self._open.discard(connection)
        self._idle.pop(connection, None)

    def on_head_bytes(self, connection: "_Connection", more_bytes: int) -> None:
        """Count bytes of an incomplete head; beyond the budget the oldest connection is closed."""
        self._heads[connection] = self._heads.get(connection, 0) + more_bytes
        self.heads_bytes += more_bytes
        while self.heads_bytes > HEADS_BYTES:
            oldest = next(iter(self._heads))
            self.on_head_ended(oldest)
            oldest.abort()
            self._ended("heads")

    def on_head_ended(self, connection: "_Connection") -> None:
        """Remove the head of a complete request or of a closed connection."""
        self.heads_bytes -= self._heads.pop(connection, 0)

    def on_reader_paused(self, connection: "_Connection", transport: Transport) -> None:
        """Record that the reader does not read the written data."""
        self._idle.pop(connection, None)
        self.in_flight.on_paused(transport)

    def on_reader_resumed(self, connection: "_Connection", transport: Transport) -> None:
        """Record that the reader has read everything."""
        self.in_flight.on_drained(transport)
        self.mark_idle(connection)

    def mark_idle(self, connection: "_Connection") -> None:
        """Count the connection as idle from now on, if it is open and neither busy nor unread."""
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
            self.mark_idle(connection)

    async def _send(
        self, connection: "_Connection", body: bytes, writer: AbstractStreamWriter
    ) -> None:
        """Send a body; the connection counts as busy between the pieces, too."""
        with self._at_work(connection):
            await self.in_flight.send(body, writer)

    def _make_room(self) -> bool:
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


def _fault(status: int, error: BaseException | None) -> web.Response:
    if status >= 500 or error is None:
        return mistake()
    what = f"the request cannot be read: {fault_of(error)}"
    return problem(status, what, fix="send plain HTTP, within the limits of docs/security.md")


class _Connection(web.RequestHandler):
    """aiohttp's protocol of a connection, which reports its state to `Connections`."""

    __slots__ = ("_body", "_port", "_wire", "busy")

    def __init__(self, port: Connections, server: web.Server, **options: Any) -> None:
        super().__init__(server, **options)
        self._port = port
        self._wire: Transport | None = None
        self._body: StreamReader = EMPTY_PAYLOAD
        """The body of the latest request."""
        self.busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        wire = cast("Transport", transport)
        if not self._port.admit(self):
            wire.write(self._port.refusal)
            wire.abort()
            return
        self._wire = wire
        # Pause the protocol as soon as a byte is unsent; with high=0, TLS would pause it always.
        wire.set_write_buffer_limits(high=1, low=0)
        if transport.get_extra_info("sslcontext"):  # else it would buffer 256 KiB
            cast("Any", transport).set_read_buffer_limits(high=READ_BYTES)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        in_body, requests = not self._body.is_eof(), len(self._messages)
        super().data_received(data)
        if len(self._messages) > requests:
            self._body = self._messages[-1][1]
            self._port.on_head_ended(self)
        elif data and not in_body:  # aiohttp passes empty data to continue after a body
            self._port.on_head_bytes(self, len(data))

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the answer to what no handler gets; aiohttp, which logs it, would send text."""
        super().handle_error(request, status, exc, message)
        answer = _fault(status, exc)
        answer.force_close()
        return answer

    def abort(self) -> None:
        """Close the connection at once and drop unread bytes."""
        if self._wire is not None:
            self._wire.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._wire is not None:
            self._port.on_reader_paused(self, self._wire)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._wire is not None:
            self._port.on_reader_resumed(self, self._wire)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._wire is not None:
            self._port.in_flight.on_drained(self._wire)
        self._port.on_closed(self)
        super().connection_lost(exc)
