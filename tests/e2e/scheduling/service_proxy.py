"""What stands between a caller and several masters: the proxy of a Service, on one port."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

from tests.e2e.scheduling.webhook_door import pass_on

PROBE_PERIOD_S, PROBE_FAILURES = 3.0, 2
"""The readiness probe of the chart: an endpoint is taken out after so many failures."""


class ServiceProxy:
    """Leads each connection to one of the ready addresses in turn, as kube-proxy does.

    An address is ready until its probe failed `PROBE_FAILURES` times in a row, and again after one
    success; till then a connection to a master that is dead is refused.
    """

    def __init__(
        self,
        address: str,
        behind: Sequence[str],
        is_ready: Callable[[str], Awaitable[bool]],
        port: int,
    ) -> None:
        self._address, self._is_ready, self._port = address, is_ready, port
        self._failures = dict.fromkeys(behind, PROBE_FAILURES)
        self._turns = itertools.count()
        self._server: asyncio.Server | None = None
        self._probing: asyncio.Task[None] | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.refused = 0
        """Connections that came while the chosen master was dead, or none was ready."""

    @property
    def ready(self) -> int:
        """How many addresses connections are led to."""
        return sum(failed < PROBE_FAILURES for failed in self._failures.values())

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self._address, self._port)
        self._probing = asyncio.create_task(self._probe())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, what: BaseException | None, at: TracebackType | None
    ) -> None:
        assert self._server is not None
        assert self._probing is not None
        self._server.close()
        tasks = [self._probing, *self._open]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _probe(self) -> None:
        while True:
            for address, failures in self._failures.items():
                is_ready = await self._is_ready(address)
                self._failures[address] = 0 if is_ready else failures + 1
            await asyncio.sleep(PROBE_PERIOD_S)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self._lead(reader, writer)
        except OSError:
            self.refused += 1
        except asyncio.CancelledError:
            pass  # the caller sees a connection that is closed
        finally:
            self._open.discard(task)
            writer.transport.abort()

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ready = [each for each, failed in self._failures.items() if failed < PROBE_FAILURES]
        if not ready:
            raise OSError("no master is ready")
        address = ready[next(self._turns) % len(ready)]
        answer, master = await asyncio.open_connection(address, self._port)
        ways = [
            asyncio.create_task(pass_on(reader, master)),
            asyncio.create_task(pass_on(answer, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            master.transport.abort()
