"""A kubelet for the pods of our chart, and a kube-proxy for its Services, on the loopback address.

Pods of namespaces that begin with `real-` are processes of this machine: with the arguments, the
variables, the mounts and the token that their spec says, at an address of their own. All others are
kwok's. What it does not play: users, capabilities, cgroups, images and networks.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.e2e.controlplane.client import Api, follow
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.container import HARDWARE
from tests.e2e.controlplane.core import LOOPBACK
from tests.e2e.controlplane.kwok import REAL_PREFIX
from tests.e2e.controlplane.pod import NodePlace, PodProcess
from tests.e2e.controlplane.proxy import Proxy


class Kubelet:
    """All nodes' kubelets in one: it runs the pods that are bound, and ends those that must go.

    `hardware` has a recording for each node, which takes the place of its GPUs.
    """

    def __init__(self, cluster: Cluster, api: Api, home: Path, hardware: Path) -> None:
        self._cluster, self._api, self._home, self._hardware = cluster, api, home, hardware
        self._pods: dict[str, PodProcess] = {}
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Task[None]] = {}
        self._numbers = itertools.count(1)

    def pod(self, name_prefix: str) -> PodProcess:
        """The one pod that runs under such a name."""
        (found,) = self.pods(name_prefix)
        return found

    def pods(self, name_prefix: str) -> list[PodProcess]:
        """The pods that run under such a name."""
        return [pod for pod in self._pods.values() if f"/pods/{name_prefix}" in pod.path]

    async def run(self) -> None:
        """Never ends; cancelled, it ends all processes at once."""
        try:
            async for pods in follow(self._api, "/api/v1/pods"):
                ours = {uid: pod for uid, pod in pods.items() if _is_ours(pod)}
                for uid, pod in ours.items():
                    if uid not in self._lives:
                        self._start(uid, pod)
                    elif "deletionTimestamp" in pod["metadata"] and uid not in self._ends:
                        self._ends[uid] = asyncio.create_task(self._end(uid))
                for uid in self._lives.keys() - ours.keys():
                    self._forget(uid)
        finally:
            tasks = [*self._lives.values(), *self._ends.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, uid: str, pod: Any) -> None:
        number = next(self._numbers)
        address = f"{self._cluster.ports.pods}.{number // 250 + 1}.{number % 250 + 1}"
        node = pod["spec"]["nodeName"]
        recording = self._hardware / node
        hardware = recording if recording.exists() else None
        place = NodePlace(address, self._home / "hosts" / node, hardware)
        self._pods[uid] = PodProcess(self._api, pod, self._home / "pods" / uid, place)
        self._lives[uid] = asyncio.create_task(self._live(self._pods[uid], pod))

    async def _live(self, process: PodProcess, pod: Any) -> None:
        variables = {
            "KUBERNETES_SERVICE_HOST": LOOPBACK,
            "KUBERNETES_SERVICE_PORT": str(self._cluster.ports.api),
            **_played(pod, process),
        }
        await process.run(variables, await self._hosts(pod))

    async def _end(self, uid: str) -> None:
        await self._pods[uid].end()
        await self._api.delete(self._pods[uid].path, grace_s=0)

    def _forget(self, uid: str) -> None:
        self._lives.pop(uid).cancel()
        if uid in self._ends:
            del self._ends[uid]
        del self._pods[uid]

    async def _hosts(self, pod: Any) -> str:
        """What the cluster's DNS would say to a pod of this namespace."""
        lines = ["127.0.0.1 localhost"]
        for service in await self._api.items("/api/v1/services"):
            metadata, address = service["metadata"], service["spec"].get("clusterIP", "None")
            if address == "None":
                continue
            full = f"{metadata['name']}.{metadata['namespace']}"
            near = metadata["namespace"] == pod["metadata"]["namespace"]
            names = [*([metadata["name"]] if near else []), full, f"{full}.svc"]
            lines.append(f"{address} {' '.join(names)} {full}.svc.cluster.local")
        return "\n".join(lines) + "\n"


def _is_ours(pod: Any) -> bool:
    named = pod["metadata"]["namespace"].startswith(REAL_PREFIX)
    return named and "nodeName" in pod["spec"]


def _played(pod: Any, process: PodProcess) -> Mapping[str, str]:
    """What takes the place of a node's hardware and of a network of the pod's own."""
    program = pod["spec"]["containers"][0].get("command", [""])[0]
    if program == "topo-worker":
        return {"TOPO_REPLAY": HARDWARE}
    if program == "topo-master":
        return {"TOPO_BIND_ADDRESS": process.listens_at}
    return {}


@asynccontextmanager
async def kubelet(cluster: Cluster, home: Path, hardware: Path) -> AsyncIterator[Kubelet]:
    """Inside the block pods of `real-` namespaces run and Services lead to them."""
    async with cluster.api() as api, Proxy(api) as proxy:
        running = Kubelet(cluster, api, home, hardware)
        tasks = [asyncio.create_task(running.run()), asyncio.create_task(proxy.run())]
        try:
            yield running
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
    for failed in results:
        if isinstance(failed, Exception):
            raise failed
