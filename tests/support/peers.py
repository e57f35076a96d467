"""A peer over real sockets that answers any bytes, whatever it is asked."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

_TLS_HANDSHAKE = b"\x16"
_LENGTH = re.compile(rb"^content-length: *(\d+)", re.IGNORECASE | re.MULTILINE)
_HOST = re.compile(rb"^host: *([^\r\n]*)", re.IGNORECASE | re.MULTILINE)

Answer = Callable[[bytes], bytes]
"""The bytes that follow a request, from its head; `{host}` in them is whom it asked."""


@asynccontextmanager
async def peer(answer: Answer, *, holds: bool = False) -> AsyncIterator[int]:
    """The port of a peer that reads one request per connection, answers and closes.

    `holds`: it keeps the connection open after its answer, until the other side closes it.
    """
    at_work: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readexactly(1)
            if head != _TLS_HANDSHAKE:
                head += await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                await reader.readexactly(int(length[1]) if length else 0)
                writer.write(answer(head).replace(b"{host}", _HOST.findall(head)[0]))
                await writer.drain()
                if holds:
                    await reader.read()
        writer.close()

    async def kept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(serve(reader, writer))
        at_work.add(task)
        task.add_done_callback(at_work.discard)

    async with await asyncio.start_server(kept, "127.0.0.1", 0) as server:
        port: int = server.sockets[0].getsockname()[1]
        try:
            yield port
        finally:
            for task in at_work:
                task.cancel()
            await asyncio.gather(*at_work, return_exceptions=True)


def http(
    body: bytes = b"", *headers: bytes, status: bytes = b"200 OK", length: bytes | None = None
) -> bytes:
    """An answer of HTTP/1.1; `length` in place of the true one."""
    size = b"Content-Length: " + (str(len(body)).encode() if length is None else length)
    return b"\r\n".join((b"HTTP/1.1 " + status, size, *headers, b"", body))
