"""Two masters that elect who leads, each with a network of its own to the API server."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from tests.chaos.ports import own_ports
from tests.e2e.controlplane.cluster import Cluster, account_access, service_account
from tests.e2e.controlplane.processes import Program
from tests.e2e.elected.machine import Machine, compiled, machine
from tests.e2e.scheduling.gang_master import RULES, TOKEN, document
from tests.support.leading import leads
from tests.support.relay import Relay, relay_to
from topo.kit.files import write_private
from topo.sim.worlds.presets import World

NAMESPACE, ACCOUNT = "default", "topo-elected"
TERM_S = 9
SLOW_S = 0.5
STEP_S = 3600.0
FLUSH_S = 2.0
_WHOLE = ["get", "list", "watch", "create", "update", "patch", "delete"]
_ELECTED = (
    *RULES,
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": _WHOLE[:5]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": _WHOLE},
)
_LOOK_S = 0.5


@dataclass
class Master:
    """One master, its machine, the network to the API server, and where its API is."""

    program: Program
    machine: Machine
    network: Relay
    url: str
    is_down: bool = False
    """Whether somebody keeps it down; else it is started again once it has ended."""
    is_paused: bool = False
    _steps: int = 0

    def pause(self) -> None:
        """It stands still, as a process of a machine that swaps."""
        self.is_paused = True
        self._signal(signal.SIGSTOP)

    def heal(self) -> None:
        """Nothing keeps it from its work any more."""
        self.network.heal()
        self.machine.heal()
        self.is_down = False
        if self.is_paused:
            self.is_paused = False
            self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """It ends as by a crash, and stays down."""
        self.is_down = True
        self.program.stop(0.0, signal.SIGKILL)

    def slow_down(self) -> None:
        """Each part of what it sends to the API server and hears from it is late."""
        self.network.delay_s = SLOW_S

    def step_clock(self) -> None:
        """Its wall clock jumps, forward at one time and back at the next."""
        self._steps += 1
        self.machine.step_clock(STEP_S if self._steps % 2 else -STEP_S)

    def fail_disk(self) -> None:
        """What it writes to its disk is not kept."""
        self.machine.fail_disk()

    def slow_disk(self) -> None:
        """Each flush to its disk takes long."""
        self.machine.slow_disk(FLUSH_S)

    async def leads(self) -> bool:
        """What it says itself."""
        return not self.is_paused and self.program.is_alive and await leads(self.url)

    def _signal(self, number: signal.Signals) -> None:
        if self.program.is_alive:
            os.kill(self.program.pid, number)


async def keep_up(masters: Sequence[Master]) -> None:
    """Start each master again once it has ended, as a kubelet does; never ends."""
    while True:
        for each in masters:
            if not each.is_down and not each.program.is_alive:
                each.program.start()
        await asyncio.sleep(_LOOK_S)


@asynccontextmanager
async def two_masters(cluster: Cluster, world: World, home: Path) -> AsyncIterator[list[Master]]:
    """Both run until the block ends, with the state in ConfigMaps."""
    async with cluster.api() as api:
        await service_account(api, NAMESPACE, ACCOUNT, _ELECTED)
    access = await account_access(cluster, NAMESPACE, ACCOUNT)
    (home / "nodegroup.yaml").write_text(yaml.safe_dump(document(world)))
    (home / "writers").write_text(f"ops {TOKEN}\n")
    write_private(home / "replica-token", b"a-token-that-all-masters-share")
    port = urlsplit(access.server).port
    assert port is not None
    masters, library = list[Master](), compiled(home)
    async with AsyncExitStack() as stack:
        for number in range(2):
            network = await stack.enter_async_context(relay_to(port))
            ports = stack.enter_context(own_ports())
            own = home / f"master-{number}"
            own.mkdir()
            server = f"https://127.0.0.1:{network.port}"
            kubeconfig = replace(access, server=server).kubeconfig(own / "kubeconfig")
            argv = (
                *(sys.executable, "-m", "master", "--mode=config", "--bind-address=127.0.0.1"),
                *(f"--config-file={home / 'nodegroup.yaml'}", f"--kubeconfig={kubeconfig}"),
                *("--leader-elect=true", f"--lease-duration={TERM_S}s", "--pod-ip=127.0.0.1"),
                *("--state-config-maps=true", f"--state-file={own / 'state'}"),
                *(f"--replica-token-file={home / 'replica-token'}", "--gate-timeout=0"),
                *("--controllers=nomination", f"--api-token-file={home / 'writers'}"),
                *(f"--server-port={ports[0]}", f"--rpc-server-port={ports[1]}"),
            )
            name = f"topo-master-{number}"
            own_machine = machine(library, own)
            environment = {"POD_NAMESPACE": NAMESPACE, "POD_NAME": name}
            environment |= own_machine.environment
            program = Program(name, argv, own / "master.log", environment)
            url = f"http://127.0.0.1:{ports[0]}"
            masters.append(Master(program, own_machine, network, url))
        try:
            for each in masters:
                each.program.start()
            yield masters
        finally:
            for each in masters:
                each.heal()
                await asyncio.to_thread(each.program.stop, 0.0, signal.SIGKILL)
