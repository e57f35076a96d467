"""What a port holds for those who ask: connections, and answers that nobody takes."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import orjson
import pytest
from aiohttp import ClientSession, web
from structlog.testing import capture_logs

from tests.support.readers import SlowReader, narrow_socket, slow_readers
from tests.support.waiting import CEILING_S, eventually
from topo.kit.serving.connections import HEADS_BYTES, KEEPALIVE_S, MAX_HEADERS, Connections
from topo.kit.serving.in_flight import PIECE_BYTES, TAKEN_WITHIN_S
from topo.kit.tasks import Site, start
from topo.kit.tls import server_context

BODY_BYTES = 1_000_000
BUDGET_BYTES = 4_000_000
SHARED = b"s" * BODY_BYTES


class _Body(bytes):
    """Bytes that tell the port which made them when nobody has them any more."""

    port: "_Port"

    def __del__(self) -> None:
        self.port.gone += 1


@dataclass
class _Port:
    connections: Connections
    url: str
    session: ClientSession
    asking: Callable[..., Awaitable[SlowReader]]
    asked: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    gone: int = 0
    """Bodies of its own answers that nobody has any more."""

    async def get(self, path: str) -> tuple[int, bytes]:
        """Status and body as a reader gets them that takes what comes."""
        async with self.session.get(self.url + path) as answer:
            return answer.status, await answer.read()

    async def reader(self, path: str) -> SlowReader:
        """A slow reader whose answer is on its way."""
        reader = await self.asking(path)
        await self.answered()
        return reader

    async def answered(self) -> None:
        """Returns when the handler has made one more answer and its first piece is written."""
        await asyncio.wait_for(self.asked.get(), CEILING_S)
        for _ in range(10):
            await asyncio.sleep(0)


@asynccontextmanager
async def _port(
    limit: int = 100,
    budget_bytes: int = BUDGET_BYTES,
    *,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[_Port]:
    async def own(_: web.Request) -> web.Response:
        port.asked.put_nowait("own")
        body = _Body(bytes(BODY_BYTES))
        body.port = port
        return web.Response(body=body)

    async def shared(_: web.Request) -> web.Response:
        port.asked.put_nowait("shared")
        return web.Response(body=SHARED)

    async def busy(_: web.Request) -> web.Response:
        port.asked.put_nowait("busy")
        await port.go_on.wait()
        return web.Response(text="done")

    async def small(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def taken(request: web.Request) -> web.Response:
        return web.Response(text=str(len(await request.read())))

    app = web.Application()
    for path, handler in (("/own", own), ("/shared", shared), ("/busy", busy), ("/small", small)):
        app.router.add_get(path, handler)
    app.router.add_post("/taken", taken)
    connections = Connections("api", limit, budget_bytes)
    async with AsyncExitStack() as stack:
        site = Site(app=app, port=0, connections=connections, host="127.0.0.1", drain_s=0, tls=tls)
        [(host, number)] = await start(site, stack)
        session = await stack.enter_async_context(ClientSession())
        scheme = "http" if tls is None else "https"
        url = f"{scheme}://{host}:{number}"
        port = _Port(connections, url, session, stack.enter_context(slow_readers(url)))
        yield port


async def _some(reader: SlowReader, least: int) -> int:
    """So many bytes, or a few more."""
    taken = 0
    while taken < least and (part := await reader.take()):
        taken += len(part)
    return taken


async def test_unread_answers_stay_within_the_budget_and_the_slowest_reader_is_cut() -> None:
    async with _port() as port:
        readers, most = [], 0
        for _ in range(12):
            readers.append(await port.reader("/own"))
            most = max(most, port.connections.in_flight.held_bytes)
        assert BUDGET_BYTES / 2 < most <= BUDGET_BYTES + BODY_BYTES + PIECE_BYTES
        cut = port.connections.ended["budget"]
        assert cut >= 12 - BUDGET_BYTES // BODY_BYTES
        status, body = await port.get("/own")
        assert (status, len(body)) == (200, BODY_BYTES), "a reader beside them gets all of it"
        assert [each.is_cut for each in readers[:cut]] == [True] * cut, "who waited longest"


async def test_one_body_counts_once_however_many_leave_it() -> None:
    async with _port() as port:
        for _ in range(20):
            await port.reader("/shared")
        held = port.connections.in_flight.held_bytes
        assert BODY_BYTES < held < BODY_BYTES + 21 * PIECE_BYTES
        assert port.connections.ended["budget"] == 0


@pytest.mark.virtual_time
async def test_who_does_not_take_a_piece_in_time_is_cut_and_nothing_is_left_of_its_answer() -> None:
    async with _port() as port:
        readers = [await port.reader("/own") for _ in range(3)]
        await asyncio.sleep(TAKEN_WITHIN_S - 1)
        assert port.connections.ended["unread"] == 0
        await asyncio.sleep(2)
        assert port.connections.ended["unread"] == 3
        assert [await each.was_cut() for each in readers] == [True] * 3
        assert (port.connections.in_flight.held_bytes, len(port.connections)) == (0, 0)
        assert port.gone == 3


@pytest.mark.slow  # a narrow window takes 7 s for a megabyte, whatever the clock says
@pytest.mark.virtual_time
async def test_who_takes_a_piece_in_time_gets_the_whole_answer_however_long_it_lasts() -> None:
    loop = asyncio.get_running_loop()
    async with _port() as port:
        reader, taken = await port.reader("/own"), 0
        began_s = loop.time()
        while taken < BODY_BYTES:
            await asyncio.sleep(0.75 * TAKEN_WITHIN_S)
            taken += await _some(reader, BODY_BYTES // 4)
        assert loop.time() - began_s > 2 * TAKEN_WITHIN_S
        assert sum(port.connections.ended.values()) == 0


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_an_idle_connection_keeps_nothing_of_its_last_answer(method: str) -> None:
    async with _port() as port:
        async with port.session.request(method, port.url + "/own") as answer:
            assert answer.headers["Content-Length"] == str(BODY_BYTES)
            assert len(await answer.read()) == (BODY_BYTES if method == "GET" else 0)
        await eventually(lambda: port.gone == 1)
        assert len(port.connections) == 1


async def test_a_reader_that_takes_nothing_of_a_body_beyond_the_budget_is_served_alone() -> None:
    async with _port(budget_bytes=BODY_BYTES // 2) as port:
        first = await port.reader("/own")
        second = await port.reader("/own")
        await eventually(lambda: port.connections.ended["budget"] == 1)
        assert await first.was_cut()
        taken = b""
        while len(taken) < BODY_BYTES:
            taken += await second.take()


async def test_beyond_the_limit_the_connection_that_is_idle_longest_gives_way() -> None:
    async with _port(limit=2) as port:
        readers = [await port.asking("/small") for _ in range(2)]
        answers = [await each.take() for each in readers]
        assert all(b"200 OK" in answer for answer in answers)
        third = await port.asking("/small")
        assert b"200 OK" in await third.take()
        assert await readers[0].was_cut() or not await readers[0].take()
        assert port.connections.ended["idle"] == 1
        await asyncio.get_running_loop().sock_sendall(
            readers[1].wire, b"GET /small HTTP/1.1\r\nHost: h\r\n\r\n"
        )
        assert b"200 OK" in await readers[1].take()


async def test_beyond_the_limit_with_none_idle_the_slowest_reader_gives_way() -> None:
    async with _port(limit=2) as port:
        slow = await port.reader("/own")
        busy = await port.reader("/busy")
        third = await port.asking("/small")
        assert b"200 OK" in await third.take()
        assert await slow.was_cut()
        assert port.connections.ended["room"] == 1
        port.go_on.set()
        assert b"done" in await busy.take()


async def test_who_takes_piece_after_piece_is_not_idle_between_two_of_them() -> None:
    async with _port(limit=2) as port:
        slow = await port.reader("/own")
        reading = await port.reader("/own")
        came, resumed = cast("Any", object()), port.connections.on_reader_resumed

        def another_comes(connection: Any, transport: Any) -> None:
            resumed(connection, transport)
            port.connections.on_reader_resumed = resumed  # type: ignore[method-assign]
            port.connections.admit(came)

        port.connections.on_reader_resumed = another_comes  # type: ignore[method-assign]
        assert await _some(reading, BODY_BYTES) >= BODY_BYTES
        assert await slow.was_cut()
        assert (port.connections.ended["room"], port.connections.ended["idle"]) == (1, 0)
        port.connections.on_closed(came)


async def test_beyond_the_limit_with_all_at_work_the_new_one_is_told_why_and_closed() -> None:
    async with _port(limit=2) as port:
        busy = [await port.reader("/busy") for _ in range(2)]
        with capture_logs() as logs:
            refused = [await (await port.asking()).rest() for _ in range(3)]
        for answer in refused:
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 ")
            assert b"Retry-After: 10" in head
            said = orjson.loads(body)
            assert (said["detail"], said["fix"]) == ("too many connections are open", "keep fewer")
        assert [log["ended"] for log in logs] == [{"refused": 1}], "one line a minute, no flood"
        assert (len(port.connections), port.connections.ended["refused"]) == (2, 3)
        port.go_on.set()
        assert [b"done" in await each.take() for each in busy] == [True, True]
        assert (await port.get("/small"))[0] == 200


async def test_where_the_files_of_the_process_are_the_limit_the_refusal_says_so() -> None:
    async with _port(limit=9) as port:
        port.connections.lower_limit(10)
        assert b"ulimit" not in port.connections.refusal
        port.connections.lower_limit(1)
        busy = await port.reader("/busy")
        refused = await (await port.asking()).rest()
        assert b"ulimit -n" in refused
        port.go_on.set()
        assert b"done" in await busy.take()


@pytest.mark.virtual_time
async def test_a_head_that_never_ends_is_held_no_longer_than_an_idle_connection() -> None:
    head = b"GET /small HTTP/1.1\r\nX-Slow: yes\r\n"
    async with _port() as port:
        reader = await port.asking()
        for letter in head[:15]:
            await asyncio.get_running_loop().sock_sendall(reader.wire, bytes([letter]))
            await asyncio.sleep(KEEPALIVE_S / 16)
        assert len(port.connections) == 1
        await asyncio.sleep(KEEPALIVE_S / 8)
        assert len(port.connections) == 0


async def test_heads_that_do_not_end_stay_within_the_limit_and_the_oldest_is_cut() -> None:
    """A head may have hundreds of kilobytes, and needs no token."""
    loop = asyncio.get_running_loop()
    head = b"GET /small HTTP/1.1\r\nHost: h\r\n"
    head += b"".join(b"X-%d: %s\r\n" % (each, b"a" * 8000) for each in range(MAX_HEADERS - 1))
    held = HEADS_BYTES // len(head)
    async with _port() as port:
        sender = await port.asking()
        post = b"POST /taken HTTP/1.1\r\nHost: h\r\nContent-Length: 70000\r\n\r\n" + bytes(70000)
        await loop.sock_sendall(sender.wire, post)
        assert b"70000" in await sender.take()
        oldest = await port.asking()
        await loop.sock_sendall(oldest.wire, head)
        await eventually(lambda: port.connections.heads_bytes == len(head))
        for _ in range(held + 3):
            await loop.sock_sendall((await port.asking()).wire, head)
        await eventually(lambda: port.connections.ended["heads"] == 4)
        assert port.connections.heads_bytes <= HEADS_BYTES
        assert await oldest.was_cut() or not await oldest.take()
        await loop.sock_sendall(sender.wire, post)
        assert b"70000" in await sender.take(), "who ends its heads is not cut, however old"


async def test_a_head_that_ends_is_held_no_more_and_a_body_is_none() -> None:
    loop = asyncio.get_running_loop()
    async with _port() as port:
        reader = await port.asking()
        await loop.sock_sendall(reader.wire, b"POST /small HTTP/1.1\r\nContent-Length: 9\r\nH")
        await eventually(lambda: port.connections.heads_bytes > 0)
        await loop.sock_sendall(reader.wire, b"ost: h\r\n\r\nbody")
        await eventually(lambda: port.connections.heads_bytes == 0)
        await loop.sock_sendall(reader.wire, b" more")
        assert b" 405 " in await reader.take()
        assert port.connections.heads_bytes == 0
        beginner = await port.asking()
        await loop.sock_sendall(beginner.wire, b"GET /sm")
        await eventually(lambda: port.connections.heads_bytes == 7)
        beginner.wire.close()
        await eventually(lambda: port.connections.heads_bytes == 0)


@pytest.mark.virtual_time
async def test_the_same_holds_over_tls(pair: tuple[Path, Path]) -> None:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    async with _port(tls=server_context(*pair)) as port:
        writers = []
        for _ in range(12):
            wire = await narrow_socket(port.url)
            reader, writer = await asyncio.open_connection(
                sock=wire, ssl=trusting, server_hostname="", limit=1024
            )
            writer.write(b"GET /own HTTP/1.1\r\nHost: h\r\n\r\n")
            writers.append((reader, writer))
            await port.answered()
        held = port.connections.in_flight.held_bytes
        assert held <= BUDGET_BYTES + BODY_BYTES + PIECE_BYTES
        assert port.connections.ended["budget"] > 0
        await asyncio.sleep(TAKEN_WITHIN_S + 1)
        assert port.connections.in_flight.held_bytes == 0
        for _, writer in writers:
            writer.transport.abort()
