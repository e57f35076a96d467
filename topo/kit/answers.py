"""What a peer answers over HTTP, bounded while it is unpacked."""

import asyncio

import aiohttp

_PART_BYTES = 64 << 10


async def answer_bytes(response: aiohttp.ClientResponse, limit_bytes: int) -> bytes | None:
    """The whole body, unpacked; None where it is larger than the limit.

    Never holds more than the limit and one part, whatever `Content-Length` says and however small
    the packed body is, and others have their turn after each part: aiohttp unpacks what it has at
    hand without a pause.
    """
    body = bytearray()
    async for part in response.content.iter_chunked(_PART_BYTES):
        body += part
        if len(body) > limit_bytes:
            return None
        await asyncio.sleep(0)
    return bytes(body)
