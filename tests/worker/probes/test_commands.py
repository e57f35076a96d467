"""Commands: real processes that answer, fail, hang, flood and leave children behind."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from signal import SIGPIPE, SIGXFSZ

import pytest
import uvloop

from tests.support.processes import gone
from tests.support.waiting import CEILING_S, eventually
from topo.model.machine import ProbeState
from worker.probes import commands
from worker.probes.commands import Command, find_program
from worker.probes.probe import ok
from worker.probes.vendors.nvidia import EXITS

Programs = Path


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """A folder at the head of PATH where a test puts its programs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return folder


def program(folder: Path, name: str, script: str) -> None:
    """A shell script of that name that may be run."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


async def test_an_answer_is_the_raw_text(programs: Programs) -> None:
    """What the program prints, as it prints it; its complaints are not part of it."""
    program(programs, "mx-smi", 'echo "args: $*"; echo noise >&2')
    reading = await Command(("mx-smi", "topo", "-m")).read()
    assert (reading.state, reading.text) == (ProbeState.OK, "args: topo -m\n")


async def test_the_program_sees_a_plain_environment(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LC_ALL is C, and no variable of ours leaks into a vendor's tool."""
    monkeypatch.setenv("TOPO_SECRET_THING", "hush")
    program(programs, "mx-smi", "env")
    text = (await Command(("mx-smi",)).read()).text
    assert "LC_ALL=C\n" in text
    assert "hush" not in text


async def test_a_program_that_is_not_installed_is_absent(programs: Programs) -> None:
    """No fault, and the folders of the vendor are searched after PATH."""
    assert (await Command(("mx-smi",)).read()).state is ProbeState.ABSENT
    vendor = programs.parent / "mxdriver"
    vendor.mkdir()
    program(vendor, "mx-smi", "echo hello")
    assert (await Command(("mx-smi",), folders=(str(vendor),)).read()).text == "hello\n"
    program(programs, "mx-smi", "echo mine")
    assert find_program("mx-smi", (str(vendor),)) == str(programs / "mx-smi")


async def test_exit_9_of_nvidia_smi_says_what_it_means(programs: Programs) -> None:
    """The documented meaning beats the long advice that the tool prints."""
    program(programs, "nvidia-smi", "echo NVIDIA-SMI has failed because; exit 9")
    reading = await Command(("nvidia-smi",), exits=EXITS).read()
    assert reading.state is ProbeState.FAILED
    assert reading.detail == "nvidia-smi ended with exit status 9: the driver is not loaded"


async def test_an_exit_of_hosts_without_the_source_is_no_failure(programs: Programs) -> None:
    """A card without NVLink is asked for its errors in vain, and is well."""
    program(programs, "nvidia-smi", "exit 3")
    reading = await Command(("nvidia-smi",), exits=EXITS, absent_exits={3}).read()
    assert reading.state is ProbeState.ABSENT
    assert reading.detail == "nvidia-smi ended with exit status 3: not supported"


@pytest.mark.parametrize(
    ("script", "detail"),
    [
        ("echo first >&2; echo second >&2; exit 3", "exit status 3: first"),
        ("echo on stdout; exit 4", "exit status 4: on stdout"),
        ("exit 5", "exit status 5: no message"),
        ("kill -SEGV $$", "signal SIGSEGV: no message"),
    ],
)
async def test_a_failure_carries_the_first_line_of_its_message(
    programs: Programs, script: str, detail: str
) -> None:
    """Exit status or signal, and what the program said first."""
    program(programs, "mx-smi", script)
    reading = await Command(("mx-smi",)).read()
    assert reading.state is ProbeState.FAILED
    assert reading.detail == f"mx-smi ended with {detail}"


async def test_a_program_that_cannot_start_fails(programs: Programs) -> None:
    """A file that may be run and is no program."""
    path = programs / "mx-smi"
    path.write_bytes(b"\x7fELF nonsense")
    path.chmod(0o755)
    reading = await Command(("mx-smi",)).read()
    assert reading.state is ProbeState.FAILED
    assert "cannot be started" in reading.detail


async def test_a_hanging_program_dies_with_its_children(programs: Programs, tmp_path: Path) -> None:
    """Cancelled while it hangs: the script, and the sleep that it started in the background."""
    program(programs, "mx-smi", f"sleep 600 & echo $! > {tmp_path}/child; wait")
    await given_up(Command(("mx-smi",)), tmp_path / "child")
    await gone(int((tmp_path / "child").read_text()))


async def given_up(command: Command, once_written: Path, lines: int = 1) -> None:
    """A reading that is cancelled when its program has written so many lines."""
    reading = asyncio.create_task(command.read())
    await eventually(lambda: written(once_written) >= lines)
    reading.cancel()
    await asyncio.wait({reading})
    assert reading.cancelled()


def written(file: Path) -> int:
    """How many whole lines are in the file."""
    return file.read_text().count("\n") if file.exists() else 0


async def test_a_program_that_left_a_child_on_its_output_has_answered(
    programs: Programs, tmp_path: Path
) -> None:
    """The program ended well but its child keeps the pipe open: the child ends, the text counts."""
    program(programs, "mx-smi", f"sleep 600 & echo $! > {tmp_path}/child; echo text")
    assert (await Command(("mx-smi",)).read()) == ok("text\n")
    await gone(int((tmp_path / "child").read_text()))


LOOPS = (asyncio.new_event_loop, uvloop.new_event_loop)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("ending", ["echo text", "sleep 600", "yes"])
def test_a_daemon_that_a_program_leaves_costs_no_descriptors(
    programs: Programs, tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop], ending: str
) -> None:
    """It holds the outputs, in a session of its own: whatever becomes of the reading, we let go."""
    daemon = f"echo $$ >> {tmp_path}/daemons; : > {tmp_path}/away; exec sleep 600"
    program(
        programs,
        "mx-smi",
        f"rm -f {tmp_path}/away; setsid sh -c '{daemon}' &\n"
        f"until [ -e {tmp_path}/away ]; do sleep 0.01; done; {ending}",
    )

    async def readings() -> list[ProbeState | None]:
        states: list[ProbeState | None] = []
        command = Command(("mx-smi",), limit_bytes=1 << 20)
        program(programs, "true", "exit 0")
        await Command(("true",)).read()  # the first one opens what the loop keeps
        before = descriptors()
        for number in range(1, 4):
            if ending == "sleep 600":
                await given_up(command, tmp_path / "daemons", number)
                states.append(None)
            else:
                states.append((await command.read()).state)
        await eventually(lambda: descriptors() <= before)
        return states

    try:
        with asyncio.Runner(loop_factory=loop) as runner:
            states = runner.run(readings())
    finally:
        for pid in (tmp_path / "daemons").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
    expected = {"echo text": ProbeState.OK, "sleep 600": None, "yes": ProbeState.FAILED}
    assert states == [expected[ending]] * 3


def descriptors() -> int:
    """How many file descriptors this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_command_dies_with_a_worker_that_was_killed(
    programs: Programs, tmp_path: Path
) -> None:
    """Nobody is left to end it; the kernel does."""
    program(programs, "mx-smi", f"echo $$ > {tmp_path}/pid; exec sleep 600")
    script = (
        "import asyncio; from worker.probes.commands import Command;"
        "asyncio.run(Command(('mx-smi',)).read())"
    )
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    try:
        await eventually(lambda: written(tmp_path / "pid") == 1)
    finally:
        worker.kill()
        await worker.wait()
    await gone(int((tmp_path / "pid").read_text()))


async def test_a_command_meets_signals_as_from_a_shell(programs: Programs) -> None:
    """Python ignores SIGPIPE and SIGXFSZ; a program that is started from it must not."""
    program(programs, "mx-smi", "exec grep SigIgn /proc/self/status")
    ignored = int((await Command(("mx-smi",)).read()).text.split()[1], 16)
    assert [s.name for s in (SIGPIPE, SIGXFSZ) if ignored >> (s - 1) & 1] == []


async def test_a_flood_is_cut_off_at_the_limit(programs: Programs) -> None:
    """Killed at the limit: the flood has no end that could be waited for."""
    program(programs, "mx-smi", "exec cat /dev/zero")
    async with asyncio.timeout(CEILING_S):
        reading = await Command(("mx-smi",), limit_bytes=1 << 20).read()
    assert reading.state is ProbeState.FAILED
    assert "more than 1048576 bytes" in reading.detail


async def test_a_flood_of_complaints_does_not_block(programs: Programs) -> None:
    """10 MB on stderr: read, mostly dropped, and the answer still arrives."""
    program(programs, "mx-smi", "head -c 10000000 /dev/zero >&2; echo text")
    assert (await Command(("mx-smi",)).read()).text == "text\n"


async def test_bytes_that_are_no_text_are_kept_readable(programs: Programs) -> None:
    """Invalid UTF-8 becomes replacement characters, never an exception."""
    program(programs, "mx-smi", r"printf 'a\377b'")
    assert (await Command(("mx-smi",)).read()).text == "a\N{REPLACEMENT CHARACTER}b"


async def test_a_program_that_cannot_be_killed_is_not_joined_by_another(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits inside the driver, where no signal reaches it; the readings say so until it ends."""
    program(programs, "mx-smi", f"echo $$ >> {tmp_path}/pids; echo too much text; exec sleep 600")
    command = Command(("mx-smi",), limit_bytes=10)
    with monkeypatch.context() as kernel:
        kernel.setattr(os, "killpg", lambda *_: None)
        kernel.setattr(os, "kill", lambda *_: None)
        assert (await command.read()).state is ProbeState.FAILED
        reading = await command.read()
    assert (reading.state, reading.detail) == (
        ProbeState.TIMED_OUT,
        "mx-smi hangs and cannot be killed",
    )
    (pid,) = (tmp_path / "pids").read_text().split()
    os.kill(int(pid), signal.SIGKILL)
    program(programs, "mx-smi", "echo back")

    async def is_back() -> bool:
        return await command.read() == ok("back\n")

    await eventually(is_back)


@pytest.mark.parametrize(("status", "words"), [(9, "exit status 9"), (-64, "signal SIGRTMAX")])
def test_how_a_program_ended_is_said_in_words(status: int, words: str) -> None:
    """Return codes of asyncio: negative ones are signals."""
    assert commands.status_words(status) == words


def test_a_signal_without_a_name_keeps_its_number() -> None:
    """Real-time signals between the named ones."""
    assert commands.status_words(-40) == "signal 40"
