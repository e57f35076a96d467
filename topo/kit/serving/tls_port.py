"""The TLS connections of a port, counted from the moment that they are accepted.

An event loop that accepts by itself hands a connection over after its handshake, and until then
nobody can count or end it.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial

import structlog

from topo.kit.serving.connections import Connections

HANDSHAKE_S = 10.0
"""A TLS handshake may take so long: the kernel alone ends one whose other side is silent."""
_PAUSE_S = 1.0
"""After a failed accept, such as one for want of descriptors; asyncio's own pause."""

_log = structlog.get_logger(__name__)


class TlsPort:
    """Accepts on bound sockets and hands over what has shaken hands. Close it at the end."""

    def __init__(
        self, connections: Connections, factory: Callable[[], asyncio.Protocol], tls: ssl.SSLContext
    ) -> None:
        self._connections = connections
        self._factory = factory
        self._tls = tls
        self._listeners: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def listen(self, bound: socket.socket, backlog: int) -> None:
        """Accepts from here on what comes to a socket, which stays the caller's."""
        listener = socket.socket(fileno=os.dup(bound.fileno()))
        self._listeners.append(listener)
        listener.setblocking(False)
        listener.listen(backlog)
        self._run(self._accept(listener))

    def close(self) -> None:
        """Accepts nothing more, and ends what has not shaken hands."""
        for task in self._tasks:
            task.cancel()
        for listener in self._listeners:
            listener.close()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                wire, _ = await loop.sock_accept(listener)
            except ConnectionAbortedError:
                continue  # the peer went before it was accepted
            except OSError as error:
                _log.error("no connection can be accepted", what=str(error))
                await asyncio.sleep(_PAUSE_S)
                continue
            connection = self._factory()
            task = self._run(self._shake(connection, wire))
            task.add_done_callback(partial(self._shaken, connection, wire))
            self._connections.accepted(connection, task.cancel)

    async def _shake(self, connection: asyncio.Protocol, wire: socket.socket) -> None:
        with suppress(OSError):  # it never was TLS, took too long, or went
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, wire, ssl=self._tls, ssl_handshake_timeout=HANDSHAKE_S
            )

    def _shaken(
        self, connection: asyncio.Protocol, wire: socket.socket, task: asyncio.Task[None]
    ) -> None:
        self._connections.shaken(connection)
        if task.cancelled():  # perhaps before it began, and then nobody else has the socket
            wire.close()

    def _run(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
