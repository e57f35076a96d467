"""The bytes of a request's body, within a time limit; a refusal names the fix.

Whoever asks for them knows who sends them and to which call: until then a body is neither unpacked
nor kept (`runner`).
"""

import asyncio
from collections.abc import Callable

from aiohttp import web

from topo.kit.serving.bounded import bounded_bytes, uncounted
from topo.kit.serving.unpacking import coding_of, too_large, unpacked
from topo.model.errors import BadInputError, Refusal

BODY_S = 10.0
"""A slower client only keeps the connection."""


async def body_bytes(request: web.Request, grew: Callable[[int], None] = uncounted) -> bytes:
    """The body, unpacked, of at most the application's `client_max_size` bytes either way.

    `grew` is told of each part that is held from then on, packed or not, by its bytes.
    408 after `BODY_S`. Raises `TooLargeError`, without reading where the headers say so already,
    `UnknownCodingError`, and `BadInputError` for one that is not in its encoding or that ends too
    early.
    """
    coding = coding_of(request.headers.getall("Content-Encoding", ()))
    limit_bytes = request.client_max_size
    if (request.content_length or 0) > limit_bytes:
        raise too_large(limit_bytes)
    try:
        async with asyncio.timeout(BODY_S):
            content = await bounded_bytes(request.content, limit_bytes, grew)
            if content is None:
                raise too_large(limit_bytes)
            return await unpacked(content, coding, limit_bytes, grew) if coding else content
    except TimeoutError:
        text = f"the body was not here after {BODY_S:g} s"
        raise web.HTTPRequestTimeout(text=text) from None
    except web.RequestPayloadError:
        what, fix = "the body is not in its Transfer-Encoding", "send a JSON object as it is"
        raise BadInputError(Refusal(what, "Transfer-Encoding", fix)) from None
    except ConnectionError:  # nobody is there to read it
        what = "the connection ended inside the body"
        raise BadInputError(Refusal(what, "body", "send all of Content-Length")) from None
