"""The bytes of a body, asked or answered, bounded while they come."""

import asyncio

from aiohttp import StreamReader


async def bounded_bytes(content: StreamReader, limit_bytes: int) -> bytes | None:
    """The whole body; None where it is larger than the limit.

    Never holds more than the limit and one part, as much as the connection reads ahead, whatever
    `Content-Length` says and however small a packed answer is. Others have their turn after each
    part: aiohttp unpacks what it has at hand without a pause, and a body may come in chunks of a
    byte.
    """
    body = bytearray()
    while part := await content.readany():
        body += part
        if len(body) > limit_bytes:
            return None
        if not content.is_eof():
            await asyncio.sleep(0)
    return bytes(body)
