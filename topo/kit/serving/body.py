"""Reading of a request's body within a time limit.

Handlers call this after they have identified the sender and the call; before that, a body is
neither unpacked nor stored (`runner`).
"""

import asyncio
from collections.abc import Callable

from aiohttp import web

from topo.kit.serving.bounded import bounded_bytes, ignore_bytes
from topo.kit.serving.unpacking import coding_of, too_large, unpacked
from topo.model.errors import BadInputError, Refusal

BODY_S = 10.0
"""Time for a body to arrive; a slower client occupies a connection for nothing."""


async def body_bytes(request: web.Request, on_bytes: Callable[[int], None] = ignore_bytes) -> bytes:
    """Return the unpacked body, at most `client_max_size` bytes packed and unpacked.

    `on_bytes` is called with the size of each stored part, packed or unpacked. Raises 408 after
    `BODY_S`. Raises `TooLargeError` (without reading, if the headers say so), `UnknownCodingError`,
    and `BadInputError` for a body that is not in its encoding or ends too early.
    """
    coding = coding_of(request.headers.getall("Content-Encoding", ()))
    limit_bytes = request.client_max_size
    if (request.content_length or 0) > limit_bytes:
        raise too_large(limit_bytes)
    try:
        async with asyncio.timeout(BODY_S):
            content = await bounded_bytes(request.content, limit_bytes, on_bytes)
            if content is None:
                raise too_large(limit_bytes)
            return await unpacked(content, coding, limit_bytes, on_bytes) if coding else content
    except TimeoutError:
        text = f"the body was not here after {BODY_S:g} s"
        raise web.HTTPRequestTimeout(text=text) from None
    except web.RequestPayloadError:
        what, fix = "the body is not in its Transfer-Encoding", "send a JSON object as it is"
        raise BadInputError(Refusal(what, "Transfer-Encoding", fix)) from None
    except ConnectionError:  # the client is gone and reads no answer
        what = "the connection ended inside the body"
        raise BadInputError(Refusal(what, "body", "send all of Content-Length")) from None
