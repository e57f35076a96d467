"""The whole agent on one loop with a master over real sockets: cuts, beats, outages, refusals.

In virtual time: a beat is ten seconds as in life, and "within a second" is exact.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from structlog.testing import capture_logs

from tests.support.waiting import eventually
from tests.worker.masters import TestMaster, listening
from topo.kit.settings import read
from topo.model.machine import LinkCount, ProbeState
from topo.model.wire import RETRY_CEILING_S, Report
from topo.recording.bundle import Bundle, RecordedProbe, write
from topo.sim.worlds.presets import demo_world
from worker import probing
from worker.app import build_agent, build_app
from worker.replay import open_replay
from worker.settings import WorkerSettings

pytestmark = pytest.mark.virtual_time
HOST = demo_world().nodes[2]
Lines = list[MutableMapping[str, Any]]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """What is logged during the test."""
    with capture_logs() as captured:
        yield captured


@asynccontextmanager
async def agent(
    master: TestMaster, recording: Path, *flags: str
) -> AsyncIterator[TestClient[web.Request, web.Application]]:
    """A replay under way; a client of its HTTP side."""
    settings = read(
        WorkerSettings,
        (f"--server-address={master.address}", *flags),
    )
    assert isinstance(settings, WorkerSettings)
    app = build_app(build_agent(settings, open_replay(recording)))
    async with TestClient(TestServer(app)) as client:
        yield client


def put(folder: Path, text: str) -> None:
    """The faults file, atomically."""
    (folder / "faults.new").write_text(text)
    (folder / "faults.new").rename(folder / "faults.txt")


def events(lines: Lines, event: str) -> Lines:
    """All lines of that event."""
    return [line for line in lines if line["event"] == event]


async def logged(lines: Lines, event: str) -> MutableMapping[str, Any]:
    """The first line of that event."""
    await eventually(lambda: bool(events(lines, event)))
    return events(lines, event)[0]


async def test_a_cut_cable_is_told_three_times_within_a_second(recording: Path) -> None:
    """Full, then nothing until the cut; then a change and two beats; and the same for the heal."""
    async with listening(TestMaster()) as master, agent(master, recording, "--probe-interval=0.5"):
        await master.hear(1)
        await asyncio.sleep(3)
        assert [report.kind for report in master.reports] == ["full"]
        put(recording, f"remote 1 of {HOST.name} vanishes\n")
        await master.hear(4, within_s=1)
        assert [report.kind for report in master.reports[1:]] == ["change", "beat", "beat"]
        change = master.reports[1].change
        assert change is not None
        assert change.model_fields_set == {"peers"}
        assert change.peers is not None
        assert change.peers.remotes == ()
        put(recording, "")
        await master.hear(7, within_s=1)
        assert [report.seq for report in master.reports] == list(range(7))


async def test_beats_come_at_the_masters_pace_and_silence_is_silence(recording: Path) -> None:
    """Every two seconds if it wants so; none while the node is silent; beats again after."""
    async with listening(TestMaster(beat_s=2)) as master, agent(master, recording):
        await master.hear(4, within_s=6.5)
        assert [report.kind for report in master.reports] == ["full", "beat", "beat", "beat"]
        put(recording, f"{HOST.name} falls silent\n")
        await asyncio.sleep(60)
        assert len(master.reports) == 4
        put(recording, "")
        await master.hear(5, within_s=2.5)


async def test_counters_travel_with_the_first_report_and_not_again_while_they_stay(
    recording: Path,
) -> None:
    """Those that are not zero; what does not differ is no news."""
    (text,) = recording.glob("*mxsml*")
    text.write_text(re.sub(r'"corrected": ?0', '"corrected": 12', text.read_text(), count=1))
    async with listening(TestMaster(beat_s=2)) as master, agent(master, recording):
        await master.hear(3, within_s=6)
        assert [report.counts for report in master.reports] == [
            (LinkCount("GPU 0 link 0", "corrected", 12),),
            None,
            None,
        ]


async def test_a_node_that_starts_silent_speaks_when_its_silence_ends(recording: Path) -> None:
    """At once, whatever the beat, and everything: the master has heard nothing yet."""
    put(recording, f"{HOST.name} falls silent\n")
    async with listening(TestMaster(beat_s=2)) as master, agent(master, recording):
        await asyncio.sleep(63)  # in the middle of what a beat is before the master says
        assert master.reports == []
        put(recording, "")
        assert (await master.hear(1, within_s=1.5))[0].kind == "full"
        await master.hear(3, within_s=5)


async def test_a_master_that_was_away_hears_everything_once_it_is_back(
    recording: Path, lines: Lines, away: TestMaster
) -> None:
    """Started before the master, through an outage, and no line per try in the log."""
    master = away
    async with agent(master, recording):
        line = await logged(lines, "reports do not arrive")
        assert line["reason"] == "network"
        await asyncio.sleep(60)
        async with listening(master):
            assert [r.kind for r in await master.hear(2, within_s=10.5)] == ["full", "beat"]
        heard = len(master.reports)
        await asyncio.sleep(60)
        async with listening(master):
            await master.hear(heard + 1, within_s=8.5)
            assert master.reports[heard].kind == "full"
    assert len(events(lines, "reports do not arrive")) == 2
    assert len(events(lines, "reports arrive")) == 2


async def test_a_master_that_asks_for_everything_gets_it_at_once(recording: Path) -> None:
    """It restarted and knows nothing of our numbers."""
    async with listening(TestMaster(beat_s=2)) as master, agent(master, recording):
        await master.hear(2)
        master.want = "full"
        heard = len(master.reports)
        await master.hear(heard + 2)
        master.want = "change"
        kinds = [report.kind for report in master.reports[heard:]]
        assert kinds[:2] == ["beat", "full"]


async def test_refusals_are_logged_once_per_reason_with_the_fix(
    recording: Path, lines: Lines
) -> None:
    """409 many times, then 401, then in."""
    statuses = [409, 409, 401, 401]

    def refuse(_: Report) -> web.Response | None:
        if not statuses:
            return None
        return web.Response(status=statuses.pop(0), headers={"Retry-After": "0"})

    async with listening(TestMaster(reply=refuse)) as master, agent(master, recording):
        await master.hear(5)
        await logged(lines, "reports arrive")
        reasons = [line["reason"] for line in events(lines, "reports do not arrive")]
        assert reasons == ["conflict", "unauthorized"]
        assert "other worker" in str(events(lines, "reports do not arrive")[0]["fix"])


async def test_metrics_and_health_are_served(recording: Path) -> None:
    """For Prometheus and for the kubelet."""
    async with listening(TestMaster()) as master, agent(master, recording) as client:
        await master.hear(1)
        for path in ("/health", "/healthz", "/livez"):
            async with client.get(path) as response:
                assert response.status == 200
        async with client.get("/metrics") as response:
            page = await response.text()
    for sample in (
        'topo_worker_probe_state{probe="mxsml",state="ok"} 1.0',
        'topo_worker_reports_total{kind="full"} 1.0',
        'topo_worker_gpus{health="healthy"} 8.0',
        'topo_worker_link_ports{state="up"} 40.0',
        "topo_worker_link_ports_degraded 0.0",
        'topo_worker_report_failures_total{reason="network"} 0.0',
        "topo_worker_peers 1.0",
    ):
        assert sample in page, sample


@pytest.mark.parametrize(
    ("absent_s", "age_s", "status"),
    [(10, 50, 200), (10, 70, 503), (70, 140, 200), (70, 160, 503)],
)
async def test_rounds_that_stand_still_are_not_healthy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, absent_s: float, age_s: float, status: int
) -> None:
    """The kubelet restarts a worker whose probes no longer come round, not one that may pause."""
    take = RecordedProbe("mxsml", "mxsml", ProbeState.ABSENT, detail="not here")
    write(tmp_path, Bundle(HOST.identity, (take,)))
    monkeypatch.setattr(probing, "ABSENT_S", absent_s)
    settings = read(WorkerSettings, ())
    assert isinstance(settings, WorkerSettings)
    late_s = [0.0]
    clock = asyncio.get_running_loop().time
    worker = build_agent(settings, open_replay(tmp_path), lambda: clock() + late_s[0])
    async with TestClient(TestServer(build_app(worker))) as client:
        await asyncio.sleep(1)
        late_s[0] = age_s - 1
        async with client.get("/health") as response:
            assert response.status == status


async def test_a_master_that_always_wants_everything_is_no_reason_to_race(recording: Path) -> None:
    """One full report per beat, not one after the other."""
    async with listening(TestMaster(beat_s=3, want="full")) as master, agent(master, recording):
        await master.hear(1)
        await asyncio.sleep(10)
        assert [report.kind for report in master.reports] == ["full"] * 4


@pytest.mark.parametrize(("asked_s", "kept_s"), [(5, 5), (20, RETRY_CEILING_S)])
async def test_a_master_that_asks_for_patience_is_not_asked_again_before(
    recording: Path, asked_s: int, kept_s: float
) -> None:
    """`Retry-After` beats the short first steps of the backoff, up to the wait masters count on."""
    asked_at_s: list[float] = []

    def refuse_once(_: Report) -> web.Response | None:
        asked_at_s.append(asyncio.get_running_loop().time())
        if len(asked_at_s) > 1:
            return None
        return web.Response(status=503, headers={"Retry-After": str(asked_s)})

    async with listening(TestMaster(reply=refuse_once)) as master, agent(master, recording):
        await master.hear(2)
    assert kept_s <= asked_at_s[1] - asked_at_s[0] < kept_s + 1
