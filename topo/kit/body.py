"""The bytes of a request's body, within a time limit; a refusal names the fix."""

import asyncio

from aiohttp import web

from topo.model.errors import BadInputError, Refusal

BODY_S = 10.0
"""A slower client only keeps the connection."""


async def body_bytes(request: web.Request) -> bytes:
    """The body, unpacked.

    The application bounds its size (`client_max_size`): 413 beyond it. 408 after `BODY_S`. Raises
    `BadInputError` for one that is not in its encoding or that ends too early.
    """
    try:
        async with asyncio.timeout(BODY_S):
            return await request.read()
    except TimeoutError:
        text = f"the body was not here after {BODY_S:g} s"
        raise web.HTTPRequestTimeout(text=text) from None
    except web.RequestPayloadError:
        what, fix = "the body is not in its Content-Encoding", "send a JSON object as it is"
        raise BadInputError(Refusal(what, "Content-Encoding", fix)) from None
    except ConnectionError:  # nobody is there to read it
        what = "the connection ended inside the body"
        raise BadInputError(Refusal(what, "body", "send all of Content-Length")) from None
