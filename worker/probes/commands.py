"""Commands: fixed words, no shell, bounded output; killed with everything that they started.

A command runs in a session of its own, so that killing its process group takes along whatever it
started, and ends with the worker, even one that is killed. Its environment is only what a vendor's
tool needs, with `LC_ALL=C` for parseable text.
"""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Container, Mapping, Sequence
from types import MappingProxyType

from topo.kit.process.child_process import die_with_parent_command
from topo.model.machine import ProbeState
from worker.probes.probe import MAX_OUTPUT_BYTES, Reading, absent, failed, shown, timed_out

_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "HOME")
_STDOUT, _STDERR = 1, 2
_STDERR_BYTES = 4096
_REAP_S = 1.0
_DRAIN_S = 0.2
"""Time for the remaining output after a command ended. A daemon that it left behind may hold its
outputs open for ever."""


def find_program(name: str, folders: Sequence[str] = ()) -> str | None:
    """Return the path of a program: from PATH, as an administrator expects, then the folders."""
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(folders))


class Command:
    """A command that is run again and again, never twice at a time.

    `exits` says what its exit statuses mean; `absent_exits` are those of a host without the source.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        folders: Sequence[str] = (),
        exits: Mapping[int, str] = MappingProxyType({}),
        absent_exits: Container[int] = (),
        limit_bytes: int = MAX_OUTPUT_BYTES,
    ) -> None:
        self._argv = tuple(argv)
        self._folders = tuple(folders)
        self._exits = exits
        self._absent_exits = absent_exits
        self._limit_bytes = limit_bytes
        self._unkilled: asyncio.SubprocessTransport | None = None

    async def read(self, take: Callable[[bytes], None] | None = None) -> Reading:
        """Run the command once. Cancellation kills its process group.

        With `take` the output goes there piece by piece, and the reading has no text; of a command
        that ended well it has the first line of complaint as its detail.
        """
        name = self._argv[0]
        if self._unkilled is not None and self._unkilled.get_returncode() is None:
            return timed_out(f"{name} hangs and cannot be killed")
        program = find_program(name, self._folders)
        if program is None:
            return absent(f"{name} is not installed")
        try:
            return await self._run(program, take)
        except OSError as error:
            return failed(f"{name} cannot be started: {error.strerror}")

    async def _run(self, program: str, take: Callable[[bytes], None] | None) -> Reading:
        process, printed = await asyncio.get_running_loop().subprocess_exec(
            lambda: _Printed(self._limit_bytes, take),
            *die_with_parent_command(program, *self._argv[1:]),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=command_environment(),
            start_new_session=True,
        )
        try:
            await printed.settled()
        finally:
            if not await _finish(process, printed):
                self._unkilled = process
        status = process.get_returncode()
        return self._reading(-signal.SIGKILL if status is None else status, printed)

    def _reading(self, status: int, printed: "_Printed") -> Reading:
        name = self._argv[0]
        if printed.overflowed:
            return failed(f"{name} printed more than {self._limit_bytes} bytes")
        text = printed.stdout.decode("utf-8", "replace")
        complaint = printed.stderr.decode("utf-8", "replace").strip()
        if status == 0:
            said = complaint.partition("\n")[0] if printed.is_taken else ""
            return Reading(ProbeState.OK, text, shown(said))
        message = complaint or text.strip()
        why = self._exits.get(status) or (message.splitlines() or ["no message"])[0]
        ended = f"{name} ended with {status_words(status)}: {why}"
        return absent(ended) if status in self._absent_exits else failed(ended)


class _Printed(asyncio.SubprocessProtocol):
    """The output of a command so far, and whether it has ended.

    Beyond the limits everything is dropped, so that its writer never blocks. With `take` the
    standard output is handed on, and not kept.
    """

    def __init__(self, limit_bytes: int, take: Callable[[bytes], None] | None = None) -> None:
        self.is_taken = take is not None
        self.stdout = bytearray()
        self._take = take if take is not None else self.stdout.extend
        self._stdout_bytes = 0
        self.stderr = bytearray()
        self.overflowed = False
        self.ended = asyncio.Event()
        self.closed = asyncio.Event()
        self._settled = asyncio.Event()
        self._limit_bytes = limit_bytes
        self._open = {_STDOUT, _STDERR}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keep the output up to the limit."""
        if fd == _STDERR:
            self.stderr += data[: _STDERR_BYTES - len(self.stderr)]
        elif self._stdout_bytes + len(data) <= self._limit_bytes and not self.overflowed:
            self._stdout_bytes += len(data)
            self._take(data)
        else:
            self.stdout.clear()
            self.overflowed = True
            self._settled.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - given
        """Note that the last process closed this output."""
        self._open.discard(fd)
        if not self._open:
            self.closed.set()

    def process_exited(self) -> None:
        """Note that the command has ended; its children may live on."""
        self.ended.set()
        self._settled.set()

    async def settled(self) -> None:
        """Wait until the command ended and its output was read, or exceeded the limit."""
        await self._settled.wait()
        if not self.overflowed:
            await _within(_DRAIN_S, self.closed)


async def _finish(process: asyncio.SubprocessTransport, printed: _Printed) -> bool:
    """Kill the rest of the process group and close its outputs. Return whether it is gone.

    A process that waits inside a driver (state D) cannot be killed: after a second it is left.
    """
    if not (printed.ended.is_set() and printed.closed.is_set()):
        kill_group(process.get_pid())
    gone = await _within(_REAP_S, printed.ended)
    process.close()
    return gone


async def _within(seconds: float, event: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def kill_group(leader: int) -> None:
    """Kill the leader of a process group, and the group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def command_environment() -> dict[str, str]:
    """Return the few environment variables that a vendor's tool needs; it gets no others."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return {**kept, "LC_ALL": "C"}


def status_words(status: int) -> str:
    """Return `exit status 9` or `signal SIGSEGV` for a return code of asyncio."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"
