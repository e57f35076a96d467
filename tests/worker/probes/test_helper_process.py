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

from tests.support.processes import alive, gone
from tests.support.waiting import eventually
from topo.model.machine import ProbeState
from worker.probes.helper_process import HelperProcess


class Callers:
    """The helper processes that used the library, in the order in which they began."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @property
    def pids(self) -> list[int]:
        """Their numbers; one that begins anew in each reading is told for each."""
        return [int(line) for line in self.file.read_text().splitlines()] if self.has_come else []

    @property
    def has_come(self) -> bool:
        """Whether any process has begun to use the library."""
        return self.file.exists() and self.file.read_text().endswith("\n")


@pytest.fixture
def callers(tmp_path: Path) -> Callers:
    """Nobody has used the library yet."""
    return Callers(tmp_path / "callers")


@asynccontextmanager
async def helper(mxsml: Path, callers: Callers, fake: str = "") -> AsyncIterator[HelperProcess]:
    """A helper of the library, whose last process ends when it is closed."""
    environment = {"FAKE_MXSML": fake, "FAKE_MXSML_CALLERS": str(callers.file)}
    process = HelperProcess(("worker.probes.metax_library", str(mxsml)), environment=environment)
    yield process
    process.close()
    for pid in callers.pids:
        await gone(pid)
    await process.wait_closed()


async def test_readings_come_from_one_standing_process(mxsml: Path, callers: Callers) -> None:
    """The library is loaded once; each reading asks it anew."""
    async with helper(mxsml, callers) as process:
        first = await process.read()
        assert first.state is ProbeState.OK
        assert len(json.loads(first.text)["devices"]) == 4
        assert await process.read() == first
        (pid,) = set(callers.pids)
        assert alive(pid)


async def test_what_a_library_prints_does_not_mix_with_answers(
    mxsml: Path, callers: Callers
) -> None:
    """It prints on standard output, where the answers travel."""
    async with helper(mxsml, callers, "chatter") as process:
        for _ in range(2):
            assert (await process.read()).state is ProbeState.OK


async def test_a_hanging_library_is_cut_off_and_asked_afresh(mxsml: Path, callers: Callers) -> None:
    """Cancelled while it hangs: the process is gone, and a later reading has a new one."""
    async with helper(mxsml, callers, "hang-once") as process:
        reading = asyncio.create_task(process.read())
        await eventually(lambda: callers.has_come)
        reading.cancel()
        await asyncio.wait({reading})
        (hung,) = set(callers.pids)
        await gone(hung)

        async def answers() -> bool:
            return (await process.read()).state is ProbeState.OK

        await eventually(answers)
        assert len(set(callers.pids)) == 2


async def test_a_crashing_library_is_a_failure_that_names_the_signal(
    mxsml: Path, callers: Callers
) -> None:
    """abort() inside the library."""
    async with helper(mxsml, callers, "crash") as process:
        reading = await process.read()
        assert reading.state is ProbeState.FAILED
        assert reading.detail == "the library ended its process: signal SIGABRT"


async def test_a_driver_without_cards_fails_and_the_helper_stays(
    mxsml: Path, callers: Callers
) -> None:
    """The driver may come up later; the process need not be started for every reading."""
    async with helper(mxsml, callers, "nocard") as process:
        readings = [await process.read() for _ in range(2)]
        assert [reading.state for reading in readings] == [ProbeState.FAILED] * 2
        assert "code 2" in readings[0].detail
        (pid,) = set(callers.pids)
        assert alive(pid)


async def test_an_absent_library_costs_no_process(tmp_path: Path) -> None:
    """Absent is said once per reading, and nothing stays behind."""
    script = "import os, sys; open(sys.argv[1], 'w').write(str(os.getpid())); sys.argv[1:2] = []"
    script += "; from worker.probes.helper import main; sys.exit(main(sys.argv[1:]))"
    command = (sys.executable, "-c", script, str(tmp_path / "pid"))
    process = HelperProcess(
        ("worker.probes.metax_library", "/nowhere/libmxsml.so"), command=command
    )
    reading = await process.read()
    assert reading.state is ProbeState.ABSENT
    assert reading.detail == "/nowhere/libmxsml.so is not on this host"
    await gone(int((tmp_path / "pid").read_text()))


async def test_a_helper_that_died_between_readings_is_replaced(
    mxsml: Path, callers: Callers
) -> None:
    """Killed from outside, as by the kernel when memory is short."""
    async with helper(mxsml, callers) as process:
        await process.read()
        os.killpg(callers.pids[0], signal.SIGKILL)
        states = [(await process.read()).state for _ in range(2)]
        assert states[-1] is ProbeState.OK
        assert len(set(callers.pids)) == 2


async def test_a_mistake_of_our_own_is_told_not_lost() -> None:
    """An exception inside a reading becomes its detail."""
    process = HelperProcess(("worker.probes.metax_library", "libc.so.6"))
    reading = await process.read()
    assert reading.state is ProbeState.FAILED
    assert "code 999" in reading.detail
    process.close()
    await process.wait_closed()


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
    mxsml: Path, how: Callable[[asyncio.subprocess.Process], None], callers: Callers
) -> None:
    """The worker is killed while the library hangs: no helper stays behind."""
    script = f"""
import asyncio
from worker.probes.helper_process import HelperProcess
asyncio.run(HelperProcess(("worker.probes.metax_library", {str(mxsml)!r})).read())
"""
    fake = {"FAKE_MXSML": "hang", "FAKE_MXSML_CALLERS": str(callers.file)}
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, env={**os.environ, **fake}
    )
    await eventually(lambda: callers.has_come)
    how(worker)
    await worker.wait()
    for pid in callers.pids:
        await gone(pid)
