"""`POST /v1/placements` of a real master that holds a large cluster whose nodes come and go."""

import asyncio
import random
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path

import orjson

from bench import cluster
from bench.client import Answer, Connection, get, on_uvloop, once_ready
from bench.figure import Figure, at_least, at_most, exact, median, p99
from bench.machine import usage
from bench.processes import LOOPBACK, Master, in_child, master
from bench.scale import SEED, CannotRunError, Progress, Scale
from bench.services.fleet import churning
from bench.simulated_workers import simulated_workers
from topo.model.ids import NodeName
from topo.model.machine import NodeFacts
from topo.placement.fragmentation import DEFAULT_MIX
from topo.sim.fleet.facts import facts_of_host

NODES_PER_DRAGONFLY, DRAGONFLIES_PER_SWITCHBOX = 8, 12
GPUS = 8
FILLED = 0.5
"""Share of the GPUs that jobs of the mix hold while others ask."""
RESTLESS = 200
"""Nodes whose worker is connected; one GPU of each fails and heals in turn."""
WRITER = "bench-writer-token"
_PATH = "/v1/placements"
_BODIES = 200
_BEAT_S = 60.0


@dataclass(slots=True)
class Load:
    """What one run saw: answers a second, latencies, how many fitted, changes, cores taken."""

    per_s: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)
    feasible: int = 0
    churn_per_s: float = 0.0
    master_cores: float = 0.0


def measure(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """Placements a second as fast as they are answered, then latencies at a steady rate."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        progress(f"a master starts with {scale.nodes:,} nodes")
        with master(home, *_flags(home, scale.nodes)) as running:
            progress(f"{FILLED:.0%} is held; {scale.load_runs} x {2 * scale.load_s:g} s of load")
            fast, steady = in_child(loaded, scale, running)
    size = f"{scale.nodes:,} nodes"
    churn = f"{median([run.churn_per_s for run in steady]).value:.0f} changes/s"
    fits = sum(run.feasible for run in fast) / sum(len(run.latencies_ms) for run in fast)
    cores = max(run.master_cores for run in fast)
    note = f"{scale.connections} connections, {cores:.2f} cores of the master, {fits:.0%} fit"
    name = f"POST {_PATH}, {size}, {churn}"
    yield Figure(name, median([run.per_s for run in fast]), "placements/s", at_least(500), note)
    every = [ms for run in steady for ms in run.latencies_ms]
    rate = f"{scale.placements_per_s:g} placements/s"
    note = "sent at fixed times, whether or not the last one was answered"
    yield Figure(f"{name}, {rate}: p99 latency", p99(every), "ms", at_most(10), note)
    yield Figure(f"{name}, {rate}: median latency", median(every), "ms")
    cores = max(run.master_cores for run in steady)
    yield Figure(f"master CPU at {rate}, {churn}", exact(cores), "cores", at_most(1))


def _flags(home: Path, nodes: int) -> tuple[str, ...]:
    config, writers, workers = home / "nodegroup.yaml", home / "writers", home / "workers"
    config.write_bytes(orjson.dumps({"group": _groups(nodes)}))
    writers.write_text(WRITER, encoding="utf-8")
    workers.write_text(WRITER, encoding="utf-8")
    return (
        "--mode=config",
        f"--config-file={config}",
        f"--gpus-per-node={GPUS}",
        f"--api-token-file={writers}",
        f"--worker-token-file={workers}",
        "--max-holds=100000",
    )


def _groups(nodes: int) -> list[object]:
    """Switchboxes of twelve dragonflies of eight nodes."""
    names = [f"node-{number}" for number in range(nodes)]
    flies = [
        {"name": f"dragonfly-{at}", "kind": "dragonfly", "child": names[first:][:8]}
        for at, first in enumerate(range(0, nodes, NODES_PER_DRAGONFLY))
    ]
    return [
        {"name": f"switchbox-{at}", "kind": "switchbox", "child": flies[first:][:12]}
        for at, first in enumerate(range(0, len(flies), DRAGONFLIES_PER_SWITCHBOX))
    ]


def loaded(scale: Scale, running: Master) -> tuple[list[Load], list[Load]]:
    """As fast as possible and at the steady rate in turn, from a process that moves the nodes."""

    async def load() -> tuple[list[Load], list[Load]]:
        fast, steady = [], []
        opened = [
            await Connection.open(LOOPBACK, running.api_port) for _ in range(scale.connections)
        ]
        await once_ready(opened[0], get("/ready"))
        await _fill(opened[0], scale.nodes)
        requests = [_post(_PATH, body) for body in _jobs(random.Random(SEED), _BODIES)]
        async with (
            simulated_workers(running.reports_port, WRITER, _facts(scale), _BEAT_S) as workers,
            churning(scale.churn_per_s, workers) as sent,
        ):
            await _as_fast(opened, requests, scale.load_s / 10)
            for _ in range(scale.load_runs):
                async with _watched(running.pid, sent, Load()) as seen:
                    await _as_fast(opened, requests, scale.load_s, seen)
                fast.append(seen)
                async with _watched(running.pid, sent, Load()) as seen:
                    await _steadily(opened, requests, scale, seen)
                steady.append(seen)
        return fast, steady

    with on_uvloop() as runner:
        return runner.run(load())


async def _fill(connection: Connection, nodes: int) -> None:
    """Holds jobs of the mix until so much is taken; what was held before is kept."""
    held = orjson.loads((await connection.ask(get("/v1/holds"))).body)["holds"]
    taken = sum(hold["gpus"] for hold in held)
    for job in _jobs(random.Random(SEED + 1), nodes):
        if taken >= FILLED * nodes * GPUS:
            return
        answer = await connection.ask(_post("/v1/holds", {**job, "hold_s": 3600}))
        if _fits(answer):
            taken += job["pods"] * job["gpus_per_pod"]


def _jobs(choice: random.Random, number: int) -> Iterator[dict[str, int]]:
    """Jobs of the mix that reports assume, drawn by its weights."""
    weights = [share.weight for share in DEFAULT_MIX]
    for share in choice.choices(DEFAULT_MIX, weights, k=number):
        job = {"pods": share.pods, "gpus_per_pod": share.gpus_per_pod}
        yield job if share.group_size is None else {**job, "group_size": share.group_size}


def _post(path: str, body: object) -> bytes:
    content = orjson.dumps(body)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {WRITER}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def _fits(answer: Answer) -> bool:
    if answer.status != 200:
        raise CannotRunError(f"a placement's answer: {answer.body.decode()[:200]}")
    return answer.body.startswith(b'{"feasible":true')


async def _ask(connection: Connection, request: bytes, load: Load, began_s: float) -> None:
    answer = await connection.ask(request)
    load.feasible += _fits(answer)
    load.latencies_ms.append((time.monotonic() - began_s) * 1000)


async def _as_fast(
    opened: Sequence[Connection],
    requests: Sequence[bytes],
    seconds: float,
    load: Load | None = None,
) -> None:
    """Every connection asks again as soon as it is answered."""
    seen = Load() if load is None else load
    began_s = time.monotonic()
    source = cycle(requests)

    async def ask_again(connection: Connection) -> None:
        while (now_s := time.monotonic()) < began_s + seconds:
            await _ask(connection, next(source), seen, now_s)

    async with asyncio.TaskGroup() as group:
        for connection in opened:
            group.create_task(ask_again(connection))
    seen.per_s = len(seen.latencies_ms) / (time.monotonic() - began_s)


async def _steadily(
    opened: Sequence[Connection], requests: Sequence[bytes], scale: Scale, load: Load
) -> None:
    """Sent at fixed times; one that finds no connection free waits for one, and that counts."""
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for connection in opened:
        free.put_nowait(connection)
    began_s, source = time.monotonic(), cycle(requests)

    async def ask(due_s: float) -> None:
        connection = await free.get()
        await _ask(connection, next(source), load, due_s)
        free.put_nowait(connection)

    async with asyncio.TaskGroup() as group:
        for number in range(round(scale.placements_per_s * scale.load_s)):
            due_s = began_s + number / scale.placements_per_s
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            group.create_task(ask(due_s))
    load.per_s = len(load.latencies_ms) / (time.monotonic() - began_s)


@asynccontextmanager
async def _watched(pid: int, sent: Sequence[float], load: Load) -> AsyncIterator[Load]:
    """Counts the master's processor time and the changes sent inside the block."""
    before, changes, began_s = usage(pid), len(sent), time.monotonic()
    yield load
    load.master_cores = usage(pid).cores_since(before)
    load.churn_per_s = (len(sent) - changes) / (time.monotonic() - began_s)


def _facts(scale: Scale) -> Iterator[NodeFacts]:
    """What the restless nodes' workers say: nodes all over the tree, by the names it has.

    No model of GPU: nobody says one of the other nodes, and a job never mixes two.
    """
    number = min(RESTLESS, scale.nodes // 2)
    apart = scale.nodes // number
    for at, node in enumerate(cluster.cluster(number).nodes):
        facts = facts_of_host(node)
        name = NodeName(f"node-{at * apart}")
        gpus = tuple(replace(gpu, model=None) for gpu in facts.gpus)
        identity = replace(facts.identity, name=name)
        yield replace(facts, identity=identity, gpus=gpus, peers=None)
