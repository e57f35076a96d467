"""The worker's side of a helper process, which is killed if it does not answer."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from topo.kit.process.modules import module
from topo.model.machine import ProbeState
from worker.probes.commands import kill_group, status_words
from worker.probes.probe import MAX_OUTPUT_BYTES, Reading, failed, shown, timed_out

_PART_BYTES = 1 << 16
_REAP_S = 1.0
_HELPER = (sys.executable, "-P", "-m", module("worker.probes.helper"))


class HelperProcess:
    """One vendor library behind a process boundary.

    The process is started at the first reading and kept. A reading that is cancelled kills it; one
    that the kernel does not let die is never joined by a second one. A library that is absent
    costs no standing process: its helper ends and is started again at the next reading.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str] = MappingProxyType({}),
        command: Sequence[str] = _HELPER,
    ) -> None:
        self._argv = (*command, *arguments)
        self._environment = environment
        self._process: asyncio.subprocess.Process | None = None
        self._unkilled: asyncio.subprocess.Process | None = None

    async def read(self) -> Reading:
        """Read once. Cancellation kills the process group."""
        if self._unkilled is not None and self._unkilled.returncode is None:
            return timed_out("the library hangs and cannot be killed")
        try:
            process = await self._running()
        except OSError as error:
            return failed(f"the helper cannot be started: {error.strerror}")
        keep = False
        try:
            reading = await _ask(process)
            keep = reading.state is not ProbeState.ABSENT and process.returncode is None
            return reading
        finally:
            if not keep:
                self._process = None
                if not await _kill(process):
                    self._unkilled = process

    def close(self) -> None:
        """Close the helper's input, which ends it; a hanging one dies with this process."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def wait_closed(self) -> None:
        """Wait until the process has ended and the loop has noticed."""
        if self._process is not None:
            await self._process.wait()

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={**os.environ, "LC_ALL": "C", **self._environment},
                start_new_session=True,
                limit=MAX_OUTPUT_BYTES,
            )
        return self._process


async def _kill(process: asyncio.subprocess.Process) -> bool:
    """Kill a helper's process group. Return whether it is gone.

    A process that waits inside a driver (state D) cannot be killed: after a second it is left.
    """
    kill_group(process.pid)
    ending = asyncio.ensure_future(_end(process))
    done, _ = await asyncio.wait({ending}, timeout=_REAP_S)
    if not done:
        ending.cancel()
    return bool(done)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Read the rest of the pipe, which closes only at its end, and reap the process."""
    while process.stdout is not None and await process.stdout.read(_PART_BYTES):
        pass
    await process.wait()


async def _ask(process: asyncio.subprocess.Process) -> Reading:
    """Ask once and return the answer. A helper that ends instead was crashed by its library."""
    if process.stdin is None or process.stdout is None:
        raise AssertionError("both ends are pipes")
    try:
        process.stdin.write(b"\n")
        await process.stdin.drain()
        line = await process.stdout.readline()
    except ValueError:
        return failed(f"the library said more than {MAX_OUTPUT_BYTES} bytes")
    except ConnectionError:
        line = b""
    if not line.endswith(b"\n"):
        return failed(f"the library ended its process: {status_words(await process.wait())}")
    answer = json.loads(line)
    return Reading(ProbeState(answer["state"]), answer["text"], shown(answer["detail"]))
