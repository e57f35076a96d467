"""What the kept moments of a large cluster cost: the master's loop, memory, and an answer."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import prometheus_client as prom

from bench import cluster
from bench.client import Connection, get, on_uvloop, once_ready
from bench.discovery.core import SETTINGS
from bench.discovery.loop_blocks import Blocks
from bench.figure import Figure, at_most, exact, median, worst
from bench.processes import LOOPBACK, in_child, master
from bench.scale import CannotRunError, Progress, Scale
from bench.services.http import rendered
from master.metrics import EngineMetrics
from master.state.history_file import HistoryFile
from master.tree.engine import Engine
from master.tree.past import Past
from topo.discovery.state import Discovery
from topo.history.ring import Piece, Ring
from topo.kit.process import collector
from topo.model.machine import NodeFacts
from topo.model.observation import ManagerReported, WorkerReported
from topo.sim.fleet.facts import facts_of_host
from topo.sim.worlds.presets import managed_topology

_ANSWERS = 20
_LIMIT_BYTES = 64 << 20
_AGE_S = 86400.0
_BEAT_S = 0.002
_SHOWN_S = 4.0
"""After a start a moment is kept within a second, and then it has been so for a while."""


@dataclass(slots=True)
class Kept:
    """Of each kept moment: milliseconds of the loop and the longest block, and bytes.

    The first of each is the whole cluster, the others are one node's GPU that breaks or heals.
    `stood_ms`: how late a beat of the loop came, by the wall clock, while moments are kept again.
    """

    loop_ms: list[float] = field(default_factory=list)
    block_ms: list[float] = field(default_factory=list)
    stood_ms: list[float] = field(default_factory=list)
    held_bytes: list[int] = field(default_factory=list)


def measure(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """Moments are kept as a master keeps them, on disk too; one is asked of a real master."""
    size = f"{scale.nodes:,} nodes"
    progress(f"{size}: {scale.moments} moments, timed and then watched")
    found = in_child(kept, scale.nodes, scale.moments)
    note = "of processor time; the first moment is the whole forest"
    yield Figure(f"loop per moment, {size}", median(found.loop_ms[1:]), "ms", note=note)
    yield Figure(f"worst block, {size}", worst(found.block_ms), "ms", at_most(50), note)
    stood = "by the wall clock: threads that keep the interpreter, and others' processes, count"
    yield Figure(f"longest stand of the loop, {size}", worst(found.stood_ms), "ms", note=stood)
    whole, *edits = found.held_bytes
    yield Figure(f"whole forest, {size}", exact(whole / 1000), "kB")
    yield Figure("one node's change", median(edits), "bytes", note="with what a moment counts for")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        progress(f"a master with {size} is asked for a moment")
        config = home / "nodegroup.yaml"
        config.write_bytes(b'{"group": ' + in_child(rendered, scale.nodes) + b"}")
        with master(home, "--mode=config", f"--config-file={config}") as running:
            took_ms = in_child(answers, running.api_port)
    yield Figure(f"/v1/topology?at=, {size}", median(took_ms), "ms", note="gzip, rebuilt each time")


def kept(nodes: int, moments: int) -> Kept:
    """Keeps moments of a cluster in this process; on a loop of Python, which can be timed."""
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        return runner.run(_kept(nodes, moments, Path(folder)))


async def _kept(nodes: int, moments: int, home: Path) -> Kept:
    world = cluster.cluster(nodes)
    facts = [facts_of_host(node) for node in world.nodes]
    metrics = EngineMetrics(prom.CollectorRegistry())
    engine = Engine(Discovery(SETTINGS), metrics)
    work = asyncio.create_task(engine.run())
    engine.submit(ManagerReported(managed_topology(world)))
    for each in facts:
        engine.submit(WorkerReported(each))
    await _settled(engine)
    collector.freeze_startup()
    found = Kept()
    async for seen, held_bytes in _moments(engine, facts[0], moments, home / "timed"):
        found.loop_ms.append(seen.all_ms)
        found.block_ms.append(seen.callback_ms)
        found.held_bytes.append(held_bytes)
    watch = asyncio.create_task(_stood(found.stood_ms))
    async for _ in _moments(engine, facts[0], moments, home / "watched"):
        pass
    for task in (work, watch):
        task.cancel()
    await asyncio.wait([work, watch])
    return found


async def _moments(
    engine: Engine, facts: NodeFacts, moments: int, home: Path
) -> AsyncIterator[tuple[Blocks, int]]:
    """What the loop did for each kept moment, and its bytes; the change itself is not watched."""
    is_shown, store = asyncio.Event(), _Store(home / "state.json")
    ring = Ring(_LIMIT_BYTES, _AGE_S)
    past = Past(engine, ring, is_shown=is_shown.is_set, store=store)
    broken = replace(facts, gpus=(replace(facts.gpus[0], healthy=False), *facts.gpus[1:]))
    work = asyncio.create_task(past.run())
    for number in range(moments):
        generation = engine.snapshot.generation
        for _ in range(3):  # what is read once settles nothing
            engine.submit(WorkerReported(facts if number % 2 else broken))
            await _settled(engine)
        if engine.snapshot.generation == generation:
            raise CannotRunError("a GPU broke or healed, and nothing changed")
        before = ring.held_bytes
        with (seen := Blocks()).watched():
            is_shown.set()
            await store.appended.wait()
            store.appended.clear()
            is_shown.clear()
        yield seen, ring.held_bytes - before
    work.cancel()
    await asyncio.wait([work])


class _Store(HistoryFile):
    """A file on disk that tells when a moment is on it."""

    def __init__(self, state_file: Path) -> None:
        super().__init__(state_file)
        self.appended = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def append(self, new: Piece, kept: Callable[[], Sequence[Piece]]) -> None:
        """Keeps it, and tells the loop."""
        super().append(new, kept)
        self._loop.call_soon_threadsafe(self.appended.set)


async def _settled(engine: Engine) -> None:
    while True:
        await asyncio.sleep(0.05)
        if not engine.waiting:
            return


async def _stood(into: list[float]) -> None:
    """How late the loop comes back, in milliseconds."""
    while True:
        asked_s = time.perf_counter()
        await asyncio.sleep(_BEAT_S)
        into.append((time.perf_counter() - asked_s - _BEAT_S) * 1000)


def answers(port: int) -> list[float]:
    """Milliseconds of each answer to who asks what was a second ago and does not have it."""

    async def ask() -> list[float]:
        connection = await Connection.open(LOOPBACK, port)
        await once_ready(connection, get("/node_group"))
        took_ms: list[float] = []
        request = get("/v1/topology?at=1s", Accept_Encoding="gzip")
        await asyncio.sleep(_SHOWN_S)
        for _ in range(_ANSWERS):
            began_s = time.perf_counter()
            answer = await connection.ask(request)
            took_ms.append((time.perf_counter() - began_s) * 1000)
            if answer.status != 200:
                raise CannotRunError(f"a moment is answered with {answer.status}")
        connection.close()
        return took_ms

    with on_uvloop() as runner:
        return runner.run(ask())
