"""A TLS connection counts from the moment it is accepted, and silent ones give way."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import uvloop
from aiohttp import ClientSession, TCPConnector, web

from tests.support.waiting import CEILING_S, eventually
from topo.kit.serving.connections import Connections
from topo.kit.tasks import Site, start
from topo.kit.tls import client_context, server_context
from topo.sim.certificates import Authority

LIMIT = 8
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
SILENT = 40


async def _hello(_: web.Request) -> web.Response:
    return web.Response(text="hello")


@asynccontextmanager
async def _port(folder: Path) -> AsyncIterator[tuple[Connections, int, ClientSession]]:
    """A TLS site of at most `LIMIT` connections, and who trusts it."""
    authority = Authority.at(folder)
    cert, key = authority.leaf("site", "127.0.0.1")
    app = web.Application()
    app.router.add_get("/", _hello)
    connections = Connections("api", LIMIT, 1_000_000)
    site = Site(
        app=app,
        port=0,
        connections=connections,
        host="127.0.0.1",
        tls=server_context(cert, key),
        drain_s=0.1,
    )
    trust = TCPConnector(ssl=client_context(authority.certificate_file), force_close=True)
    async with AsyncExitStack() as stack:
        ((_, port),) = await start(site, stack)
        session = await stack.enter_async_context(ClientSession(connector=trust))
        yield connections, port, session


async def _said(session: ClientSession, port: int) -> str:
    async with asyncio.timeout(CEILING_S), session.get(f"https://127.0.0.1:{port}/") as answer:
        return await answer.text()


def _on_each_loop(promise: Callable[[Path], Coroutine[None, None, None]], folder: Path) -> None:
    for name, loop in LOOPS.items():
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(promise(folder / name))


def test_silent_connections_give_way_to_those_that_speak(tmp_path: Path) -> None:
    async def promise(folder: Path) -> None:
        async with _port(folder) as (connections, port, session):
            silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(SILENT)]
            await eventually(lambda: connections.ended["handshake"] == SILENT - LIMIT // 2)
            assert len(connections) == LIMIT // 2
            for _ in range(2 * LIMIT):
                assert await _said(session, port) == "hello"
            await eventually(lambda: _cut(silent) >= SILENT - LIMIT // 2)
            for each in silent:
                each.close()
            await eventually(lambda: len(connections) == 0)
            assert connections.ended["refused"] == 0

    _on_each_loop(promise, tmp_path)


def test_what_is_no_tls_or_goes_in_its_handshake_is_counted_out(tmp_path: Path) -> None:
    async def promise(folder: Path) -> None:
        async with _port(folder) as (connections, port, session):
            for sent in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b""):
                with socket.create_connection(("127.0.0.1", port)) as wire:
                    wire.sendall(sent)
                    await eventually(lambda: len(connections) == 1 or _cut([wire]) == 1)
                await eventually(lambda: len(connections) == 0)
            assert await _said(session, port) == "hello"
            assert connections.ended["handshake"] == 0

    _on_each_loop(promise, tmp_path)


def test_a_port_that_closes_ends_what_shakes_hands(tmp_path: Path) -> None:
    async def promise(folder: Path) -> None:
        async with _port(folder) as (connections, port, _):
            wire = socket.create_connection(("127.0.0.1", port))
            await eventually(lambda: len(connections) == 1)
        await eventually(lambda: _cut([wire]) == 1)
        wire.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))

    _on_each_loop(promise, tmp_path)


def _cut(wires: list[socket.socket]) -> int:
    """How many of them the other side has ended."""
    ended = 0
    for wire in wires:
        wire.setblocking(False)
        try:
            ended += wire.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            continue
        except ConnectionError:
            ended += 1
    return ended
