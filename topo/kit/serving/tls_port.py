"""Accepts TLS connections so that handshakes are counted and limited.

The event loop's own server hands over a connection only after its handshake, so it could neither
count nor close a connection before that.
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
"""Time for a TLS handshake; without it only the kernel ends one with a silent peer."""
_PAUSE_S = 1.0
"""After a failed accept, such as without free descriptors; asyncio pauses as long."""

_log = structlog.get_logger(__name__)


class TlsPort:
    """Accepts on bound sockets and hands connections over after their handshake."""

    def __init__(
        self,
        connections: Connections,
        factory: Callable[[], asyncio.Protocol],
        tls: Callable[[], ssl.SSLContext],
    ) -> None:
        self._connections = connections
        self._factory = factory
        self._tls = tls
        self._listeners: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def listen(self, bound: socket.socket, backlog: int) -> None:
        """Accept connections on a bound socket, which the caller still owns."""
        listener = socket.socket(fileno=os.dup(bound.fileno()))
        self._listeners.append(listener)
        listener.setblocking(False)
        listener.listen(backlog)
        self._run(self._accept(listener))

    def close(self) -> None:
        """Stop accepting, and end connections in their handshake."""
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
                continue  # the peer left before it was accepted
            except OSError as error:
                _log.error("no connection can be accepted", what=str(error))
                await asyncio.sleep(_PAUSE_S)
                continue
            connection = self._factory()
            task = self._run(self._shake(connection, wire))
            task.add_done_callback(partial(self._shaken, connection, wire))
            self._connections.on_handshake_begun(connection, task.cancel)

    async def _shake(self, connection: asyncio.Protocol, wire: socket.socket) -> None:
        with suppress(OSError):  # not TLS, too slow, or gone
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, wire, ssl=self._tls(), ssl_handshake_timeout=HANDSHAKE_S
            )

    def _shaken(
        self, connection: asyncio.Protocol, wire: socket.socket, task: asyncio.Task[None]
    ) -> None:
        self._connections.on_handshake_ended(connection)
        if task.cancelled():  # perhaps before it began; then the socket is still ours
            wire.close()

    def _run(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
