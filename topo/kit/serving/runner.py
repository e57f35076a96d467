"""Options of aiohttp for every server of the product.

By default aiohttp unpacks bodies while it reads them, before a handler knows the sender, and
reads an unwanted body for ten more seconds.
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
"""Read-ahead of a body before a handler asks for it, and the size of one read. It also bounds the
number of chunks (RFC 9112 7.1), at a sixteenth: a chunk of a byte costs aiohttp a microsecond."""
UNREAD_BYTES = 2 << 20
"""Bytes that are read and dropped of an unread body, so that its sender can read the answer:
closing with unread bytes resets the connection. Twice the largest report. None are read of a
body without a size: it may never end."""
UNREAD_S = 2.0


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
