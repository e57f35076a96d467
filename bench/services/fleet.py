"""From a change at a worker to `GET /node_group`, with a thousand workers connected.

The clock starts before the worker's first report of the change is written and stops when an answer
that shows it has been read. What a real worker adds before is the time until its probe looks.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle
from pathlib import Path

from bench import cluster
from bench.client import Connection, on_uvloop
from bench.figure import Figure, at_most, exact, median, p99
from bench.machine import usage
from bench.processes import LOOPBACK, Master, in_child, switchbox_master
from bench.scale import Progress, Scale
from bench.services.watch import Shown, Sight, Watch
from bench.simulated_workers import QUICK_S, SimWorker, simulated_workers
from topo.model.forest import Status
from topo.model.ids import DRAGONFLY
from topo.model.machine import NodeFacts, ServerPeers
from topo.model.wire import FactsChange
from topo.sim.fleet.facts import facts_of_host

_CONFIRMED = f"readings {QUICK_S:g} s apart, as the worker sends them"


@dataclass(slots=True)
class Phase:
    """What one phase saw: milliseconds per kind of change, further changes a second, CPU."""

    fails: list[float] = field(default_factory=list)
    heals: list[float] = field(default_factory=list)
    cables: list[float] = field(default_factory=list)
    churn_per_s: float = 0.0
    master_cores: float = 0.0


@dataclass(frozen=True, slots=True)
class Cast:
    """Who does what: `sick` fail and heal, `loose` get the cables beside them, `restless` churn."""

    sick: Sequence[SimWorker]
    loose: Sequence[tuple[SimWorker, ServerPeers]]
    restless: Sequence[SimWorker]


def measure(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """Times to visibility in a calm cluster, then under constant churn."""
    name = cluster.world_name(scale.workers)
    seconds = 2 * scale.samples / scale.samples_per_s
    progress(f"{scale.workers:,} workers connect and are followed for {seconds:.0f} s")
    flags = f"--beat-interval={scale.beat_s}"
    with (
        tempfile.TemporaryDirectory() as folder,
        switchbox_master(Path(folder), name, flags) as (running, token),
    ):
        calm, churned = in_child(followed, scale, running, token)
    yield from _figures(scale, calm, "calm")
    under = f"{churned.churn_per_s:.0f} changes/s"
    yield from _figures(scale, churned, under)
    yield Figure(f"master CPU, {under}", exact(churned.master_cores), "cores")


def _figures(scale: Scale, phase: Phase, when: str) -> Iterator[Figure]:
    kinds = (
        ("GPU fails → NotReady", phase.fails, f"2 bad {_CONFIRMED}"),
        ("GPU heals → Ready", phase.heals, f"3 good {_CONFIRMED}"),
        ("new cable → dragonfly", phase.cables, "one reading decides: the path alone"),
    )
    for what, times, note in kinds:
        name = f"{what}, {scale.workers:,} workers, {when}"
        yield Figure(f"{name}: p99", p99(times), "ms", at_most(1000), note)
        yield Figure(f"{name}: median", median(times), "ms")


def followed(scale: Scale, running: Master, token: str) -> tuple[Phase, Phase]:
    """Both phases, from a process that holds all workers and the reader."""

    async def follow() -> tuple[Phase, Phase]:
        wired = [facts_of_host(node) for node in cluster.cluster(scale.workers).nodes]
        said = [_unplugged(f) if _is_loose(at, scale) else f for at, f in enumerate(wired)]
        async with (
            simulated_workers(running.reports_port, token, said, scale.beat_s) as workers,
            _watching(running.api_port) as watch,
        ):
            await watch.until_shown([worker.node for worker in workers])
            first, second = _casts(scale, workers, wired)
            calm = await _phase(scale, first, watch, running.pid)
            async with churning(scale.churn_per_s, second.restless) as sent:
                began_s = time.monotonic()
                churned = await _phase(scale, second, watch, running.pid)
                churned.churn_per_s = len(sent) / (time.monotonic() - began_s)
            return calm, churned

    with on_uvloop() as runner:
        return runner.run(follow())


def _is_loose(at: int, scale: Scale) -> bool:
    """One of each pair in front starts without its cable: `cables` pairs for each phase."""
    return at < 4 * scale.cables and at % 2 == 0


def _unplugged(facts: NodeFacts) -> NodeFacts:
    peers = None if facts.peers is None else replace(facts.peers, remotes=())
    return replace(facts, peers=peers)


def _casts(
    scale: Scale, workers: Sequence[SimWorker], wired: Sequence[NodeFacts]
) -> tuple[Cast, Cast]:
    by_node = {worker.node: worker for worker in workers}
    ordered = [by_node[facts.identity.name] for facts in wired]
    loose = [
        (worker, facts.peers)
        for at, (worker, facts) in enumerate(zip(ordered, wired, strict=True))
        if _is_loose(at, scale) and facts.peers is not None
    ]
    free = ordered[4 * scale.cables :]
    sick, restless = free[: scale.samples], free[scale.samples :]
    return (
        Cast(sick, loose[: scale.cables], restless),
        Cast(sick, loose[scale.cables :], restless),
    )


@asynccontextmanager
async def _watching(port: int) -> AsyncIterator[Watch]:
    watch = Watch(await Connection.open(LOOPBACK, port))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch.run())
        yield watch
        task.cancel()


async def _phase(scale: Scale, cast: Cast, watch: Watch, pid: int) -> Phase:
    """Every change of the cast, spread evenly over the time that the sick ones take."""
    phase = Phase()
    before = usage(pid)
    sick = [partial(_fail_and_heal, worker, watch, phase) for worker in cast.sick]
    loose = [partial(_plug, *pair, watch, phase) for pair in cast.loose]
    seconds = len(sick) / scale.samples_per_s
    async with asyncio.TaskGroup() as group:
        for episodes in (sick, loose):
            group.create_task(_spread(episodes, seconds))
    phase.master_cores = usage(pid).cores_since(before)
    return phase


async def _spread(episodes: Sequence[Callable[[], Awaitable[None]]], seconds: float) -> None:
    async with asyncio.TaskGroup() as group:
        for episode in episodes:
            group.create_task(_run(episode))
            await asyncio.sleep(seconds / len(episodes))


async def _run(episode: Callable[[], Awaitable[None]]) -> None:
    await episode()


async def _fail_and_heal(worker: SimWorker, watch: Watch, phase: Phase) -> None:
    for change, status, times in (
        (_gpu(worker, healthy=False), Status.NOT_READY, phase.fails),
        (_gpu(worker, healthy=True), Status.READY, phase.heals),
    ):
        times.append(await _until_seen(worker, change, watch, partial(_has_status, status)))


async def _plug(worker: SimWorker, peers: ServerPeers, watch: Watch, phase: Phase) -> None:
    phase.cables.append(await _until_seen(worker, FactsChange(peers=peers), watch, _is_wired))


def _has_status(status: Status, shown: Shown) -> bool:
    return shown.status == status


def _is_wired(shown: Shown) -> bool:
    return shown.around == DRAGONFLY


async def _until_seen(worker: SimWorker, change: FactsChange, watch: Watch, sight: Sight) -> float:
    """Milliseconds from before the first report until the document shows it."""
    began_s = time.monotonic()
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.change(change))
        seen_s = await watch.seen(worker.node, sight)
    return (seen_s - began_s) * 1000


def _gpu(worker: SimWorker, *, healthy: bool) -> FactsChange:
    first, *others = worker.facts.gpus
    return FactsChange(gpus=(replace(first, healthy=healthy), *others))


@asynccontextmanager
async def churning(per_s: float, workers: Sequence[SimWorker]) -> AsyncIterator[list[float]]:
    """Inside the block one worker after the other changes; the times at which they did."""
    sent: list[float] = []
    async with asyncio.TaskGroup() as group:

        async def churn() -> None:
            began_s = time.monotonic()
            for worker in cycle(workers):
                healthy = worker.facts.gpus[0].healthy is not True
                group.create_task(worker.change(_gpu(worker, healthy=healthy)))
                sent.append(time.monotonic())
                await asyncio.sleep(began_s + len(sent) / per_s - sent[-1])

        task = group.create_task(churn())
        yield sent
        task.cancel()
