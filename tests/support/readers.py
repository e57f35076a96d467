"""Readers of raw HTTP that leave an answer where it is until a test takes it."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.support.waiting import CEILING_S

RECEIVE_BYTES = 4096
"""The kernel doubles it; what a reader leaves stays with who sends."""


async def narrow_socket(url: str) -> socket.socket:
    """A socket that is connected to that server and has little room for what comes."""
    parts = urlsplit(url)
    wire = socket.socket()
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    wire.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(wire, (parts.hostname, parts.port))
    except BaseException:
        wire.close()
        raise
    return wire


@dataclass
class SlowReader:
    """A connection that has asked and takes nothing by itself."""

    wire: socket.socket

    @classmethod
    async def asking(cls, url: str, *paths: str) -> "SlowReader":
        """One that has sent a GET for each path, one after the other."""
        wire = await narrow_socket(url)
        for path in paths:
            head = f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n"
            await asyncio.get_running_loop().sock_sendall(wire, head.encode())
        return cls(wire)

    async def take(self, some: int = 1 << 20) -> bytes:
        """What is there or comes next, empty at the end; raises `ConnectionError` when cut."""
        async with asyncio.timeout(CEILING_S):
            return await asyncio.get_running_loop().sock_recv(self.wire, some)

    async def rest(self) -> bytes:
        """Everything until the connection ends; raises `ConnectionError` when it was cut."""
        taken = b""
        while part := await self.take():
            taken += part
        return taken

    async def was_cut(self) -> bool:
        """Whether the connection ends without the rest of its answer."""
        try:
            await self.rest()
        except ConnectionError:
            return True
        return False

    @property
    def is_cut(self) -> bool:
        """Whether the connection has ended by now, without taking anything of the answer."""
        return self.wire.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0


@contextmanager
def slow_readers(url: str) -> Iterator[Callable[..., Awaitable[SlowReader]]]:
    """What opens slow readers of the server at `url`; they end with the block."""
    readers: list[SlowReader] = []

    async def asking(*paths: str) -> SlowReader:
        readers.append(await SlowReader.asking(url, *paths))
        return readers[-1]

    yield asking
    for reader in readers:
        reader.wire.close()
