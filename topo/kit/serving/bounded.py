"""The bytes of a body, asked or answered, bounded while they come."""

import asyncio
from collections.abc import Callable

from aiohttp import StreamReader


def uncounted(_: int) -> None:
    """For who reads one body and has its limit."""


async def bounded_bytes(
    content: StreamReader, limit_bytes: int, grew: Callable[[int], None] = uncounted
) -> bytes | None:
    """The whole body; None where it is larger than the limit.

    Never holds more than the limit and one part, as much as the connection reads ahead, whatever
    `Content-Length` says and however small a packed answer is. Others have their turn after each
    part: aiohttp unpacks what it has at hand without a pause, and a body may come in chunks of a
    byte. `grew` is told of each part that is held, by its bytes.
    """
    body = bytearray()
    while part := await content.readany():
        body += part
        grew(len(part))
        if len(body) > limit_bytes:
            return None
        if not content.is_eof():
            await asyncio.sleep(0)
    return bytes(body)
