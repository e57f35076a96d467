"""Bombs on every port of a real process: it answers others meanwhile and does not grow."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import ClientSession, ClientTimeout

from tests.master.world import TOKEN
from tests.support.raw_http import bomb, packed_head
from tests.support.waiting import CEILING_S

pytestmark = pytest.mark.slow

CONNECTIONS = 48
ROOM_KB = 256 * 1024
"""For 48 reports of a MiB, packed and unpacked, and what else the process is busy with. Unpacked
in whole the bodies are 12 GiB."""
_TOKEN_HEADER = f"Authorization: Bearer {TOKEN}"


@dataclass
class Service:
    """A running process with its ports by name."""

    process: asyncio.subprocess.Process
    ports: dict[str, int]

    @property
    def peak_kb(self) -> int:
        """The most memory that it ever had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line)


@asynccontextmanager
async def service(*command: str, ports: int) -> AsyncIterator[Service]:
    """A service of this product once it listens on so many ports."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *command, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    found: dict[str, int] = {}
    try:
        async with asyncio.timeout(CEILING_S):
            while len(found) < ports:
                event = json.loads(await process.stdout.readline())
                if event["event"] == "listening":
                    found[event["site"]] = event["port"]
        silent = asyncio.ensure_future(process.stdout.read())
        yield Service(process, found)
    finally:
        process.kill()
        await process.wait()
        await silent


async def _status(port: int, head: bytes, packed: bytes) -> int:
    """The status of the answer, whether or not the sender got to the end by then."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head + packed)
    line = await asyncio.wait_for(reader.readline(), CEILING_S)
    writer.close()
    return int(line.split()[1])


async def _attacked(
    running: Service, port: int, heads: tuple[bytes, ...], packed: bytes
) -> set[int]:
    """The statuses of all bombs, while `/health` is asked for all the time and answers."""
    health = running.ports.get("api", port)
    bombs = asyncio.gather(
        *(_status(port, heads[i % len(heads)], packed) for i in range(CONNECTIONS))
    )
    async with ClientSession(timeout=ClientTimeout(total=CEILING_S)) as session:
        while not bombs.done():
            async with session.get(f"http://127.0.0.1:{health}/health") as answer:
                assert answer.status == 200
    return set(await bombs)


async def test_bombs_that_nobody_may_send_are_refused_on_both_ports_of_the_master(
    token_flag: str,
) -> None:
    packed = bomb(256)
    size = len(packed)
    flags = ("--mode=dragonfly", "--server-port=0", "--rpc-server-port=0", token_flag)
    async with service("master", *flags, "--bind-address=127.0.0.1", ports=2) as master:
        before_kb = master.peak_kb
        reports = (
            packed_head("POST", "/v1/reports", size),
            packed_head("POST", "/v1/reports", size, "Authorization: Bearer wrong"),
            packed_head("GET", "/v1/reports", size),
            packed_head("POST", "/elsewhere", size),
        )
        assert await _attacked(master, master.ports["reports"], reports, packed) == {401, 404, 405}
        api = (
            packed_head("POST", "/v1/holds", size),
            packed_head("GET", "/metrics", size),
            packed_head("DELETE", "/health", size),
            packed_head("POST", "/elsewhere", size),
        )
        statuses = await _attacked(master, master.ports["api"], api, packed)
        assert statuses == {403, 200, 405, 404}
        assert master.peak_kb - before_kb < ROOM_KB


async def test_bombs_of_who_may_send_stop_at_the_limit(token_flag: str) -> None:
    """Each would be 256 MiB, and is short enough to be taken as it comes."""
    packed = bomb(256)
    heads = (packed_head("POST", "/v1/reports", len(packed), _TOKEN_HEADER),)
    flags = ("--mode=dragonfly", "--server-port=0", "--rpc-server-port=0", token_flag)
    async with service("master", *flags, "--bind-address=127.0.0.1", ports=2) as master:
        before_kb = master.peak_kb
        statuses = await _attacked(master, master.ports["reports"], heads, packed)
        assert 413 in statuses
        assert statuses <= {413, 429}
        assert master.peak_kb - before_kb < ROOM_KB


async def test_bombs_at_the_workers_metrics_are_not_unpacked() -> None:
    packed = bomb(256)
    heads = (
        packed_head("GET", "/metrics", len(packed)),
        packed_head("POST", "/health", len(packed)),
    )
    flags = ("--metrics-address=127.0.0.1:0", "--server-address=127.0.0.1:9", "--node-name=n1")
    async with service("worker", *flags, ports=1) as worker:
        before_kb = worker.peak_kb
        assert await _attacked(worker, worker.ports["metrics"], heads, packed) == {200, 405}
        assert worker.peak_kb - before_kb < ROOM_KB
