"""The demo's processes: started together, tethered to the demo, started again when they die."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from topo.cli.demo import tether

_BACKOFF_S = (0.2, 0.5, 1.0, 2.0, 5.0)
_STEADY_S = 10.0
"""A program that lived this long did not die of its start: the next wait is the first again."""
_GRACE_S = 5.0
"""From SIGTERM to SIGKILL at the end."""
_TAIL_LINES = 5
_TAIL_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Program:
    """One process of the demo: its name for people, its command line, its log."""

    name: str
    argv: tuple[str, ...]
    log: Path


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


Told = Callable[[Started | Died], None]


@asynccontextmanager
async def running(programs: Sequence[Program], tell: Told) -> AsyncIterator[None]:
    """All the programs run inside the block, and none of them after it."""
    keepers = [asyncio.create_task(_keep(program, tell)) for program in programs]
    try:
        yield
    finally:
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)


async def _keep(program: Program, tell: Told) -> None:
    """Runs one program until cancelled; starts it again, later each time it dies at once."""
    deaths = 0
    while True:
        began = time.monotonic()
        process = await _start(program)
        try:
            tell(Started(program, process.pid))
            code = await process.wait()
        finally:
            await _end(process)
        deaths = 1 if time.monotonic() - began > _STEADY_S else deaths + 1
        wait_s = _BACKOFF_S[min(deaths, len(_BACKOFF_S)) - 1]
        lines = _last_lines(program.log)
        tell(Died(program, process.pid, _how(code), lines, deaths, wait_s))
        await asyncio.sleep(wait_s)


async def _start(program: Program) -> asyncio.subprocess.Process:
    """Starts it in a session of its own: Ctrl-C is for the demo, which then ends the others."""
    command = (sys.executable, "-I", "-S", tether.__file__, str(os.getpid()), *program.argv)
    with program.log.open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=environment(),
        )


def environment() -> dict[str, str]:
    """This process's environment without settings: what the demo runs is said by its flags."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TOPO_")}


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ends the process and its group: politely, then not."""
    for number, patience_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await process.wait()
                return


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _last_lines(log: Path) -> tuple[str, ...]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read(_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ()
    return tuple(line for line in text.splitlines() if line.strip())[-_TAIL_LINES:]
