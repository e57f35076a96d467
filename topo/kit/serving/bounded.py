"""Bounded reading of the body of a request or an answer."""

import asyncio
from collections.abc import Callable

from aiohttp import StreamReader


def ignore_bytes(_: int) -> None:
    """Do nothing: for a caller that reads one body and needs no count."""


async def bounded_bytes(
    content: StreamReader, limit_bytes: int, on_bytes: Callable[[int], None] = ignore_bytes
) -> bytes | None:
    """Return the whole body, or None if it is larger than the limit.

    Holds at most the limit and one part, whatever `Content-Length` says and however small a packed
    answer is. Other tasks run after each part: aiohttp unpacks its whole buffer without a pause,
    and a body may come in chunks of a byte. `on_bytes` is called with the size of each part.
    """
    body = bytearray()
    while part := await content.readany():
        body += part
        on_bytes(len(part))
        if len(body) > limit_bytes:
            return None
        if not content.is_eof():
            await asyncio.sleep(0)
    return bytes(body)
