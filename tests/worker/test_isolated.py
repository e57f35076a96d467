"""Vendor libraries that hang, crash and chatter take their helper along and nothing else."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.worker.processes import gone
from topo.model.machine import ProbeState
from worker.probes.isolated import HelperProcess


@asynccontextmanager
async def helper(*arguments: str, **environment: str) -> AsyncIterator[HelperProcess]:
    """A helper that is ended after the test."""
    process = HelperProcess(arguments, environment=environment)
    try:
        yield process
    finally:
        process.close()
        if process._process is not None:
            await process._process.wait()


async def test_readings_come_from_one_standing_process(mxsml: Path) -> None:
    """The library is loaded once; each reading asks it anew."""
    async with helper("mxsml", str(mxsml)) as process:
        first = await process.read()
        assert first.state is ProbeState.OK
        assert len(json.loads(first.text)["devices"]) == 4
        running = process._process
        assert await process.read() == first
        assert process._process is running


async def test_what_a_library_prints_does_not_mix_with_answers(mxsml: Path) -> None:
    """It prints on standard output, where the answers travel."""
    async with helper("mxsml", str(mxsml), FAKE_MXSML="chatter") as process:
        for _ in range(2):
            assert (await process.read()).state is ProbeState.OK


async def test_a_hanging_library_is_cut_off_and_asked_afresh(mxsml: Path) -> None:
    """Cancelled at the timeout: the process is gone, and the next reading has a new one."""
    async with helper("mxsml", str(mxsml), FAKE_MXSML="hang") as process:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(process.read(), 0.7)
        assert process._process is None
        process._environment = {}
        assert (await process.read()).state is ProbeState.OK


async def test_a_crashing_library_is_a_failure_that_names_the_signal(mxsml: Path) -> None:
    """abort() inside the library."""
    async with helper("mxsml", str(mxsml), FAKE_MXSML="crash") as process:
        reading = await process.read()
        assert reading.state is ProbeState.FAILED
        assert reading.detail == "the library ended its process: signal SIGABRT"


async def test_a_driver_without_cards_fails_and_the_helper_stays(mxsml: Path) -> None:
    """The driver may come up later; the process need not be started for every reading."""
    async with helper("mxsml", str(mxsml), FAKE_MXSML="nocard") as process:
        reading = await process.read()
        assert reading.state is ProbeState.FAILED
        assert "code 2" in reading.detail
        assert process._process is not None


async def test_an_absent_library_costs_no_process() -> None:
    """Absent is said once per reading, and nothing stays behind."""
    async with helper("mxsml", "/nowhere/libmxsml.so") as process:
        reading = await process.read()
        assert reading.state is ProbeState.ABSENT
        assert reading.detail == "/nowhere/libmxsml.so is not on this host"
        assert process._process is None


async def test_a_helper_that_died_between_readings_is_replaced(mxsml: Path) -> None:
    """Killed from outside, as by the kernel when memory is short."""
    async with helper("mxsml", str(mxsml)) as process:
        await process.read()
        assert process._process is not None
        os.killpg(process._process.pid, signal.SIGKILL)
        states = [(await process.read()).state for _ in range(2)]
        assert states[-1] is ProbeState.OK


async def test_a_mistake_of_our_own_is_told_not_lost() -> None:
    """An exception inside a reading becomes its detail."""
    async with helper("mxsml", "libc.so.6") as process:
        reading = await process.read()
        assert reading.state is ProbeState.FAILED
        assert "code 999" in reading.detail


async def test_a_helper_that_cannot_start_is_a_failure() -> None:
    """No such program."""
    reading = await HelperProcess((), command=("/nowhere/helper",)).read()
    assert reading.state is ProbeState.FAILED
    assert "cannot be started" in reading.detail


async def test_an_endless_answer_is_cut_off() -> None:
    """A line longer than the limit."""
    flood = (sys.executable, "-c", "import sys\nwhile True: sys.stdout.write('x' * 65536)")
    reading = await HelperProcess((), command=flood).read()
    assert reading.state is ProbeState.FAILED
    assert "more than" in reading.detail


@pytest.mark.parametrize(
    "how", [lambda process: process.kill(), lambda process: process.terminate()]
)
async def test_a_hung_helper_dies_with_its_worker(
    mxsml: Path, how: Callable[[asyncio.subprocess.Process], None], tmp_path: Path
) -> None:
    """The worker is killed while the library hangs: no helper stays behind."""
    script = f"""
import asyncio, os
from worker.probes import isolated
from worker.probes.isolated import HelperProcess
async def main():
    process = HelperProcess(("mxsml", {str(mxsml)!r}), environment={{"FAKE_MXSML": "hang"}})
    asking = asyncio.ensure_future(process.read())
    await asyncio.sleep(0.5)
    open({str(tmp_path / "pid")!r}, "w").write(str(process._process.pid))
    print("ready", flush=True)
    await asking
asyncio.run(main())
"""
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE
    )
    assert worker.stdout is not None
    assert await worker.stdout.readline() == b"ready\n"
    how(worker)
    await worker.wait()
    pid = int((tmp_path / "pid").read_text())
    assert await gone(pid)
