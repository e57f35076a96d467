"""Bytes that no client library would send, and what comes back for them."""

import asyncio
import zlib

from tests.support.waiting import CEILING_S


def bomb(mebibytes: int) -> bytes:
    """So many MiB of zeros as gzip, a thousandth of the size."""
    packer = zlib.compressobj(9, wbits=16 + zlib.MAX_WBITS)
    parts = [packer.compress(bytes(1 << 20)) for _ in range(mebibytes)]
    return b"".join((*parts, packer.flush()))


def packed_head(method: str, path: str, size: int, *headers: str, coding: str = "gzip") -> bytes:
    """The head of a request whose packed body has that size."""
    lines = (
        f"{method} {path} HTTP/1.1",
        "Host: here",
        "Content-Type: application/json",
        f"Content-Encoding: {coding}",
        f"Content-Length: {size}",
        *headers,
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def answered(port: int, sent: bytes) -> bytes:
    """All that comes back until the other side closes; nothing more is sent meanwhile."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        return await asyncio.wait_for(reader.read(), CEILING_S)
    finally:
        writer.close()
