"""A model of kube-scheduler: one pod at a time, its own count of GPUs, and extenders that it asks.

It binds on an API server; what a master makes of it comes back by the master's own watch.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext
from typing import Any

from aiohttp import ClientSession, TCPConnector

from master.kube.schema.timestamps import timestamp
from tests.kube.fake_server import FakeServer
from tests.kube.plain import kubeconfig
from tests.master.world import Master, running
from tests.support.kubernetes import GPU, node_status
from topo.kit.tasks import Site, start

SIZE = "metax-tech.com/gpu-group-size"
INDEX = "batch.kubernetes.io/job-completion-index"
NODES = [f"n{box}-{fly}-{n}" for box in (0, 1) for fly in (0, 1) for n in (0, 1)]
"""Two switchboxes of two dragonflies of two nodes of 8 GPUs."""
GROUPS = "group:\n" + "".join(
    f"- name: s{box}\n  kind: switchbox\n  child:\n"
    + "".join(
        f"  - name: d{box}-{fly}\n    kind: dragonfly\n"
        f"    child: [n{box}-{fly}-0, n{box}-{fly}-1]\n"
        for fly in (0, 1)
    )
    for box in (0, 1)
)


@dataclass
class Asking:
    """A master whose extender is asked."""

    master: Master
    url: str
    session: ClientSession

    async def ask(self, call: str, body: Any) -> Any:
        """The answer to a question, which is always 200."""
        sent = {"data": body} if isinstance(body, bytes) else {"json": body}
        async with self.session.post(f"{self.url}/scheduler/{call}", **sent) as answer:
            assert answer.status == 200
            return await answer.json()


@asynccontextmanager
async def asked(
    server: FakeServer,
    home: Path,
    *flags: str,
    ports: tuple[int, int, int] = (0, 0, 0),
    client: SSLContext | None = None,
) -> AsyncIterator[Asking]:
    """A master with an extender, that has counted this cluster; free ports if none are given.

    `client` is what its scheduler trusts and shows, where the port speaks TLS.
    """
    (home / "nodegroup.yaml").write_text(GROUPS)
    path = kubeconfig(home, server.url)
    config = ("--mode=config", f"--config-file={home / 'nodegroup.yaml'}", "--extender=on")
    kube = ("--kubernetes=on", f"--kubeconfig={path}", "--controllers=none")
    async with (
        running(*config, *kube, *flags, ports=ports[:2]) as master,
        AsyncExitStack() as stack,
    ):
        port = master.service.extender
        assert port is not None
        tls = port.tls
        site = Site(
            app=port.app,
            port=ports[2],
            connections=port.connections,
            host="127.0.0.1",
            tls=None if tls is None else lambda: tls.context,
            drain_s=2,
        )
        [(host, bound)] = await start(site, stack)
        trust = TCPConnector(ssl=True if client is None else client)
        session = await stack.enter_async_context(ClientSession(connector=trust))
        await master.ready()
        yield Asking(master, f"http{'' if tls is None else 's'}://{host}:{bound}", session)


@dataclass
class Scheduler:
    """What it knows: nodes with their GPUs, and pods by name."""

    server: FakeServer
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    made: int = 0
    began_s: float = field(default_factory=lambda: time.time() - asyncio.get_running_loop().time())
    """The servers' Unix time when the loop's was 0."""

    async def nodes_come(self) -> None:
        for name in NODES:
            await self.server.put("nodes", name, metadata={}, spec={}, status=node_status())

    async def pod_comes(
        self, name: str, gpus: int, *, job: str = "", rank: int = 0, group: int = 0, **more: str
    ) -> None:
        """A pod of an Indexed Job with groups of so many GPUs, or one that asks for none."""
        self.pods[name] = self._made(gpus, job, rank, group, more)
        await self._put(name)

    async def job_comes(self, job: str, pods: int, gpus: int, group: int, **more: str) -> None:
        for rank in range(pods):
            await self.pod_comes(f"{job}-{rank}", gpus, job=job, rank=rank, group=group, **more)

    async def stranger_comes(self, name: str, job: str, rank: int, **more: str) -> None:
        """A pod of the namespace `evil`, which names a job of `jobs` as its controller."""
        await self.server.put("pods", name, "evil", **self._made(8, job, rank, 16, more))

    def _made(
        self, gpus: int, job: str, rank: int, group: int, more: Mapping[str, str]
    ) -> dict[str, Any]:
        self.made += 1
        created = timestamp(self.began_s + asyncio.get_running_loop().time())
        metadata: dict[str, Any] = {"uid": f"uid-{self.made}", "creationTimestamp": created}
        if job:
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-of-{job}"}
            metadata["ownerReferences"] = [{**owner, "controller": True}]
            metadata["labels"] = {INDEX: str(rank)}
            metadata["annotations"] = {SIZE: str(group), **more}
        amounts = {GPU: str(gpus)} if gpus else {}
        resources = {"limits": amounts, "requests": amounts}
        spec = {"containers": [{"name": "main", "resources": resources}]}
        return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}

    async def pod_goes(self, name: str) -> None:
        del self.pods[name]
        await self.server.delete("pods", name, "jobs")

    def waiting(self) -> list[str]:
        return [name for name, pod in self.pods.items() if "nodeName" not in pod["spec"]]

    def node_of(self, name: str) -> str:
        return str(self.pods[name]["spec"].get("nodeName", ""))

    def used(self) -> Mapping[str, int]:
        used: Counter[str] = Counter()
        for name, pod in self.pods.items():
            if node := self.node_of(name):
                used[node] += _gpus(pod)
        return used

    async def schedule(self, asking: Asking, name: str) -> Any:
        """One attempt at one pod; returns the answer of the filter."""
        pod = self.pods[name]
        used = self.used()
        fits = [node for node in NODES if used.get(node, 0) + _gpus(pod) <= 8]
        shown = {**pod, "metadata": {**pod["metadata"], "name": name, "namespace": "jobs"}}
        question = {"Pod": shown, "NodeNames": fits}
        found = await asking.ask("filter", question)
        left = found["NodeNames"] or []
        assert set(left) <= set(fits)
        if found["Error"] or not left:
            return found
        ranked = await asking.ask("prioritize", {"Pod": shown, "NodeNames": left})
        assert [each["Host"] for each in ranked] == left
        best = max(ranked, key=lambda each: each["Score"])
        pod["spec"]["nodeName"] = best["Host"]
        await self._put(name)
        return found

    async def _put(self, name: str) -> None:
        pod = self.pods[name]
        await self.server.put("pods", name, "jobs", **{k: dict(v) for k, v in pod.items()})


def _gpus(pod: Mapping[str, Any]) -> int:
    return int(pod["spec"]["containers"][0]["resources"]["limits"].get(GPU, "0"))


def dragonfly(node: str) -> str:
    """The dragonfly of a node."""
    return node.rpartition("-")[0]


def split_groups(scheduler: Scheduler, job: str, pods: int, size: int) -> Sequence[int]:
    """The groups of a job whose bound pods are in several dragonflies."""
    found: dict[int, set[str]] = {}
    for rank in range(pods):
        if node := scheduler.node_of(f"{job}-{rank}") if f"{job}-{rank}" in scheduler.pods else "":
            found.setdefault(rank // size, set()).add(dragonfly(node))
    return [group for group, flies in found.items() if len(flies) > 1]
