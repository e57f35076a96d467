"""Our chart on the harness's cluster, with a cluster manager and hosts whose cables can be cut."""

import asyncio
import base64
import json
import os
import signal
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.kubelet import Kubelet
from tests.helm.chart import CHART, VENDOR, built_helm, run
from tests.support.waiting import CEILING_S
from topo.kit.files import replace_whole
from topo.model.ids import NodeName
from topo.recording.timeline import Fault, FaultKind, Sentence
from topo.sim.bundles import write_bundle
from topo.sim.clustermanager.server import Simulator, SimulatorSettings, simulator
from topo.sim.worlds.presets import SimNode, World, managed_topology

FAULTS_FILE = "faults.txt"
MASTER_SERVICE = "topo-master-service"
ALONE = (
    *("--set", "topoDiscovery.master.replicas=1"),
    *("--set", "topoDiscovery.master.extraArgs[0]=--allow-anonymous-workers"),
)
"""One master, which asks no worker for a token."""
_CA = "cluster-manager-ca"
_QUICK = ("TOPO_PROBE_INTERVAL", "0.25")
"""A test does not wait for a worker that looks every two seconds."""


class Hosts:
    """The simulated hosts: a recording each, whose cables can be pulled while workers replay it."""

    def __init__(self, folder: Path, world: World) -> None:
        self.folder, self.world = folder, world
        self._hosts = {str(host.name): host for host in world.nodes}
        for name, host in self._hosts.items():
            write_bundle(folder / name, host)

    def cut(self, node: str) -> tuple[str, str]:
        """Pulls the cable in the first slot of a node, at both ends; the two nodes."""
        near = self._hosts[node]
        far = next(host for host in self._hosts.values() if host.server_uuid == near.peers[0])
        for host, other in ((near, far), (far, near)):
            assert other.server_uuid is not None
            slot = host.peers.index(other.server_uuid) + 1
            self._break(host, [Fault(FaultKind.REMOTE_GONE, NodeName(host.name), index=slot)])
        return str(near.name), str(far.name)

    def heal(self) -> None:
        """Plugs all cables in."""
        for host in self.world.nodes:
            self._break(host, [])

    def rewire(self, world: World) -> set[str]:
        """The hosts of another world take the place of those of the same name; which changed."""
        changed = {host for host in world.nodes if self._hosts[str(host.name)] != host}
        for host in changed:
            write_bundle(self.folder / host.name, host)
            self._hosts[str(host.name)] = host
        return {str(host.name) for host in changed}

    def _break(self, host: SimNode, faults: Iterable[Fault]) -> None:
        lines = "".join(f"{Sentence(fault, begins=True)}\n" for fault in faults)
        replace_whole(self.folder / host.name / FAULTS_FILE, lines.encode())


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
        call = partial(run, built_helm(), *arguments, *place, home=self.home)
        done = await asyncio.to_thread(call)
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
