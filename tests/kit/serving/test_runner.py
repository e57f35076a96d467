"""What is served by `start`: a body that no handler asked for is neither unpacked nor kept."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.support.raw_http import answered, bomb, packed_head
from tests.support.turns import turns_beside
from tests.support.waiting import CEILING_S
from topo.kit.secrets import as_token
from topo.kit.serving.body import body_bytes
from topo.kit.serving.connections import (
    MAX_HEADERS,
    READ_BYTES,
    UNREAD_BYTES,
    UNREAD_S,
    Connections,
)
from topo.kit.serving.problem import problems
from topo.kit.tasks import Site, start
from topo.kit.tokens import WorkerTokens, bearer
from topo.model.limits import MAX_TOKEN_CHARS

pytestmark = pytest.mark.virtual_time

LIMIT_BYTES = 1000
CHUNKED = b"POST %b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


@asynccontextmanager
async def serving(limit_bytes: int = LIMIT_BYTES) -> AsyncIterator[int]:
    """The port of an application with a call that reads its body and one that does not."""

    async def size(request: web.Request) -> web.Response:
        return web.Response(text=str(len(await body_bytes(request))))

    async def holder(request: web.Request) -> web.Response:
        return web.Response(text=bearer(request.headers) or "nobody")

    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    app = web.Application(middlewares=[problems], client_max_size=limit_bytes)
    app.router.add_post("/size", size)
    app.router.add_get("/hello", hello)
    app.router.add_get("/holder", holder)
    connections = Connections("test", 100, 1_000_000)
    site = Site(app=app, port=0, connections=connections, host="127.0.0.1", drain_s=0.1)
    async with AsyncExitStack() as stack:
        ((_, port),) = await start(site, stack)
        yield port


@pytest.fixture
def unpackers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one for every stream that anybody in this process begins to unpack."""
    began: list[int] = []
    make: Callable[..., Any] = zlib.decompressobj

    def counted(*args: int, **kwargs: int) -> Any:
        began.append(1)
        return make(*args, **kwargs)

    monkeypatch.setattr(zlib, "decompressobj", counted)
    return began


@pytest.mark.parametrize(
    ("call", "status"),
    [("GET /hello", 200), ("POST /hello", 405), ("POST /nowhere", 404), ("PUT /size", 405)],
)
@pytest.mark.parametrize("coding", ["gzip", "deflate", "GZIP", "gzip, gzip"])
async def test_what_reads_no_body_answers_before_it_is_there_and_closes(
    unpackers: list[int], call: str, status: int, coding: str
) -> None:
    packed = bomb(16)
    method, path = call.split()
    async with serving() as port:
        head = packed_head(method, path, 2 * len(packed), coding=coding)
        answer = await answered(port, head + packed)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\nConnection: close\r\n" in answer
    assert unpackers == []


async def test_a_body_that_says_it_is_too_large_is_refused_before_a_byte_of_it(
    unpackers: list[int],
) -> None:
    async with serving() as port:
        answer = await answered(port, packed_head("POST", "/size", LIMIT_BYTES + 1))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"more than 1000 bytes" in answer
    assert unpackers == []


async def test_a_body_in_an_unknown_coding_is_refused_before_a_byte_of_it() -> None:
    async with serving() as port:
        answer = await answered(port, packed_head("POST", "/size", 9, coding="br"))
    assert answer.startswith(b"HTTP/1.1 415 ")
    assert b"\r\nAccept-Encoding: gzip, deflate\r\n" in answer
    assert b"send it as it is, or packed once as gzip or deflate" in answer


async def test_a_bomb_for_a_call_that_reads_it_is_413(unpackers: list[int]) -> None:
    packed = bomb(1)[:LIMIT_BYTES]
    async with serving() as port:
        answer = await answered(port, packed_head("POST", "/size", len(packed)) + packed)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert unpackers == [1]


async def test_a_body_without_a_length_is_cut_at_the_limit() -> None:
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(CHUNKED % b"/size" + b"3E9\r\n" + b"x" * 1001)
        answer = await asyncio.wait_for(reader.read(), CEILING_S)
        writer.close()
    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_a_connection_whose_body_was_read_is_kept() -> None:
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            writer.write(b"POST /size HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")
            assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n3"), CEILING_S))[
                9:12
            ] == b"200"
        writer.close()


async def test_who_sends_more_than_was_asked_for_reads_the_answer() -> None:
    """A client that first sends all of its body still learns why it was refused."""
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(packed_head("POST", "/nowhere", UNREAD_BYTES))
        writer.write(bytes(UNREAD_BYTES))
        await asyncio.wait_for(writer.drain(), CEILING_S)
        assert (await asyncio.wait_for(reader.read(), CEILING_S)).startswith(b"HTTP/1.1 404 ")
        writer.close()


async def test_who_never_ends_is_cut_off() -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(bytes(1 << 20))
            await asyncio.wait_for(writer.drain(), CEILING_S)

    async with serving() as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(packed_head("POST", "/nowhere", 1 << 40))
        with pytest.raises(ConnectionError):
            await endless(writer)
        writer.close()


async def test_chunks_of_a_byte_leave_others_their_turn() -> None:
    """All of them are here at once; two thousand are taken, then others go on."""
    number = 60_000
    async with serving(limit_bytes=number) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(CHUNKED % b"/size" + b"1\r\nx\r\n" * number + b"0\r\n\r\n")
        with turns_beside() as turns:
            answer = await asyncio.wait_for(reader.readuntil(str(number).encode()), CEILING_S)
        writer.close()
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert turns.number > number * 16 / READ_BYTES


async def test_a_body_without_a_length_that_nobody_reads_ends_the_connection_at_once() -> None:
    clock = asyncio.get_running_loop().time
    async with serving() as port:
        began_s = clock()
        answer = await answered(port, CHUNKED % b"/nowhere" + b"1\r\nx\r\n")
        assert answer.startswith(b"HTTP/1.1 404 ")
        assert clock() - began_s < UNREAD_S


async def test_a_token_as_long_as_files_may_hold_comes_to_its_handler_in_a_request() -> None:
    token = "x" * MAX_TOKEN_CHARS
    assert WorkerTokens.parse(token).refused == ()
    assert as_token(token, Path("t")) == token
    head = f"GET /holder HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}\r\n"
    async with serving() as port:
        answer = await answered(port, f"{head}Connection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"\r\n\r\n" + token.encode())


@pytest.mark.parametrize(("fields", "status"), [(MAX_HEADERS, 200), (MAX_HEADERS + 1, 400)])
async def test_a_head_has_so_many_fields_and_no_more(fields: int, status: int) -> None:
    lines = b"Host: h\r\nConnection: close\r\n" + b"X: b\r\n" * (fields - 2)
    async with serving() as port:
        answer = await answered(port, b"GET /hello HTTP/1.1\r\n" + lines + b"\r\n")
    assert b" %d " % status in answer.splitlines()[0]
