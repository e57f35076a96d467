"""The master as a process on free ports of the loopback, and its log."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import ClientSession, ClientTimeout

from tests.master.world import Worker
from tests.support.waiting import CEILING_S

MASTER = (sys.executable, "-m", "master")
FREE_PORTS = ("--server-port=0", "--rpc-server-port=0", "--bind-address=127.0.0.1")


@dataclass
class MasterProcess:
    process: asyncio.subprocess.Process
    session: ClientSession
    ports: dict[str, int] = field(default_factory=dict)
    scheme: str = "http"
    log: list[dict[str, Any]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.ports['api']}"

    async def read_log(self) -> None:
        """Reads events until both ports are known, or the process has ended."""
        assert self.process.stdout is not None
        while len(self.ports) < 2 and (line := await self.process.stdout.readline()):
            event = json.loads(line)
            self.log.append(event)
            if event["event"] == "listening":
                self.ports[event["site"]] = event["port"]

    async def logged(self, event: str, times: int = 1) -> None:
        """Reads events until this one has come so often."""
        assert self.process.stdout is not None
        async with asyncio.timeout(CEILING_S):
            while sum(line["event"] == event for line in self.log) < times:
                self.log.append(json.loads(await self.process.stdout.readline()))

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """The exit code after a signal; the rest of the log is kept."""
        self.process.send_signal(number)
        return await self.wait()

    async def wait(self) -> int:
        """The exit code; the rest of the log is kept."""
        out, _ = await asyncio.wait_for(self.process.communicate(), CEILING_S)
        self.log += [json.loads(line) for line in out.splitlines()]
        assert self.process.returncode is not None
        return self.process.returncode

    def worker(self, node: str) -> Worker:
        """A worker of this master."""
        url = f"http://127.0.0.1:{self.ports['reports']}"
        return Worker(url, self.session, node)

    async def status(self, path: str) -> int:
        """The status of a GET, 0 where nobody answers."""
        try:
            async with self.session.get(self.url + path) as answer:
                return answer.status
        except OSError:
            return 0


@asynccontextmanager
async def master_process(
    *flags: str, command: Sequence[str] = MASTER
) -> AsyncIterator[MasterProcess]:
    process = await asyncio.create_subprocess_exec(
        *command,
        *FREE_PORTS,
        *flags,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with ClientSession(timeout=ClientTimeout(total=CEILING_S)) as session:
        running = MasterProcess(process, session)
        try:
            await asyncio.wait_for(running.read_log(), CEILING_S)
            yield running
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()
