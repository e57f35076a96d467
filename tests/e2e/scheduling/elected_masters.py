"""Two masters that elect who leads, both behind the chart's Services, and killed at will."""

import asyncio
import itertools
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.controlplane.admission import is_trusted
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.processes import Program
from tests.e2e.scheduling.admission_master import OWN, command, granted, install_webhook
from tests.e2e.scheduling.service_proxy import ServiceProxy
from tests.support.leading import leads, shows
from tests.support.waiting import eventually
from topo.kit.files import write_private

TERM_S = 9
_numbers = itertools.count(1)
_OCTETS, _SERVICE_OCTET = (202, 203), 204
_PORT, _RPC_PORT, _HTTPS = 9001, 9000, 443
_KILLED_AFTER_S, _DOWN_S = (0.0, 0.6), (0.0, 12.0)
"""When a master is killed after a burst of jobs began, and how long it then stays away."""


@dataclass
class ElectedMasters:
    """Both masters by their address, the namespace of their account, and what was done to them."""

    masters: dict[str, Program]
    namespace: str
    service: str
    """The ClusterIP of the Service that they are behind."""
    proxy: ServiceProxy
    kills: int = 0
    leaders_killed: int = 0
    _chance: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311
    _restart: asyncio.Task[None] | None = None

    def __str__(self) -> str:
        return (
            f"{self.kills} masters were killed, {self.leaders_killed} of them led; "
            f"{self.proxy.refused} connections came to a dead one"
        )

    async def url(self) -> str:
        """Return where the API of the leader is; empty while none leads.

        Raises `EndedEarlyError` where a master has ended by itself: nobody killed it.
        """
        for program in self.masters.values():
            if program.has_died:
                program.must_live()
        for address in self.masters:
            if await self._leads(address):
                return _url(address)
        return ""

    async def has_leader(self) -> bool:
        """Whether one of them leads."""
        return bool(await self.url())

    def stop(self) -> None:
        """Both end as by a crash."""
        for program in self.masters.values():
            program.stop(number=signal.SIGKILL)

    async def kill_leader(self) -> None:
        """Whoever leads ends as by a crash, and stays away until `start`."""
        await eventually(self.has_leader)
        for address, program in self.masters.items():
            if await self._leads(address):
                await asyncio.to_thread(program.stop, number=signal.SIGKILL)
                self.kills += 1
                self.leaders_killed += 1

    async def end(self) -> None:
        """None runs any more, nor is started again."""
        if self._restart is not None:
            self._restart.cancel()
            await asyncio.gather(self._restart, return_exceptions=True)
        await asyncio.to_thread(self.stop)

    def start(self) -> None:
        """Start those that do not run."""
        for program in self.masters.values():
            if not program.is_alive:
                program.start()

    async def disturb(self) -> None:
        """Kill the next one in a moment, as soon as all run; it is started again after a while."""
        await eventually(lambda: self.are_up)
        address = list(self.masters)[self.kills % len(self.masters)]
        program = self.masters[address]
        await asyncio.sleep(self._chance.uniform(*_KILLED_AFTER_S))
        self.leaders_killed += await self._leads(address)
        await asyncio.to_thread(program.stop, number=signal.SIGKILL)
        self.kills += 1
        self._restart = asyncio.create_task(self._start_again(program))

    async def _start_again(self, program: Program) -> None:
        await asyncio.sleep(self._chance.uniform(*_DOWN_S))
        program.start()

    @property
    def are_up(self) -> bool:
        """Whether both run."""
        return all(program.is_alive for program in self.masters.values())

    async def _leads(self, address: str) -> bool:
        return self.masters[address].is_alive and await leads(_url(address))


@asynccontextmanager
async def elected_admission(
    cluster: Cluster, api: Api, home: Path, *flags: str, rendering: str = OWN
) -> AsyncIterator[ElectedMasters]:
    """Both masters run and their webhook is trusted, until the block ends."""
    async with elected_masters(cluster, api, home, *flags, rendering=rendering) as both:
        await install_webhook(api, both.namespace, both.service, rendering=rendering)
        await eventually(lambda: is_trusted(api))
        await eventually(both.has_leader)
        # The API server refuses pods with groups while the Service leads to none of them.
        await eventually(lambda: both.proxy.ready > 0)
        yield both


@asynccontextmanager
async def elected_masters(
    cluster: Cluster, api: Api, home: Path, *flags: str, rendering: str, port: int = _HTTPS
) -> AsyncIterator[ElectedMasters]:
    """Both masters run behind a Service with one port, until the block ends."""
    namespace = f"topo-elected-placing-{next(_numbers)}"
    kubeconfig = await granted(cluster, api, namespace, home, rendering=rendering)
    write_private(home / "replica-token", b"a-token-that-all-masters-share")
    masters: dict[str, Program] = {}
    for number, octet in enumerate(_OCTETS):
        address = f"{cluster.ports.services}.{octet}"
        argv = (
            *command(home, kubeconfig, address),
            *("--leader-elect=true", f"--lease-duration={TERM_S}s", f"--pod-ip={address}"),
            *(f"--replica-token-file={home / 'replica-token'}", "--state-config-maps=true"),
            *(f"--server-port={_PORT}", f"--rpc-server-port={_RPC_PORT}"),
            *(f"--state-file={home / f'state-{number}'}", *flags),
        )
        name = f"topo-master-{number}"
        environment = {"POD_NAMESPACE": namespace, "POD_NAME": name}
        masters[address] = Program(name, argv, home / f"{name}.log", environment)
    service = f"{cluster.ports.services}.{_SERVICE_OCTET}"
    async with ServiceProxy(service, tuple(masters), _is_ready, port) as proxy:
        both = ElectedMasters(masters, namespace, service, proxy)
        both.start()
        try:
            yield both
        finally:
            await both.end()


def _url(address: str) -> str:
    return f"http://{address}:{_PORT}"


async def _is_ready(address: str) -> bool:
    return await shows(f"{_url(address)}/readyz")
