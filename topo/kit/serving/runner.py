"""How every application here is served: what aiohttp does before a handler has said who is there.

It would unpack bodies while it reads, and go on reading for ten seconds what nobody asked for.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from topo.kit.serving.malformed import MalformedRequests
from topo.kit.serving.problem import Handler

MAX_LINE_BYTES = 64 * 1024
"""The longest request line: a URL with every parameter of a call as long as it may be. What is
longer is refused by aiohttp, in plain text."""
MAX_HEADERS = 48
"""Fields of a head: a browser sends some 16, and a mesh of proxies adds as many. Each may have
8,190 bytes, so aiohttp's own 128 make a head of a megabyte, which anybody can send."""
KEEPALIVE_S = 75.0
READ_BYTES = 32 * 1024
"""What is taken of a body before somebody asks for it, and in one go when somebody does. It bounds
the chunks, too (RFC 9112 7.1), at a sixteenth: one of a byte costs aiohttp a microsecond or two."""
UNREAD_BYTES = 2 << 20
"""What is still taken of a body that nobody read, so that its sender gets to read the answer: a
connection that is closed with bytes unread is reset. Twice the largest report. Of a body that does
not say its size nothing is: it may be chunks without number."""
UNREAD_S = 2.0


def handler_options(malformed: MalformedRequests) -> Mapping[str, Any]:
    """Those of aiohttp's `web.RequestHandler`, the protocol of a connection.

    A body comes packed, as it was sent. What is no HTTP goes to `malformed`.
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
    """The application, not yet set up; `drain_s` bounds the wait for requests at its end.

    A body that no handler read ends its connection. What makes the connections is given
    `handler_options`.
    """
    app.middlewares.insert(0, _unread_bodies)
    return web.AppRunner(
        app, handle_signals=False, handler_cancellation=False, shutdown_timeout=drain_s
    )


@web.middleware
async def _unread_bodies(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answers before the rest of a body is dropped, then closes."""
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
