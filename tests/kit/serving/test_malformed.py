"""Requests that are no HTTP: a bounded line each, so many in a minute, and every one counted."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from tests.support.waiting import CEILING_S
from topo.kit import tasks
from topo.kit.logs import LogSettings, configure_logs
from topo.kit.serving.connections import Connections
from topo.kit.serving.malformed import LINES, SPAN_S
from topo.kit.serving.problem import Handler
from topo.kit.tls import server_context
from topo.sim.certificates import Authority

pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("logging_as_it_was")]

SECRET = "hunter-2-hunter-2"
SHAPES = {
    "method": b"FOO " + SECRET.encode() + b"\r\n\r\n",
    "nulls": b"\0" * 5000 + SECRET.encode() + b"\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x01" * 200,
    "header": b"GET / HTTP/1.1\r\nHost: h\r\nX-Key\0: " + SECRET.encode() + b"\r\n\r\n",
    "value": b"GET / HTTP/1.1\r\nHost: h\r\nX-Key: \0" + SECRET.encode() + b"\r\n\r\n",
    "version": b"GET /" + SECRET.encode() + b" HTTP/9.9\r\nHost: h\r\n\r\n",
    "line": b"GET /" + SECRET.encode() * 9000 + b" HTTP/1.1\r\n\r\n",
    "long-header": b"GET / HTTP/1.1\r\nHost: h\r\nX: " + SECRET.encode() * 900 + b"\r\n\r\n",
    "many-headers": b"GET / HTTP/1.1\r\nHost: h\r\n" + b"X: b\r\n" * 300 + b"\r\n",
    "length": b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
    "chunk": b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    "url": b"GET http://[" + SECRET.encode() + b"/ HTTP/1.1\r\nHost: h\r\n\r\n",
    "path": b"GET /\xff\xfe" + SECRET.encode() + b" HTTP/1.1\r\nHost: h\r\n\r\n",
    "http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "second": b"GET / HTTP/1.1\r\nHost: h\r\n\r\nGARBAGE " + SECRET.encode() + b"\r\n\r\n",
}


class Site:
    """A running site: its port, what it logged, how many it counted."""

    def __init__(self, log: Path) -> None:
        self.port = 0
        self.counted = 0
        self._log = log

    def count(self) -> None:
        """One more."""
        self.counted += 1

    @property
    def lines(self) -> list[str]:
        """The log since it listens."""
        return self._log.read_text().splitlines()[1:]

    async def send(self, sent: bytes) -> bytes:
        """What comes back for these bytes, to its end; nothing where the other side cuts it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(sent)
            return await asyncio.wait_for(reader.read(), CEILING_S)
        except ConnectionError:
            return b""
        finally:
            writer.close()


@asynccontextmanager
async def site(
    tmp_path: Path, tls: ssl.SSLContext | None = None, handler: Handler | None = None
) -> AsyncIterator[Site]:
    """A site that says hello."""

    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    configure_logs(LogSettings(log_file=tmp_path / "log"), "test")
    running = Site(tmp_path / "log")
    app = web.Application()
    app.router.add_route("*", "/", handler or hello)
    served = tasks.Site(
        app=app,
        port=0,
        connections=Connections("api", 100, 1_000_000),
        host="127.0.0.1",
        tls=tls,
        drain_s=0.1,
        name="api",
        on_malformed=running.count,
    )
    async with AsyncExitStack() as stack:
        ((_, running.port),) = await tasks.start(served, stack)
        yield running


@pytest.mark.parametrize("shape", SHAPES)
async def test_each_is_one_bounded_line_without_what_was_sent(tmp_path: Path, shape: str) -> None:
    async with site(tmp_path) as running:
        answer = await running.send(SHAPES[shape])
        assert b" 400 " in answer
    (line,) = running.lines
    assert len(line) < 300
    assert SECRET not in line
    event = json.loads(line)
    assert (event["event"], event["site"], event["sender"]) == (
        "malformed request",
        "api",
        "127.0.0.1",
    )
    assert event["why"]
    assert running.counted == 1


@pytest.mark.parametrize("shape", SHAPES)
async def test_each_is_answered_with_a_problem_document(tmp_path: Path, shape: str) -> None:
    async with site(tmp_path) as running:
        answer = await running.send(SHAPES[shape])
    _, _, refused = answer.rpartition(b" 400 Bad Request\r\n")
    head, _, body = refused.partition(b"\r\n\r\n")
    assert b"Content-Type: application/problem+json" in head
    document = json.loads(body)
    assert (document["status"], document["title"]) == (400, "Bad Request")
    assert document["detail"]
    assert document["fix"]
    assert SECRET not in body.decode()


async def test_so_many_a_minute_are_told_and_then_how_many_more_there_were(tmp_path: Path) -> None:
    async with site(tmp_path) as running:
        for _ in range(LINES + 12):
            await running.send(SHAPES["header"])
        assert len(running.lines) == LINES
        await asyncio.sleep(SPAN_S)
        assert json.loads(running.lines[-1])["left_out"] == "… and 12 more in 60 s"
        await running.send(SHAPES["header"])
        assert json.loads(running.lines[-1])["event"] == "malformed request"
        assert len(running.lines) == LINES + 2
    assert running.counted == LINES + 13


async def test_what_was_left_out_is_told_at_the_end(tmp_path: Path) -> None:
    async with site(tmp_path) as running:
        for _ in range(LINES + 2):
            await running.send(SHAPES["method"])
    assert json.loads(running.lines[-1])["left_out"] == "… and 2 more in 60 s"


async def test_bytes_that_are_no_tls_write_nothing_and_end_nobody(tmp_path: Path) -> None:
    cert, key = Authority.at(tmp_path / "ca").leaf("site", "127.0.0.1")
    async with site(tmp_path, server_context(cert, key)) as running:
        for shape in SHAPES.values():
            assert b"HTTP" not in await running.send(shape)
        plain = [line for line in running.lines if SECRET in line or len(line) > 300]
    assert plain == []


async def test_our_own_mistake_keeps_its_traceback(tmp_path: Path) -> None:
    async def boom(_: web.Request) -> web.Response:
        raise RuntimeError("inner detail")

    async with site(tmp_path, handler=boom) as running:
        answer = await running.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    assert b" 500 " in answer
    assert b"Content-Type: application/problem+json" in answer
    assert b"inner detail" not in answer
    (line,) = running.lines
    assert "inner detail" in json.loads(line)["exception"]
    assert running.counted == 0
