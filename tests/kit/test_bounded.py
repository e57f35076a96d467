"""What a peer answers is read up to its limit, and nobody waits for it meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import ClientResponse, ClientSession

from tests.support.raw_http import bomb
from tests.support.turns import turns_beside
from tests.support.waiting import CEILING_S
from topo.kit.serving.body import bounded_bytes

pytestmark = pytest.mark.virtual_time

MIB = 1 << 20


@asynccontextmanager
async def answering(packed: bytes) -> AsyncIterator[ClientResponse]:
    """The answer of a peer that sends this as gzip, its head read."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
        writer.write(head % len(packed) + packed)
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        ended.set()

    ended = asyncio.Event()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        async with ClientSession() as session, session.get(f"http://127.0.0.1:{port}") as got:
            yield got
        await asyncio.wait_for(ended.wait(), CEILING_S)


@pytest.mark.parametrize("beyond", [0, 1])
async def test_an_answer_is_whole_up_to_its_limit(beyond: int) -> None:
    async with answering(bomb(3)) as response:
        content = await bounded_bytes(response.content, 3 * MIB - beyond)
    assert content == (None if beyond else bytes(3 * MIB))


async def test_others_have_their_turn_while_a_bomb_is_unpacked() -> None:
    """At least one for each MiB; without a pause it would be a handful for all of them."""
    async with answering(bomb(64)) as response:
        await asyncio.sleep(0.1)  # all of the packed answer is here
        with turns_beside() as turns:
            assert await bounded_bytes(response.content, 32 * MIB) is None
    assert turns.number > 32
