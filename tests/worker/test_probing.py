"""Rounds in virtual time, with probes that hang, fail, lie and change."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from tests.support.waiting import eventually
from tests.worker.samples import FACTS
from topo.model.machine import NodeFacts
from topo.sim.bundles import bundle_of
from topo.sim.worlds.presets import demo_world
from worker.host_facts import HostFacts
from worker.metrics import Metrics
from worker.pending_report import PendingReport
from worker.probes.probe import Probe, Reading, absent, failed, ok
from worker.probing import ProbeLoops

pytestmark = pytest.mark.virtual_time
HOST = demo_world().nodes[0]
TEXTS = {take.probe: take.text for take in bundle_of(HOST).probes}
Read = Callable[[], Awaitable[Reading]]


def says(reading: Reading) -> Read:
    """A source that always says the same."""

    async def read() -> Reading:
        return reading

    return read


def probe(name: str, read: Read, **more: object) -> Probe:
    """A probe every two seconds, unless it is said otherwise."""
    settings: dict[str, object] = {"format": name, "interval_s": 2.0, "timeout_s": 5.0}
    return Probe(name=name, read=read, **{**settings, **more})  # type: ignore[arg-type]


@asynccontextmanager
async def watching(
    *probes: Probe, with_faults: Callable[[NodeFacts], NodeFacts] = lambda facts: facts
) -> AsyncIterator[tuple[ProbeLoops, PendingReport]]:
    """The loops under way, and the report that they update."""
    pending = PendingReport()
    watch = ProbeLoops(
        probes,
        HostFacts(HOST.identity, probes),
        pending,
        metrics=Metrics(),
        with_faults=with_faults,
    )
    tasks = [asyncio.ensure_future(work()) for work in watch.works().values()]
    try:
        yield watch, pending
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        watch.close()


def health(pending: PendingReport) -> dict[str, str]:
    """The probes' states in the facts to be reported."""
    return {h.probe: h.state.value for h in pending.facts.probes} if pending.facts else {}


async def test_a_probe_that_hangs_holds_up_nobody() -> None:
    """The others are reported, and the hanging one is reported as such."""
    asked = 0

    async def hang() -> Reading:
        nonlocal asked
        asked += 1
        await asyncio.Event().wait()
        raise AssertionError

    reads = 0

    async def read() -> Reading:
        nonlocal reads
        reads += 1
        return ok(TEXTS["sysfs-pci"])

    async with watching(probe("mxsml", hang), probe("sysfs-pci", read)) as (_, pending):
        await asyncio.sleep(5.1)
        assert health(pending) == {"mxsml": "timed-out", "sysfs-pci": "ok"}
        assert reads >= 3
        await asyncio.sleep(7)
        assert asked == 2


async def test_a_probe_that_raises_is_a_failure_of_that_probe() -> None:
    """Our own mistake is told and stops nobody."""

    async def broken() -> Reading:
        raise RuntimeError("oops")

    async with watching(probe("mxsml", broken), probe("sysfs-pci", says(absent("none")))) as (
        _,
        pending,
    ):
        await eventually(lambda: health(pending).get("mxsml") == "failed")
        assert pending.facts is not None
        assert "RuntimeError('oops')" in pending.facts.probes[0].detail


async def test_nothing_is_put_down_before_all_sources_spoke() -> None:
    """Half a host would look like missing GPUs."""
    gate = asyncio.Event()

    async def late() -> Reading:
        await gate.wait()
        return ok(TEXTS["mxsml"])

    slow = probe("mxsml", late, timeout_s=60)
    async with watching(slow, probe("sysfs-pci", says(ok(TEXTS["sysfs-pci"])))) as (_, pending):
        await asyncio.sleep(30)
        assert pending.facts is None
        gate.set()
        await eventually(lambda: pending.facts is not None and len(pending.facts.gpus) == 8)


async def test_a_stand_in_starts_when_its_better_fails_and_rests_when_it_is_back() -> None:
    """mx-smi runs only while the library is silent."""
    library, runs = [failed("hangs")], 0

    async def read_library() -> Reading:
        return library[0]

    async def run_command() -> Reading:
        nonlocal runs
        runs += 1
        return ok(TEXTS["mx-smi-list"])

    stand_in = probe("mx-smi-list", run_command, instead_of=("mxsml",), gives=frozenset({"gpus"}))
    async with watching(probe("mxsml", read_library), stand_in) as (_, pending):
        await eventually(lambda: pending.facts is not None and len(pending.facts.gpus) == 8)
        library[0] = ok(TEXTS["mxsml"])
        await eventually(lambda: health(pending) == {"mxsml": "ok"})
        before = runs
        await asyncio.sleep(600)
        assert runs == before


async def test_an_absent_source_is_looked_for_rarely() -> None:
    """Once per `absent_interval`, which is a minute."""
    looks = 0

    async def look() -> Reading:
        nonlocal looks
        looks += 1
        return absent("not here")

    async with watching(probe("mxsml", look)):
        await asyncio.sleep(59)
        assert looks == 1
        await asyncio.sleep(2)
        assert looks == 2


async def test_a_change_is_read_again_quickly() -> None:
    """Twice more at the quick pace although the probe's own is slow, and then at its own again."""
    text, times = [TEXTS["mxsml"]], list[float]()

    async def read() -> Reading:
        times.append(asyncio.get_running_loop().time())
        return ok(text[0])

    async with watching(probe("mxsml", read, interval_s=60)) as (_, pending):
        await eventually(lambda: pending.facts is not None)
        text[0] = TEXTS["mxsml"].replace('"state": 1', '"state": 0', 1)
        await asyncio.sleep(150)
    assert times == pytest.approx([0, 60, 60.2, 60.4, 120.4])


async def test_states_are_logged_when_they_change_and_not_before() -> None:
    """One line per fact, never per reading."""
    reading = [ok(TEXTS["mxsml"])]

    async def read() -> Reading:
        return reading[0]

    with capture_logs() as lines:
        async with watching(probe("mxsml", read)) as (_, pending):
            await eventually(lambda: health(pending) == {"mxsml": "ok"})
            await asyncio.sleep(60)
            reading[0] = failed("exit status 9")
            await eventually(lambda: health(pending) == {"mxsml": "failed"})
            await asyncio.sleep(60)
    told = [
        (line["state"], line["log_level"]) for line in lines if line["event"] == "probe changed"
    ]
    assert told == [("ok", "info"), ("failed", "warning")]


async def test_faults_change_the_facts() -> None:
    """The faults of a replay change the facts before they are reported."""

    def with_faults(_: NodeFacts) -> NodeFacts:
        return FACTS

    source = probe("mxsml", says(ok(TEXTS["mxsml"])))
    async with watching(source, with_faults=with_faults) as (_, pending):
        await eventually(lambda: pending.facts == FACTS)


async def test_what_probes_keep_is_closed() -> None:
    """Helper processes end with the worker."""
    closed: list[str] = []
    async with watching(probe("mxsml", says(absent("none")), close=lambda: closed.append("mxsml"))):
        pass
    assert closed == ["mxsml"]
