"""Our chart on the harness's cluster, with a cluster manager and hosts whose cables can be cut."""

import asyncio
import base64
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.hosts import Hosts
from tests.e2e.controlplane.kubelet import Kubelet
from tests.helm.chart import CHART, VENDOR, built_helm, running
from tests.support.waiting import CEILING_S
from topo.sim.clustermanager.server import Simulator, SimulatorSettings, simulator
from topo.sim.worlds.presets import World, managed_topology

MASTER_SERVICE = "topo-master-service"
ALONE = ("--set", "topoDiscovery.master.replicas=1")
"""One master."""
_CA = "cluster-manager-ca"
_QUICK = ("TOPO_PROBE_INTERVAL", "0.25")
"""A test does not wait for a worker that looks every two seconds."""


@dataclass
class Release:
    """A release of our chart in a namespace: what users do with it."""

    api: Api
    kubelet: Kubelet
    namespace: str
    kubeconfig: Path
    hosts: Hosts
    manager: Simulator
    home: Path
    name: str = "topo"
    session: ClientSession = field(default_factory=ClientSession)

    async def helm(self, *arguments: str) -> Any:
        """What helm prints, as JSON where it was asked for; fails where helm fails."""
        place = ("--kubeconfig", str(self.kubeconfig), "--namespace", self.namespace)
        helm = await asyncio.to_thread(built_helm)
        done = await running(helm, *arguments, *place, home=self.home)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout) if "json" in arguments else done.stdout

    async def install(self, *more: str) -> None:
        """The vendor's own command line, with this cluster manager; waits until all is ready."""
        authority = self.manager.ca_file.read_text()
        config_map = {"metadata": {"name": _CA}, "data": {"ca.crt": authority}}
        await self.api.create(f"/api/v1/namespaces/{self.namespace}/configmaps", config_map)
        await self.helm("install", self.name, str(CHART), *self.values, *more, *WAIT)

    async def remove_authority(self) -> None:
        """Takes away what `install` brought beside the chart."""
        await self.api.delete(f"/api/v1/namespaces/{self.namespace}/configmaps/{_CA}")

    @property
    def values(self) -> tuple[str, ...]:
        """What the vendor's manual sets, where our manager is, and that workers look often."""
        secret = self.manager.credentials_dir
        switchbox = "topoDiscovery.switchbox."
        return (
            *VENDOR,
            *("--set", f"{switchbox}clusterManagerAddress={self.manager.url}"),
            *("--set", f"{switchbox}clusterManagerUser={_encoded(secret / 'username')}"),
            *("--set", f"{switchbox}clusterManagerPassword={_encoded(secret / 'password')}"),
            *("--set", f"{switchbox}clusterManagerCaConfigMap={_CA}"),
            *("--set", f"topoDiscovery.worker.env[0].name={_QUICK[0]}"),
            *("--set-string", f"topoDiscovery.worker.env[0].value={_QUICK[1]}"),
        )

    def rewire(self, world: World) -> None:
        """The cables are those of another world: each host that it changes was off meanwhile."""
        changed = self.hosts.rewire(world)
        for pod in self.kubelet.pods("topo-worker"):
            if pod.node in changed:
                for pid in pod.pids:
                    os.kill(pid, signal.SIGKILL)

    async def url(self) -> str:
        """Where the Service of the masters answers."""
        path = f"/api/v1/namespaces/{self.namespace}/services/{MASTER_SERVICE}"
        return f"http://{(await self.api.get(path))['spec']['clusterIP']}:9001"

    async def document(self, url: str) -> Any:
        """The JSON that is served there, None while none is."""
        try:
            async with self.session.get(url, timeout=ClientTimeout(total=CEILING_S)) as answer:
                return await answer.json() if answer.status == 200 else None
        except (ClientError, OSError):
            return None

    async def node_group(self) -> Any:
        """The vendor's document through the Service, None while nobody serves it."""
        return await self.document(f"{await self.url()}/node_group")


WAIT = ("--wait", "--timeout", f"{CEILING_S:.0f}s")


def _encoded(secret: Path) -> str:
    return base64.b64encode(secret.read_bytes()).decode()


@asynccontextmanager
async def release(
    api: Api, kubelet: Kubelet, namespace: str, kubeconfig: Path, hosts: Hosts
) -> AsyncIterator[Release]:
    """A release that can be installed; its cluster manager runs inside the block."""
    home = hosts.folder.parent / "release"
    settings = SimulatorSettings(directory=home / "manager", topology=managed_topology(hosts.world))
    async with simulator(settings) as manager:
        made = Release(api, kubelet, namespace, kubeconfig, hosts, manager, home)
        try:
            yield made
        finally:
            await made.session.close()
