"""Two masters that elect who leads and both serve the chart's webhook, killed by turns."""

import asyncio
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
_NAMESPACE = "topo-elected-placing"
_OCTETS, _SERVICE_OCTET = (202, 203), 204
_PORT, _RPC_PORT = 9001, 9000
_KILLED_AFTER_S, _DOWN_S = (0.0, 0.6), (0.0, 12.0)
"""When a master is killed after a burst of jobs began, and how long it then stays away."""


@dataclass
class ElectedAdmission:
    """Both masters by their address, and what was done to them."""

    masters: dict[str, Program]
    proxy: ServiceProxy
    kills: int = 0
    leaders_killed: int = 0
    _chance: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311
    _restart: asyncio.Task[None] | None = None

    def __str__(self) -> str:
        return (
            f"{self.kills} masters were killed, {self.leaders_killed} of them led; "
            f"{self.proxy.refused} calls of the webhook came to a dead one"
        )

    async def url(self) -> str:
        """Return where the API of the leader is; empty while none leads."""
        for address in self.masters:
            if await self._leads(address):
                return _url(address)
        return ""

    def stop(self) -> None:
        """Both end as by a crash."""
        for program in self.masters.values():
            program.stop(number=signal.SIGKILL)

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
        await eventually(self._are_up)
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

    def _are_up(self) -> bool:
        return all(program.is_alive for program in self.masters.values())

    async def _leads(self, address: str) -> bool:
        return self.masters[address].is_alive and await leads(_url(address))


@asynccontextmanager
async def elected_admission(
    cluster: Cluster, api: Api, home: Path, *flags: str, rendering: str = OWN
) -> AsyncIterator[ElectedAdmission]:
    """Both masters run and their webhook is trusted, until the block ends."""
    kubeconfig = await granted(cluster, api, _NAMESPACE, home, rendering=rendering)
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
        environment = {"POD_NAMESPACE": _NAMESPACE, "POD_NAME": name}
        masters[address] = Program(name, argv, home / f"{name}.log", environment)
    service = f"{cluster.ports.services}.{_SERVICE_OCTET}"

    async with ServiceProxy(service, tuple(masters), _is_ready) as proxy:
        both = ElectedAdmission(masters, proxy)
        both.start()
        try:
            await install_webhook(api, _NAMESPACE, service, rendering=rendering)
            await eventually(lambda: is_trusted(api))
            await eventually(lambda: _is_led(both))
            yield both
        finally:
            await both.end()


async def _is_led(both: ElectedAdmission) -> bool:
    return bool(await both.url())


def _url(address: str) -> str:
    return f"http://{address}:{_PORT}"


async def _is_ready(address: str) -> bool:
    return await shows(f"{_url(address)}/readyz")
