"""The demo's processes: started together, ended with the demo, started again when they die."""

import asyncio
import json
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from topo.kit.process.child_process import adopt_orphans, die_with_parent_command
from topo.kit.process.modules import module

LOOPBACK = "127.0.0.1"
_BACKOFF_S = (0.2, 0.5, 1.0, 2.0, 5.0)
_STEADY_S = 10.0
"""A program that lived this long did not die of its start: the next wait is the first again."""
_GRACE_S = 5.0
"""From SIGTERM to SIGKILL at the end."""
_LOOK_S = 0.02
_TAIL_LINES = 3
_TAIL_BYTES = 4096
_READ_ONLY, _APPEND = os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_APPEND


@dataclass(frozen=True, slots=True)
class Program:
    """One process of the demo: its name for people, its command line, its log.

    `needs_port`: a port on the loopback address that must listen before its first start. A worker
    that tried in vain may have run before the master, which then waits for all that may be waiting.
    """

    name: str
    argv: tuple[str, ...]
    log: Path
    needs_port: int | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """A process runs."""

    program: Program
    pid: int


@dataclass(frozen=True, slots=True)
class Died:
    """A process ended although nobody asked it to; `deaths` counts those in a row."""

    program: Program
    pid: int
    how: str
    last_lines: tuple[str, ...]
    deaths: int
    restart_in_s: float


Report = Callable[[Started | Died], None]


@asynccontextmanager
async def running(programs: Sequence[Program], report: Report) -> AsyncIterator[None]:
    """All the programs run inside the block, and none of them after it."""
    adopt_orphans()
    by_script: dict[str, list[Program]] = defaultdict(list)
    for program in programs:
        by_script[program.argv[0]].append(program)
    tasks = [asyncio.create_task(_supervise_all(alike, report)) for alike in by_script.values()]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _supervise_all(alike: Sequence[Program], report: Report) -> None:
    """Keep programs of one console script running; several of them are forked at the start."""
    needed = {program.needs_port for program in alike if program.needs_port is not None}
    pids = await _forked(alike, needed) if len(alike) > 1 else {}
    await _listening(needed)
    async with asyncio.TaskGroup() as group:
        for program in alike:
            group.create_task(_supervise(program, pids.get(program.name), report))


async def _supervise(program: Program, pid: int | None, report: Report) -> None:
    """Run one program until cancelled; starts it again, later each time it dies at once."""
    deaths = 0
    while True:
        began, told = time.monotonic(), _size(program.log) if pid is None else 0
        pid = pid or _spawn(program)
        report(Started(program, pid))
        try:
            code = await _exit_code(pid)
        except asyncio.CancelledError:
            await _terminate(pid)
            raise
        deaths = 1 if time.monotonic() - began > _STEADY_S else deaths + 1
        wait_s = _BACKOFF_S[min(deaths, len(_BACKOFF_S)) - 1]
        lines = _last_lines(program.log, told)
        report(Died(program, pid, _how_it_ended(code), lines, deaths, wait_s))
        pid = None
        await asyncio.sleep(wait_s)


def _spawn(program: Program) -> int:
    """Start it in a session of its own: Ctrl-C is for the demo, which then ends the others."""
    return os.posix_spawn(
        sys.executable,
        list(die_with_parent_command(*program.argv)),
        environment(),
        file_actions=(
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, _READ_ONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(program.log), _APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ),
        setsid=True,
    )


async def _listening(ports: Iterable[int]) -> None:
    """Return when all the ports take connections, however long that is."""
    for port in ports:
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection(LOOPBACK, port)
                writer.close()
                break
            await asyncio.sleep(_LOOK_S)


async def _forked(alike: Sequence[Program], needed: Iterable[int]) -> Mapping[str, int]:
    """Return the processes that the fork server started, by name; see `topo.cli.demo.fork_server`.

    It imports while the ports that are needed do not listen yet. What it did not start is spawned,
    so a fork server that fails costs time and nothing else.
    """
    server = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-P", "-m", module("topo.cli.demo.fork_server"), Path(alike[0].argv[0]).name),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment(),
    )
    wanted = [{"name": each.name, "argv": each.argv, "log": str(each.log)} for each in alike]
    try:
        await _listening(needed)
        written, _ = await server.communicate(json.dumps(wanted).encode())
    finally:
        if server.returncode is None:  # cancelled
            server.kill()
            await server.wait()
    lines = [line.partition(" ") for line in written.decode().splitlines()]
    return {name: int(pid) for pid, _, name in lines}


def environment() -> dict[str, str]:
    """This process's environment without settings: what the demo runs is said by its flags."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TOPO_")}


async def _exit_code(pid: int) -> int:
    """Return the exit code of a child, negative for a signal, when it has ended."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    watched = os.pidfd_open(pid)
    loop.add_reader(watched, over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(watched)
        os.close(watched)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])  # noqa: ASYNC222 - it has ended


async def _terminate(pid: int) -> None:
    """End the process and its group: politely, then not."""
    for number, limit_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError):
            os.killpg(pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await _exit_code(pid)
                return


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _size(log: Path) -> int:
    """Bytes of the log, 0 where there is none yet."""
    try:
        return log.stat().st_size
    except OSError:
        return 0


def _last_lines(log: Path, begin: int) -> tuple[str, ...]:
    """The last lines of a log from its byte `begin` on: what came before, an earlier start said."""
    try:
        with log.open("rb") as file:
            file.seek(max(begin, log.stat().st_size - _TAIL_BYTES))
            text = file.read(_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ()
    return tuple(line for line in text.splitlines() if line.strip())[-_TAIL_LINES:]
