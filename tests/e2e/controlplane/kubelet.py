"""A kubelet for the pods of our chart, and a kube-proxy for its Services, on the loopback address.

Pods of namespaces that begin with `real-` are processes of this machine: with the arguments, the
variables, the mounts and the token that their spec says, at an address of their own. All others are
kwok's. What it does not play: users, capabilities, cgroups, images and networks.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from aiohttp import ClientError

from tests.e2e.controlplane.client import Api, follow
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.container import HARDWARE
from tests.e2e.controlplane.core import LOOPBACK
from tests.e2e.controlplane.kwok import REAL_PREFIX
from tests.e2e.controlplane.pod import NodePlace, PodProcess
from tests.e2e.controlplane.proxy import Proxy
from tests.e2e.controlplane.tasks import Tasks

_AGAIN_S = 0.2


class Kubelet:
    """All nodes' kubelets in one: it runs the pods that are bound, and ends those that must go.

    `hardware` has a recording for each node, which takes the place of its GPUs.
    """

    def __init__(self, cluster: Cluster, api: Api, home: Path, hardware: Path) -> None:
        self._cluster, self._api, self._home, self._hardware = cluster, api, home, hardware
        self._pods: dict[str, PodProcess] = {}
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Task[None]] = {}
        self._tasks = Tasks()
        self._numbers = itertools.count(1)

    @property
    def failures(self) -> list[BaseException]:
        """What went wrong in it: a defect of the harness, not of a pod."""
        return self._tasks.failures

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
                    if uid not in self._pods:
                        self._start(uid, pod)
                    self._pods[uid].observe(pod)
                    if "deletionTimestamp" in pod["metadata"] and uid not in self._ends:
                        self._ends[uid] = self._tasks.start(self._end(uid))
                for uid in self._pods.keys() - ours.keys():
                    self._forget(uid)
        finally:
            await self._tasks.end()

    def _start(self, uid: str, pod: Any) -> None:
        number = next(self._numbers)
        address = f"{self._cluster.ports.pods}.{number // 250 + 1}.{number % 250 + 1}"
        node = pod["spec"]["nodeName"]
        recording = self._hardware / node
        hardware = recording if recording.exists() else None
        place = NodePlace(address, self._home / "hosts" / node, hardware)
        self._pods[uid] = PodProcess(self._api, pod, self._home / "pods" / uid, place)
        self._lives[uid] = self._tasks.start(self._live(self._pods[uid], pod))

    async def _live(self, process: PodProcess, pod: Any) -> None:
        variables = {
            "KUBERNETES_SERVICE_HOST": LOOPBACK,
            "KUBERNETES_SERVICE_PORT": str(self._cluster.ports.api),
            **_played(pod, process),
        }
        await process.run(variables, lambda: self._hosts(pod))

    async def _end(self, uid: str) -> None:
        """Ends the pod; says that it is gone, unless others have said so, once the server listens.

        Another pod may have its name meanwhile, and stays.
        """
        process = self._pods[uid]
        await process.end()
        while True:
            with suppress(ClientError, OSError):
                await self._api.delete(process.path, grace_s=0, uid=uid)
                return
            await asyncio.sleep(_AGAIN_S)

    def _forget(self, uid: str) -> None:
        """Its object is gone: what is left of it ends at once."""
        del self._pods[uid]
        for tasks in (self._lives, self._ends):
            if (task := tasks.pop(uid, None)) is not None:
                task.cancel()

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
        running, beside = Kubelet(cluster, api, home, hardware), Tasks()
        for work in (running.run(), proxy.run()):
            beside.start(work)
        try:
            yield running
        finally:
            await beside.end()
    if failures := [*running.failures, *beside.failures]:
        raise BaseExceptionGroup("the kubelet of the tests failed", failures)
