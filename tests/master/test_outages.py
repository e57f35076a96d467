"""Masters that are killed, and paths that are cut, under workers that run: whose silence counts.

The report loop of the worker, the sessions and the discovery of the master, in virtual time, for
any beat, any back-off and any number of beats that make a worker stale. Only the network between
them is simulated: a try in an outage is refused at once, or hangs until the worker gives it up.
"""

import asyncio
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tenacity import AsyncRetrying, retry_if_exception_type
from tenacity.wait import wait_base

import worker.reporting
from master.sources.workers.sessions import ReportTaken, Sessions
from tests.builders import discovery, facts, managed, nodes, not_ready, ring, shape
from tests.support.virtual_time import VirtualTimeLoop
from topo.discovery.modes import DiscoverySettings, Mode
from topo.discovery.state import Discovery
from topo.kit.backoff import full_jitter
from topo.model.ids import NodeName
from topo.model.machine import NodeFacts
from topo.model.observation import (
    CLUSTER_MANAGER,
    Event,
    ManagedTopology,
    ManagerReported,
    SourceFailed,
    Ticked,
    WorkerBeat,
)
from topo.model.wire import RECONNECT_S, RETRY_CEILING_S, TRY_LIMIT_S, Report, ReportAnswer
from worker.metrics import Metrics
from worker.pending_report import PendingReport
from worker.reporting import ReportLoop
from worker.session import Session
from worker.transport import MasterConnection, ReportLostError, Trouble

if TYPE_CHECKING:
    from collections.abc import Coroutine

NAMES = ("node-1", "node-2", "node-3", "node-4")
"""Two dragonflies of two nodes."""


@dataclass(frozen=True)
class Outage:
    """A time in which a try fails: at once, or (`hangs`) when the worker gives it up."""

    begins_s: float
    ends_s: float
    hangs: bool = False


@dataclass(frozen=True)
class Pace:
    """The settings of a cluster."""

    beat_s: float = 10.0
    stale_beats: int = 3
    retry_ceiling_s: float = RETRY_CEILING_S

    @property
    def reconnect_s(self) -> float:
        return TRY_LIMIT_S + self.retry_ceiling_s

    @property
    def return_s(self) -> float:
        return self.reconnect_s + self.beat_s * self.stale_beats


def clock() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Master:
    """Takes reports while it runs; `restart` is kill -9 and a new process with the kept state."""

    pace: Pace
    state: Discovery = field(init=False)
    sessions: Sessions = field(init=False)
    was_not_ready: dict[str, float] = field(default_factory=dict)
    runs: bool = True

    def __post_init__(self) -> None:
        self.state = self._new_state()
        self.state.advance(clock(), *ring(list(NAMES[:2])), *ring(list(NAMES[2:])))
        self.sessions = self._new_sessions()

    def restart(self) -> None:
        memory, self.state = self.state.persistent_state(), self._new_state()
        self.state.restore(memory, 1.0, clock())
        self.sessions = self._new_sessions()
        self.runs = True
        self._look()

    def take(self, event: Event) -> bool:
        if self.state.advance(clock(), event):
            self._look()
        return True

    def _look(self) -> None:
        for name, node in nodes(self.state).items():
            if node.reasons:
                self.was_not_ready.setdefault(name, clock())

    def _new_state(self) -> Discovery:
        pace = self.pace
        return discovery(
            Mode.DRAGONFLY,
            beat_s=pace.beat_s,
            stale_beats=pace.stale_beats,
            reconnect_s=pace.reconnect_s,
        )

    def _new_sessions(self) -> Sessions:
        pace = self.pace
        return Sessions(
            submit=self.take,
            rate=1000.0,
            beat_s=pace.beat_s,
            stale_s=pace.beat_s * pace.stale_beats,
            forget_s=1e6,
            max_nodes=100,
            known=lambda node: self.state.facts(node) is not None,
            on_node=lambda _: None,
            on_resumed=lambda: None,
        )


@dataclass
class Network:
    """The way from one worker to the master; stands where the worker's connection does."""

    master: Master
    outages: tuple[Outage, ...]

    async def send(self, report: Report) -> ReportAnswer:
        outage = self._now()
        if outage is not None:
            if outage.hangs:
                await asyncio.sleep(TRY_LIMIT_S)
                raise ReportLostError(Trouble.TIMEOUT, "the master does not answer")
            raise ReportLostError(Trouble.NETWORK, "refused")
        answer = self.master.sessions.receive(report, clock())
        assert isinstance(answer, ReportTaken)
        beat_s = self.master.pace.beat_s
        return ReportAnswer(seq=report.seq, want=answer.want, beat_s=beat_s)

    def _now(self) -> Outage | None:
        now_s = clock()
        return next((o for o in self.outages if o.begins_s <= now_s < o.ends_s), None)


async def played(
    pace: Pace,
    kills: tuple[Outage, ...] = (),
    cuts: tuple[Outage, ...] = (),
    *,
    silent: tuple[str, ...] = (),
    for_s: float,
) -> dict[str, float]:
    """Who was NotReady, and when first. `cuts` concern node-1 alone; `silent` ones never speak."""
    master = Master(pace)
    work: list[Coroutine[Any, Any, None]] = [_ticks(master), _kills(master, kills)]
    for name in NAMES:
        outages = kills + cuts if name == NAMES[0] else kills
        if name not in silent:
            work.append(_reports(_facts(name), Network(master, outages)))
    tasks = [asyncio.create_task(each) for each in work]
    await asyncio.sleep(for_s)
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert not [e for e in ended if isinstance(e, Exception)], ended
    return master.was_not_ready


def _facts(name: str) -> NodeFacts:
    place = NAMES.index(name)
    return facts(name, [NAMES[place ^ 1]])


async def _reports(said: NodeFacts, network: Network) -> None:
    pending = PendingReport()
    pending.update("probe", said)
    session = Session(said.identity.name, f"instance-{said.identity.name}")
    way = cast("MasterConnection", network)
    await ReportLoop(pending, session, way, Metrics()).run()


async def _ticks(master: Master) -> None:
    while True:
        await asyncio.sleep(master.pace.beat_s / 2)
        if master.runs:
            master.take(Ticked())


async def _kills(master: Master, kills: tuple[Outage, ...]) -> None:
    for kill in kills:
        await asyncio.sleep(kill.begins_s - clock())
        master.runs = False
        await asyncio.sleep(kill.ends_s - clock())
        master.restart()


def run(pace: Pace, *, before: bool = False, **more: Any) -> dict[str, float]:
    """`played` on a clock of its own, with workers of that back-off.

    `before`: workers of the version before, which wait up to it however short the beat is.
    """
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner(loop_factory=VirtualTimeLoop) as own:
        patch.setattr(worker.reporting, "RETRY_CEILING_S", pace.retry_ceiling_s)
        if before:
            wait = full_jitter(worker.reporting.RETRY_BASE_S, pace.retry_ceiling_s)
            patch.setattr(worker.reporting, "retrying", lambda _: _retrying_by(wait))
        return own.run(played(pace, **more))


def _retrying_by(wait: wait_base) -> AsyncRetrying:
    lost = retry_if_exception_type(ReportLostError)
    return AsyncRetrying(wait=wait, retry=lost, reraise=True)


def outages(pairs: list[tuple[float, float, bool]]) -> tuple[Outage, ...]:
    """One after the other from (time since the one before, length, whether tries hang)."""
    times = list(accumulate(t for gap_s, length_s, _ in pairs for t in (gap_s, length_s)))
    spans = zip(times[::2], times[1::2], pairs, strict=True)
    return tuple(Outage(begins_s, ends_s, hangs) for begins_s, ends_s, (_, _, hangs) in spans)


paces = st.builds(
    Pace,
    beat_s=st.floats(1, 30),
    stale_beats=st.integers(2, 4),
    retry_ceiling_s=st.floats(0.5, 30),
)
some_outages = st.lists(
    st.tuples(st.floats(0.1, 30), st.floats(0.01, 40), st.booleans()), min_size=1, max_size=3
).map(outages)


@settings(max_examples=25)
@given(paces, some_outages, st.booleans())
def test_whatever_the_settings_no_kill_of_the_master_makes_a_running_worker_stale(
    pace: Pace,
    kills: tuple[Outage, ...],
    before: bool,  # noqa: FBT001
) -> None:
    """Kills of any length, one after the other, before all have found the master again or not."""
    for_s = kills[-1].ends_s + pace.return_s + pace.beat_s
    assert run(pace, before=before, kills=kills, for_s=for_s) == {}


@settings(max_examples=25)
@given(paces, st.floats(0.1, 60), st.floats(0, 0.9))
def test_a_cut_of_a_worker_costs_no_more_than_a_beat_beside_it(
    pace: Pace, begins_s: float, share: float
) -> None:
    """Last beat, cut, wait: a cut of all beats but two leaves the worker fresh."""
    length_s = share * (pace.stale_beats - 2) * pace.beat_s
    cut = Outage(begins_s, begins_s + length_s)
    assert run(pace, cuts=(cut,), for_s=cut.ends_s + 3 * pace.beat_s + RETRY_CEILING_S) == {}


@settings(max_examples=10)
@given(paces, st.floats(0.1, 60), st.floats(0.1, 60))
def test_a_worker_that_died_with_the_master_is_stale_after_the_wait_and_the_beats(
    pace: Pace, begins_s: float, length_s: float
) -> None:
    """Patience has an end, and is for the silent alone."""
    kill = Outage(begins_s, begins_s + length_s)
    late_s = kill.ends_s + pace.return_s
    found = run(pace, kills=(kill,), silent=("node-3",), for_s=late_s + pace.beat_s)
    if "node-3" in found and found["node-3"] < kill.ends_s:
        return  # stale before the kill
    assert found.keys() == {"node-3"}
    assert late_s <= found["node-3"] <= late_s + pace.beat_s


def test_a_worker_that_was_cut_off_is_not_blamed_for_the_kill_that_follows() -> None:
    """Its waits have grown to the longest when the master goes and comes back: the demo's case."""
    pace = Pace(beat_s=1.0)
    cut = Outage(5.0, 25.0)
    for length_s in (0.3, 1.5, 7.0):
        kill = Outage(25.0, 25.0 + length_s)
        found = run(pace, before=True, kills=(kill,), cuts=(cut,), for_s=80.0)
        assert found.keys() == {"node-1"}, "cut off for 20 beats, it was stale, and nobody else"
        assert found["node-1"] < 9.0


def test_a_manager_that_is_away_while_the_master_restarts_makes_nobody_not_ready() -> None:
    """Its last answer is kept; it fails, answers nothing, and then all of it again, much later."""
    boxes = managed({"box-1": list(NAMES)})
    wired = [*ring(list(NAMES[:2])), *ring(list(NAMES[2:]))]
    state = discovery(Mode.SWITCHBOX)
    state.advance(0.0, ManagerReported(boxes), *wired)
    before = shape(state)
    fresh = discovery(Mode.SWITCHBOX)
    fresh.restore(state.persistent_state(), 1.0, 100.0)
    fresh.advance(101.0, *wired)
    beats = [WorkerBeat(NodeName(name)) for name in NAMES]
    at_s = 101.0
    for answer in (SourceFailed(CLUSTER_MANAGER, "refused"), ManagerReported(ManagedTopology())):
        for _ in range(20):
            at_s += 10.0
            fresh.advance(at_s, answer, *beats)
            assert (shape(fresh), not_ready(fresh)) == (before, set())
    fresh.advance(at_s + 1.0, ManagerReported(boxes), *beats)
    assert (shape(fresh), not_ready(fresh)) == (before, set())
    fresh.validate()


def test_a_node_that_was_stale_stays_so_over_a_restart_until_it_speaks() -> None:
    """A restart is no word from its worker."""
    state = discovery(beat_s=1.0)
    state.advance(0.0, *ring(list(NAMES[:2])))
    state.advance(2.0, ring(list(NAMES[:2]))[0])
    state.advance(3.0, Ticked())
    assert nodes(state)["node-2"].reasons
    fresh = discovery(beat_s=1.0)
    fresh.restore(state.persistent_state(), 1.0, 100.0)
    assert [r.code for r in nodes(fresh)["node-2"].reasons] == ["worker-stale"]
    assert not nodes(fresh)["node-1"].reasons
    fresh.advance(101.0, ring(list(NAMES[:2]))[1])
    assert not nodes(fresh)["node-2"].reasons
    assert fresh.facts(NodeName("node-2")) is not None
    fresh.validate()


def test_the_longest_silence_of_a_worker_is_one_number_for_both_sides() -> None:
    """What the master counts on is what the worker keeps."""
    assert DiscoverySettings().reconnect_s == RECONNECT_S == TRY_LIMIT_S + RETRY_CEILING_S
