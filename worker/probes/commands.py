"""Commands: fixed words, no shell, a bounded answer, and an end that the whole family meets.

A command runs in a session of its own, so that killing its process group takes along whatever it
started. Its environment is only what a vendor's tool needs, with `LC_ALL=C` for parseable text.
"""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from worker.probes.probe import MAX_OUTPUT_BYTES, Reading, absent, failed, ok, timed_out

METAX_FOLDERS = ("/opt/mxdriver/bin", "/opt/maca/bin", "/usr/local/maca/bin")
"""Where drivers and MACA put mx-smi; it is on nobody's PATH."""
NVIDIA_EXITS: Mapping[int, str] = MappingProxyType(
    {
        3: "not supported",
        4: "no permission",
        8: "a power cable is missing",
        9: "the driver is not loaded",
        10: "an interrupt problem",
        12: "the NVML library is missing",
        13: "the NVML library is too old",
        14: "the infoROM is corrupt",
        15: "a GPU has fallen off the bus",
    }
)
"""`man nvidia-smi`, RETURN VALUE."""

_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "HOME")
_STDERR_BYTES = 4096
_PART_BYTES = 1 << 16
_REAP_S = 1.0


@dataclass(frozen=True, slots=True)
class Answer:
    """How a command ended. `overflowed`: it printed more than the limit and was killed."""

    status: int
    stdout: bytes
    stderr: bytes
    overflowed: bool = False


def find_program(name: str, folders: Sequence[str] = ()) -> str | None:
    """The program's path: PATH first, as an administrator would expect, then the folders."""
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(folders))


class Command:
    """A command that can be asked again and again; never two of it at a time."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        folders: Sequence[str] = (),
        exits: Mapping[int, str] = MappingProxyType({}),
        limit_bytes: int = MAX_OUTPUT_BYTES,
    ) -> None:
        self._argv = tuple(argv)
        self._folders = tuple(folders)
        self._exits = exits
        self._limit_bytes = limit_bytes
        self._unkilled: asyncio.subprocess.Process | None = None

    async def read(self) -> Reading:
        """Runs the command once. On cancellation its process group is killed."""
        name = self._argv[0]
        if self._unkilled is not None and self._unkilled.returncode is None:
            return timed_out(f"{name} hangs and cannot be killed")
        program = find_program(name, self._folders)
        if program is None:
            return absent(f"{name} is not installed")
        try:
            answer = await self._run(program)
        except OSError as error:
            return failed(f"{name} cannot be started: {error.strerror}")
        return self._judge(answer)

    def _judge(self, answer: Answer) -> Reading:
        name = self._argv[0]
        if answer.overflowed:
            return failed(f"{name} printed more than {self._limit_bytes} bytes")
        text = answer.stdout.decode("utf-8", "replace")
        if answer.status != 0:
            words = answer.stderr.decode("utf-8", "replace").strip() or text.strip()
            said = self._exits.get(answer.status) or (words.splitlines() or ["no message"])[0]
            return failed(f"{name} ended with {status_words(answer.status)}: {said}")
        return ok(text)

    async def _run(self, program: str) -> Answer:
        process = await asyncio.create_subprocess_exec(
            program,
            *self._argv[1:],
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=command_environment(),
            start_new_session=True,
        )
        done = False
        try:
            answer = await _collect(process, self._limit_bytes)
            done = not answer.overflowed
            return answer
        finally:
            if not done and not await kill_family(process):
                self._unkilled = process


def command_environment() -> dict[str, str]:
    """The few variables a vendor's tool needs; nothing else of ours reaches it."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return {**kept, "LC_ALL": "C"}


async def kill_family(process: asyncio.subprocess.Process) -> bool:
    """Kills a process that leads a group of its own, and the group; whether it is gone.

    A process that waits inside a driver (state D) cannot be killed: after a second it is left.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    ending = asyncio.ensure_future(_end(process))
    done, _ = await asyncio.wait({ending}, timeout=_REAP_S)
    if not done:
        ending.cancel()
    return bool(done)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Reads what is left in the pipes, for only at their end are they closed, and reaps."""
    for stream in (process.stdout, process.stderr):
        while stream is not None and await stream.read(_PART_BYTES):
            pass
    await process.wait()


async def _collect(process: asyncio.subprocess.Process, limit_bytes: int) -> Answer:
    """Both outputs to their end, or as far as the limit goes."""
    if process.stdout is None or process.stderr is None:
        raise AssertionError("both outputs are pipes")
    complaints = asyncio.ensure_future(_head(process.stderr, _STDERR_BYTES))
    try:
        stdout = await _bounded(process.stdout, limit_bytes)
        if stdout is None:
            return Answer(-signal.SIGKILL, b"", b"", overflowed=True)
        stderr = await complaints
        return Answer(await process.wait(), stdout, stderr)
    finally:
        complaints.cancel()
        await asyncio.wait({complaints})


async def _bounded(stream: asyncio.StreamReader, limit_bytes: int) -> bytes | None:
    """The whole stream, or None as soon as it is longer than the limit."""
    parts: list[bytes] = []
    left = limit_bytes
    while part := await stream.read(_PART_BYTES):
        left -= len(part)
        if left < 0:
            return None
        parts.append(part)
    return b"".join(parts)


async def _head(stream: asyncio.StreamReader, limit_bytes: int) -> bytes:
    """The first bytes of a stream that is read to its end, so that its writer never blocks."""
    head = b""
    while part := await stream.read(_PART_BYTES):
        head += part[: limit_bytes - len(head)]
    return head


def status_words(status: int) -> str:
    """`exit status 9` or `signal SIGSEGV`, from a return code of asyncio."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"
