"""What a stranger without a token can send to an open port. None of it may be felt elsewhere."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from tests.support.raw_http import bomb
from tests.support.readers import narrow_socket

_BOMB = bomb(64)
_MANY = 24
_LINES = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /node_group HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/reports HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    b"GET /\x00\x1b[2J HTTP/1.1\r\nHost: a\r\n\r\n",
    b'POST /v1/placements HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"pods":1',
    b"GET /v1/topology/events HTTP/1.1\r\nHost: a\r\nLast-Event-ID: 99999999999999999999\r\n\r\n",
)


class Line(NamedTuple):
    """One connection of an attack."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    chance: random.Random

    async def send(self, data: bytes) -> None:
        """Returns when the system has taken it."""
        self.writer.write(data)
        await self.writer.drain()


async def attack(how: str, ports: tuple[int, int], lasts_s: float, seed: int) -> None:
    """Does one of `schedule.ATTACKS` to the ports (API, reports) for that long."""
    chance = random.Random(seed)
    with suppress(TimeoutError):
        async with asyncio.timeout(lasts_s), asyncio.TaskGroup() as group:
            for number in range(_MANY):
                group.create_task(_again(_ATTACKS[how], ports[number % 2], chance))


async def _again(
    one: Callable[[Line], Awaitable[object]], port: int, chance: random.Random
) -> None:
    """The same attack, connection after connection, until cancelled."""
    while True:
        with suppress(OSError):
            await _once(one, port, chance)
        await asyncio.sleep(0.1)


async def _once(one: Callable[[Line], Awaitable[object]], port: int, chance: random.Random) -> None:
    wire = await narrow_socket(f"http://127.0.0.1:{port}")
    reader, writer = await asyncio.open_connection(sock=wire, limit=1024)
    try:
        await one(Line(reader, writer, chance))
    finally:
        writer.transport.abort()


async def _bombs(line: Line) -> None:
    path = line.chance.choice(("/v1/placements", "/v1/holds", "/v1/reports", "/health"))
    await line.send(_head("POST", path, len(_BOMB), "Content-Encoding: gzip") + _BOMB)
    await line.reader.read(1024)


async def _malformed(line: Line) -> None:
    await line.send(line.chance.choice((*_LINES, line.chance.randbytes(200) + b"\r\n\r\n")))
    async with asyncio.timeout(0.5):
        await line.reader.read(1024)


async def _deaf(line: Line) -> None:
    path = line.chance.choice(("/v1/topology?depth=9", "/v1/topology/events", "/openapi.json"))
    await line.send(_head("GET", path, 0) * 50)
    await asyncio.sleep(60)


async def _slow_heads(line: Line) -> None:
    for byte in _head("POST", "/v1/holds", 100):
        await line.send(bytes([byte]))
        await asyncio.sleep(0.2)


async def _long_heads(line: Line) -> None:
    await line.send(_head("GET", "/node_group", 0, f"X-Long: {'a' * 500_000}"))
    await line.reader.read(1024)


async def _false_reports(line: Line) -> None:
    node = f"node-sample{line.chance.randint(1, 20)}"
    report = {"v": 1, "node": node, "instance": "a" * 8, "seq": 0, "kind": "beat"}
    body = json.dumps(report).encode()
    bearer = f"Authorization: Bearer {line.chance.randbytes(8).hex()}"
    await line.send(_head("POST", "/v1/reports", len(body), bearer) + body)
    await line.reader.read(1024)


def _head(method: str, path: str, length: int, *headers: str) -> bytes:
    lines = (f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {length}", *headers)
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


_ATTACKS: Mapping[str, Callable[[Line], Awaitable[object]]] = {
    "bombs": _bombs,
    "malformed": _malformed,
    "deaf readers": _deaf,
    "slow heads": _slow_heads,
    "long heads": _long_heads,
    "false reports": _false_reports,
}
