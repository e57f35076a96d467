"""The loop that owns the state: what comes together is applied together, and nobody starves."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import prometheus_client as prom
import pytest
from structlog.testing import capture_logs

from master.metrics import EngineMetrics
from master.tree import engine as engine_module
from master.tree.document_cache import REST_MAX_S, DocumentCache
from master.tree.engine import GATHER_CEILING_S, Engine
from tests.master.world import facts
from tests.support.waiting import CEILING_S
from topo.discovery.memory import Memory
from topo.discovery.modes import DiscoverySettings, Mode
from topo.discovery.state import Discovery
from topo.model.forest import Change, Forest, Snapshot
from topo.model.ids import SWITCHBOX, Generation, GroupName, NodeName
from topo.model.observation import (
    ConfigLoaded,
    DeclaredForest,
    Event,
    FabricLoaded,
    ManagedGroup,
    ManagedMachine,
    ManagedTopology,
    ManagerReported,
    Ticked,
    WorkerBeat,
    WorkerReported,
)
from topo.publish.nodegroup import render

pytestmark = pytest.mark.virtual_time


class _Recorder(Discovery):
    """A real core that remembers how it was called."""

    def __init__(self) -> None:
        super().__init__(DiscoverySettings(mode=Mode.DRAGONFLY))
        self.batches: list[tuple[Event, ...]] = []

    def advance(self, now_s: float, *events: Event) -> tuple[Change, ...]:
        self.batches.append(events)
        return super().advance(now_s, *events)


def _engine(core: Discovery, queue_limit: int = 50_000, tick_s: float = 1.0) -> Engine:
    metrics = EngineMetrics(prom.CollectorRegistry())
    clock = asyncio.get_running_loop().time
    return Engine(core, metrics, queue_limit=queue_limit, tick_s=tick_s, clock=clock)


@asynccontextmanager
async def _running(engine: Engine) -> AsyncIterator[None]:
    task = asyncio.create_task(engine.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_master_that_stood_still_gives_its_workers_time_before_it_calls_them_stale() -> (
    None
):
    """Stopped for a minute: what they sent meanwhile waits in sockets, or was given up by them."""
    stopped_s = [0.0]
    loop = asyncio.get_running_loop()
    engine = Engine(
        Discovery(DiscoverySettings(mode=Mode.DRAGONFLY)),
        EngineMetrics(prom.CollectorRegistry()),
        standstill_s=DiscoverySettings().standstill_s,
        clock=lambda: loop.time() + stopped_s[0],
    )

    def is_stale(node: str) -> bool:
        detail = engine.detail(NodeName(node))
        assert detail is not None
        return detail.stale

    with capture_logs() as logs:
        async with _running(engine):
            for node in ("n1", "n2"):
                engine.submit(WorkerReported(facts(node)))
            await asyncio.sleep(5)
            stopped_s[0] = 60.0
            await asyncio.sleep(15)
            assert not is_stale("n1")
            engine.submit(WorkerBeat(NodeName("n1")))
            await asyncio.sleep(29)
            assert not is_stale("n2")
            engine.submit(WorkerBeat(NodeName("n1")))
            await asyncio.sleep(6)
            assert (is_stale("n1"), is_stale("n2")) == (False, True), "patience has an end"
    assert [e["seconds"] > 60 for e in logs if "stood still" in e["event"]] == [True]


async def _generation(engine: Engine, at_least: int) -> None:
    async with asyncio.timeout(CEILING_S):
        while engine.snapshot.generation < at_least:
            await engine.history.wait_beyond(engine.snapshot.generation, 1)


SLOW = (ManagerReported, ConfigLoaded, FabricLoaded)


class _Stopped(Discovery):
    """A real core that stops in its work until the test lets it go on."""

    def __init__(self) -> None:
        super().__init__(DiscoverySettings(mode=Mode.SWITCHBOX))
        self._loop = asyncio.get_running_loop()
        self.stopped, self._go_on = asyncio.Event(), threading.Event()

    def advance(self, now_s: float, *events: Event) -> tuple[Change, ...]:
        if any(isinstance(event, SLOW) for event in events):
            self._stop()
        return super().advance(now_s, *events)

    def persistent_state(self) -> Memory:
        self._stop()
        return super().persistent_state()

    def go_on(self) -> None:
        self._go_on.set()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self.stopped.set)
        assert self._go_on.wait(CEILING_S), "the loop had no turn meanwhile"
        self._go_on.clear()


def _boxes(*names: str) -> ManagerReported:
    group = ManagedGroup("s1", GroupName("sbox-1"), SWITCHBOX)
    machines = [ManagedMachine(name, (("node_name", name),), "s1") for name in names]
    return ManagerReported(ManagedTopology((group,), tuple(machines)))


async def test_others_have_their_turn_while_a_managers_answer_is_worked_out() -> None:
    """Readers see the tree from before until placements have taken over the one after it."""
    core = _Stopped()
    engine = _engine(core)
    taken_over: list[Snapshot] = []

    async def take_over(snapshot: Snapshot) -> None:
        await asyncio.sleep(0)
        assert engine.snapshot is before
        taken_over.append(snapshot)

    async with _running(engine):
        engine.submit(WorkerReported(facts("n1")))
        await _generation(engine, 1)
        engine.before_published.append(take_over)
        engine.submit(_boxes("n1"))
        await core.stopped.wait()
        before = engine.snapshot
        assert [each.node.name for each in before.forest.unplaced] == ["n1"]
        engine.submit(WorkerReported(facts("n2")))
        core.go_on()
        await _generation(engine, 2)
        assert taken_over == [engine.snapshot]
        assert [group.name for group in engine.snapshot.forest.roots] == ["sbox-1"]
        await _generation(engine, 3)
    core.validate()


@pytest.mark.parametrize("kind", SLOW)
async def test_what_may_move_every_node_is_worked_out_beside_the_loop(kind: type[Event]) -> None:
    said: dict[type[Event], Event] = {
        ManagerReported: _boxes("n1"),
        ConfigLoaded: ConfigLoaded(DeclaredForest()),
        FabricLoaded: FabricLoaded(()),
    }
    core = _Stopped()
    engine = _engine(core)
    async with _running(engine):
        engine.submit(said[kind])
        await core.stopped.wait()
        core.go_on()
        engine.submit(WorkerReported(facts("n1")))
        await _generation(engine, 1)
    core.validate()


async def test_who_is_cancelled_leaves_no_thread_behind_that_works_on_the_state() -> None:
    core = _Stopped()
    engine = _engine(core)
    async with _running(engine):
        engine.submit(_boxes("n1"))
        await core.stopped.wait()
        asyncio.get_running_loop().call_soon(core.go_on)
    assert core.snapshot.generation > engine.snapshot.generation
    core.validate()


async def test_nothing_is_applied_while_what_a_restart_keeps_is_gathered() -> None:
    core = _Stopped()
    engine = _engine(core)
    async with _running(engine):
        engine.submit(WorkerReported(facts("n1")))
        await _generation(engine, 1)
        gathering = asyncio.create_task(engine.persistent_state())
        await core.stopped.wait()
        engine.submit(WorkerReported(facts("n2")))
        await asyncio.sleep(0)
        core.go_on()
        memory, _ = await gathering
        await _generation(engine, 2)
    assert [node.identity.name for node in memory.nodes] == ["n1"]
    assert memory.generation == 1


async def test_events_that_come_together_are_one_step() -> None:
    core = _Recorder()
    engine = _engine(core)
    async with _running(engine):
        for name in ("n1", "n2", "n3"):
            assert engine.submit(WorkerReported(facts(name)))
        await _generation(engine, 1)
    assert [len(batch) for batch in core.batches] == [3]
    assert engine.snapshot.generation == 1
    (step,) = engine.history.since(0) or ()
    assert {change.subject for change in step.changes} == {"n1", "n2", "n3"}


async def test_constant_churn_does_not_keep_the_tree_from_moving() -> None:
    """Something new every few milliseconds; the first of it is visible in a tenth of a second."""
    engine = _engine(_Recorder())
    loop = asyncio.get_running_loop()
    seen_after_s: list[float] = []
    async with _running(engine):
        began_s = loop.time()
        for number in range(60):
            engine.submit(WorkerReported(facts(f"n{number}")))
            await asyncio.sleep(0.005)
            if engine.snapshot.generation > len(seen_after_s):
                seen_after_s.append(loop.time() - began_s)
        assert len(seen_after_s) >= 3
        assert seen_after_s[0] <= GATHER_CEILING_S


async def test_a_flood_is_taken_in_bounded_bites(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "BATCH_LIMIT", 10)
    core = _Recorder()
    engine = _engine(core)
    for number in range(25):
        engine.submit(WorkerReported(facts(f"n{number}")))
    async with _running(engine):
        await _generation(engine, 3)
    assert [len(batch) for batch in core.batches] == [10, 10, 5]
    assert engine.waiting == 0


async def test_a_full_queue_says_so() -> None:
    engine = _engine(_Recorder(), queue_limit=2)
    beat = WorkerBeat(NodeName("n1"))
    assert [engine.submit(beat) for _ in range(3)] == [True, True, False]
    assert engine.waiting == 2


async def test_time_passes_when_nothing_happens() -> None:
    core = _Recorder()
    engine = _engine(core)
    async with _running(engine):
        await asyncio.sleep(60)
    assert 50 < len(core.batches) <= 60
    assert set(core.batches) == {(Ticked(),)}
    assert engine.snapshot.generation == 0
    assert engine.alive


async def test_an_engine_that_has_not_advanced_for_long_is_not_alive() -> None:
    now_s = [100.0]
    metrics = EngineMetrics(prom.CollectorRegistry())
    engine = Engine(_Recorder(), metrics, clock=lambda: now_s[0])
    assert engine.alive
    now_s[0] += engine_module.STUCK_S
    assert not engine.alive


async def test_our_own_mistake_ends_the_loop() -> None:
    core = _Recorder()
    core.batches = ()  # type: ignore[assignment] # broken on purpose
    engine = _engine(core, tick_s=0.01)
    with pytest.raises(AttributeError):
        await asyncio.wait_for(engine.run(), CEILING_S)


async def test_the_log_has_a_line_per_change_and_one_for_many() -> None:
    engine = _engine(_Recorder())
    with capture_logs() as logs:
        async with _running(engine):
            engine.submit(WorkerReported(facts("n1")))
            await _generation(engine, 1)
            for number in range(2, 60):
                engine.submit(WorkerReported(facts(f"n{number}")))
            await _generation(engine, 2)
    first, second = logs
    assert (first["event"], first["subject"]) == ("node-added", "n1")
    assert (second["event"], second["node_added"]) == ("tree changed", 58)


def _cache(
    clock: Callable[[], float] = time.monotonic,
) -> tuple[DocumentCache[Snapshot], list[Snapshot], list[Snapshot]]:
    """A cache, the snapshots that it sees (the last one counts), and those that it rendered."""
    current = [Snapshot(Generation(1), Forest())]
    rendered: list[Snapshot] = []

    def counted(snapshot: Snapshot) -> bytes:
        rendered.append(snapshot)
        began_s = time.thread_time()
        while time.thread_time() - began_s < 0.002:
            pass  # a rendering takes time, after which the cache rests
        return render(snapshot.forest) + b" " * len(rendered)

    cache = DocumentCache(lambda: current[-1], counted, lambda: current[-1].generation, clock=clock)
    return cache, current, rendered


async def test_many_readers_cost_one_rendering_and_one_compression() -> None:
    now_s = [100.0]
    cache, current, rendered = _cache(lambda: now_s[0])
    documents = await asyncio.gather(*(cache.document() for _ in range(50)))
    assert len(set(map(id, documents))) == 1
    zipped = await asyncio.gather(*(cache.compressed(documents[0]) for _ in range(50)))
    assert len(set(map(id, zipped))) == 1
    assert len(rendered) == 1
    current.append(Snapshot(Generation(2), Forest()))
    now_s[0] += REST_MAX_S
    assert (await cache.document()).version == 2
    assert cache.sizes == (len(rendered) + 3, len(zipped[0]))


async def test_a_forest_that_changes_all_the_time_is_rendered_at_a_bounded_rate() -> None:
    now_s = [100.0]
    cache, current, rendered = _cache(lambda: now_s[0])
    await cache.document()
    current.append(Snapshot(Generation(2), Forest()))
    assert (await cache.document()).version == 1, "it rests after a rendering"
    now_s[0] += REST_MAX_S
    assert (await cache.document()).version == 2, "and no longer than REST_MAX_S"
    assert len(rendered) == 2


async def test_a_document_whose_ages_move_is_made_again_after_a_while() -> None:
    current = Snapshot(Generation(1), Forest())
    rendered: list[Snapshot] = []

    def counted(snapshot: Snapshot) -> bytes:
        rendered.append(snapshot)
        return b"x" * len(rendered)

    now_s = [100.0]
    cache = DocumentCache(lambda: current, counted, lambda: 1, fresh_s=5.0, clock=lambda: now_s[0])
    for _ in range(3):
        assert (await cache.document()).body == b"x"
    now_s[0] += 5.0
    document = await cache.document()
    assert document.body == b"xx"
    assert await cache.compressed(document) == await cache.compressed(document)
