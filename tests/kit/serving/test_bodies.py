"""What a port holds of bodies is bounded for all of them together."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from aiohttp import web

from tests.support.waiting import CEILING_S, eventually
from topo.kit.serving.bodies import Bodies
from topo.kit.serving.connections import Connections
from topo.kit.serving.problem import problems
from topo.kit.tasks import Site, start

LIMIT_BYTES = 1 << 20
BODY_BYTES = 256 << 10
SENDERS = 16
Sender = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def serving(bodies: Bodies, leave: asyncio.Event) -> AsyncIterator[int]:
    """The port of an application that keeps each body until it may leave."""

    async def size(request: web.Request) -> web.Response:
        async with bodies.read(request) as content:
            await leave.wait()
            return web.Response(text=str(len(content)))

    app = web.Application(middlewares=[problems], client_max_size=BODY_BYTES)
    app.router.add_post("/", size)
    connections = Connections("test", 100, 1_000_000)
    site = Site(app=app, port=0, connections=connections, host="127.0.0.1", drain_s=0.1)
    async with AsyncExitStack() as stack:
        ((_, port),) = await start(site, stack)
        yield port


async def sending(port: int, sent_bytes: int, body_bytes: int = BODY_BYTES) -> Sender:
    """A connection that has sent so much of its body, unless it was ended before."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n"
    writer.write(head % body_bytes + bytes(sent_bytes))
    return reader, writer


async def status(reader: asyncio.StreamReader) -> bytes:
    """That of the answer; empty where the connection was ended without one."""
    try:
        line = await asyncio.wait_for(reader.readline(), CEILING_S)
    except ConnectionError:
        return b""
    return line.partition(b" ")[2][:3]


async def test_bodies_that_do_not_end_stay_within_the_limit_and_a_small_one_is_answered() -> None:
    bodies, leave = Bodies(LIMIT_BYTES), asyncio.Event()
    leave.set()
    async with serving(bodies, leave) as port:
        senders = [await sending(port, BODY_BYTES - 1) for _ in range(SENDERS)]
        ends = [asyncio.ensure_future(status(reader)) for reader, _ in senders]
        fit = LIMIT_BYTES // BODY_BYTES
        await eventually(lambda: sum(end.done() for end in ends) >= SENDERS - fit - 1)
        assert bodies.held_bytes <= LIMIT_BYTES
        reader, writer = await sending(port, 100, 100)
        assert await status(reader) == b"200"
        assert {end.result() for end in ends if end.done()} == {b""}
        for each in (writer, *(writer for _, writer in senders)):
            each.close()
        await asyncio.gather(*ends)
        await eventually(lambda: bodies.held_bytes == 0)


async def test_a_body_counts_until_what_was_done_with_it_is_done() -> None:
    bodies, leave = Bodies(LIMIT_BYTES), asyncio.Event()
    async with serving(bodies, leave) as port:
        reader, writer = await sending(port, BODY_BYTES)
        await eventually(lambda: bodies.held_bytes == BODY_BYTES)
        leave.set()
        assert await status(reader) == b"200"
        await eventually(lambda: bodies.held_bytes == 0)
        writer.close()


async def test_one_that_came_whole_is_kept_and_the_one_that_comes_gives_way() -> None:
    bodies, leave = Bodies(LIMIT_BYTES - 1), asyncio.Event()
    async with serving(bodies, leave) as port:
        senders = []
        for held_bytes in (BODY_BYTES, 2 * BODY_BYTES, 3 * BODY_BYTES):
            senders.append(await sending(port, BODY_BYTES))
            await eventually(partial(_holds, bodies, held_bytes))
        late = await sending(port, BODY_BYTES)
        assert await status(late[0]) == b""
        leave.set()
        for reader, writer in senders:
            assert await status(reader) == b"200"
            writer.close()
        late[1].close()


def _holds(bodies: Bodies, held_bytes: int) -> bool:
    return bodies.held_bytes == held_bytes
