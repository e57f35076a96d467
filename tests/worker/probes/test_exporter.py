"""The local exporter over real sockets: there, not there, somebody else, and misbehaving."""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from topo.model.machine import ProbeState
from worker.probes.exporter import Exporter

Page = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Page], Awaitable[str]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Serves a page at /metrics; its host:port."""
    servers: list[TestServer] = []

    async def start(page: Page) -> str:
        app = web.Application()
        app.router.add_get("/metrics", page)
        server = TestServer(app)
        await server.start_server()
        servers.append(server)
        return f"127.0.0.1:{server.port}"

    yield start
    for server in servers:
        await server.close()


async def test_a_metrics_page_is_the_raw_text(serve: Serve) -> None:
    """As the exporter prints it."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="# HELP\nmx_device_type 1\n")

    reading = await Exporter(await serve(page)).read()
    assert (reading.state, reading.text) == (ProbeState.OK, "# HELP\nmx_device_type 1\n")


async def test_nobody_there_is_absent() -> None:
    """A port that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    reading = await Exporter(f"127.0.0.1:{port}").read()
    assert reading.state is ProbeState.ABSENT


@pytest.mark.parametrize(
    ("status", "text"), [(404, "mx_x 1"), (302, ""), (200, "<html>hello</html>")]
)
async def test_somebody_else_there_is_absent(serve: Serve, status: int, text: str) -> None:
    """Port 8000 is everybody's favourite; redirects are not followed."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(status=status, text=text, headers={"Location": "http://127.0.0.2/"})

    assert (await Exporter(await serve(page)).read()).state is ProbeState.ABSENT


async def test_a_page_without_end_is_cut_off(serve: Serve) -> None:
    """Read as far as the limit."""

    async def page(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 65536)
        except ConnectionError:
            return response

    reading = await Exporter(await serve(page), limit_bytes=1 << 20).read()
    assert reading.state is ProbeState.FAILED
    assert "more than 1048576 bytes" in reading.detail


async def test_a_connection_cut_in_the_middle_is_a_failure(serve: Serve) -> None:
    """Half a page is no page."""

    async def page(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"mx_device_type")
        assert request.transport is not None
        request.transport.abort()
        return response

    assert (await Exporter(await serve(page)).read()).state is ProbeState.FAILED
