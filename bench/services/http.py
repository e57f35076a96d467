"""`GET /node_group` of a real master that holds a large cluster, read by another process."""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson

from bench.client import Answer, Connection, get, on_uvloop, once_ready
from bench.discovery.core import built_state
from bench.figure import Figure, at_least, at_most, exact, median, p99
from bench.processes import LOOPBACK, in_child, master
from bench.scale import CannotRunError, Progress, Scale
from topo.publish.nodegroup import render

_PATH = "/node_group"


@dataclass(frozen=True, slots=True)
class Load:
    """One run of the generator: answers per second, every latency, and its own share of a core."""

    per_s: float
    latencies_ms: tuple[float, ...]
    generator_cores: float


def measure(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """What an unchanged poll costs on the wire, and how many full answers a second there are."""
    size = f"{scale.nodes:,} nodes"
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        progress(f"a master starts with {size}")
        config = home / "nodegroup.yaml"
        document = in_child(rendered, scale.nodes)
        config.write_bytes(b'{"group": ' + document + b"}")
        with master(home, "--mode=config", f"--config-file={config}") as running:
            full, unchanged = in_child(first_answers, running.api_port)
            if _by_name(orjson.loads(full.body)) != _by_name(orjson.loads(document)):
                raise CannotRunError("the master serves another document than it was given")
            wire = len(get(_PATH, If_None_Match=_tag(full))) + unchanged.size
            note = f"status {unchanged.status}; request and answer, without TCP's own bytes"
            yield Figure("unchanged poll (ETag)", exact(wire), "bytes", at_most(1000), note)
            zipped = get(_PATH, Accept_Encoding="gzip")
            yield from _under_load(scale, progress, running.api_port, zipped)
            polled = get(_PATH, If_None_Match=_tag(full))
            yield from _under_load(scale, progress, running.api_port, polled)


def _under_load(scale: Scale, progress: Progress, port: int, request: bytes) -> Iterator[Figure]:
    full = b"If-None-Match" not in request
    what = "full gzip" if full else "unchanged poll"
    name = f"{what}, {scale.nodes:,} nodes, {scale.connections} connections"
    progress(f"{name}: {scale.load_runs} x {scale.load_s:g} s")
    args = (port, request, scale.connections, scale.load_s)
    runs = [in_child(generated, *args) for _ in range(scale.load_runs)]
    cores = max(run.generator_cores for run in runs)
    note = f"from another process, which kept {cores:.0%} of a core busy"
    rates = median([run.per_s for run in runs])
    latencies = [ms for run in runs for ms in run.latencies_ms]
    yield Figure(name, rates, "req/s", at_least(2000) if full else None, note)
    yield Figure(f"{what}: median latency", median(latencies), "ms")
    yield Figure(f"{what}: p99 latency", p99(latencies), "ms")


def _by_name(children: list[Any]) -> list[Any]:
    """The same document in the order of the names: given names and found ones are sorted unlike."""
    ordered = sorted(children, key=itemgetter("name"))
    return [each | {"child": _by_name(each.get("child", []))} for each in ordered]


def rendered(nodes: int) -> bytes:
    """The vendor's document of a cluster, which is valid input of `--mode config` too."""
    return render(built_state(nodes).snapshot.forest)


def first_answers(port: int) -> tuple[Answer, Answer]:
    """The full document once the master shows it, and the answer to who has it already."""

    async def ask() -> tuple[Answer, Answer]:
        connection = await Connection.open(LOOPBACK, port)
        full = await once_ready(connection, get(_PATH))
        unchanged = await connection.ask(get(_PATH, If_None_Match=_tag(full)))
        connection.close()
        return full, unchanged

    with on_uvloop() as runner:
        return runner.run(ask())


def _tag(answer: Answer) -> str:
    return answer.header("ETag") or ""


def generated(port: int, request: bytes, connections: int, seconds: float) -> Load:
    """The load of so many kept connections, each asking again as soon as it is answered.

    The first tenth warms up and is not counted. Raises `CannotRunError` at any other answer than
    the first one.
    """

    async def load() -> Load:
        opened = [await Connection.open(LOOPBACK, port) for _ in range(connections)]
        expected = await opened[0].ask(request)
        await _ask_until(opened, request, expected, seconds / 10)
        began_s, busy_s = time.monotonic(), time.process_time()
        latencies = await _ask_until(opened, request, expected, seconds)
        took_s = time.monotonic() - began_s
        for connection in opened:
            connection.close()
        cores = (time.process_time() - busy_s) / took_s
        return Load(len(latencies) / took_s, tuple(latencies), cores)

    with on_uvloop() as runner:
        return runner.run(load())


async def _ask_until(
    opened: list[Connection], request: bytes, expected: Answer, seconds: float
) -> list[float]:
    until_s = time.monotonic() + seconds
    latencies: list[float] = []

    async def ask_again(connection: Connection) -> None:
        while (began_s := time.monotonic()) < until_s:
            answer = await connection.ask(request)
            latencies.append((time.monotonic() - began_s) * 1000)
            if (answer.status, len(answer.body)) != (expected.status, len(expected.body)):
                raise CannotRunError(f"an answer of status {answer.status} under load")

    async with asyncio.TaskGroup() as group:
        for connection in opened:
            group.create_task(ask_again(connection))
    return latencies
