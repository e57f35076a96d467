"""What is free follows a cluster in which anything happens, as somebody else counts it."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.kube import fake_server as fake
from tests.kube.fake_server import FakeServer, fake_server
from tests.kube.plain import kubeconfig
from tests.kube.recount import Counted, counted
from tests.master.documents import read
from tests.master.world import Master, running
from tests.support.kubernetes import node_status
from topo.model.rest.topology import NodeDocument, TopologyDocument, is_group, walk
from topo.placement.job.request import Eligibility

pytestmark = pytest.mark.virtual_time

NODES = [f"n{box}-{fly}-{n}" for box in (0, 1, 2) for fly in (0, 1) for n in (0, 1)]
"""Three switchboxes of two dragonflies of two nodes."""
GPU, SGPU = "metax-tech.com/gpu", "metax-tech.com/sgpu"
FAULTS: tuple[fake.Fault, ...] = (
    fake.refused(500),
    fake.refused(429, retry_after_s=2),
    fake.truncated,
    fake.cut_each_line,
    fake.ended_at_once,
)
QUIET_S = 150.0
"""The longest wait between two tries, and the silence after which a watch is dead."""


def declared() -> str:
    """The config file of all nodes that there may ever be."""
    lines = ["group:"]
    for box in (0, 1, 2):
        lines += [f"- name: s{box}", "  kind: switchbox", "  child:"]
        for fly in (0, 1):
            pair = ", ".join(n for n in NODES if n.startswith(f"n{box}-{fly}-"))
            lines += [f"  - name: d{box}-{fly}", "    kind: dragonfly", f"    child: [{pair}]"]
    return "\n".join(lines)


@dataclass
class Cluster:
    """A cluster to which things happen; what there is lies in the API server."""

    server: FakeServer
    rng: random.Random
    made: int = 0
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)

    async def start(self) -> None:
        for name in NODES[:-2]:
            await self.node_comes(name)

    def actions(self) -> list[Callable[[], Any]]:
        """What may happen next; what happens more often stands more often."""
        return [
            *[self.pod_comes] * 5, *[self.pod_goes_on] * 6, *[self.pod_goes] * 2,
            self.pod_comes_again, self.node_comes, self.node_goes, self.readiness_changes,
            self.cordon_changes, self.taint_changes, self.devices_change, self.label_changes,
            self.watch_is_cut, self.history_is_lost, self.answers_are_spoilt,
        ]  # fmt: skip

    # Nodes.

    async def node_comes(self, name: str = "") -> None:
        missing = [n for n in NODES if n not in self.nodes]
        if not name and not missing:
            return
        name = name or self.rng.choice(missing)
        product = "MXC550" if name.startswith("n2") else "MXC500"
        self.nodes[name] = {
            "metadata": {"labels": {f"{GPU}.product": product}},
            "spec": {},
            "status": node_status(cpu="190"),
        }
        await self._put_node(name)

    async def node_goes(self) -> None:
        if len(self.nodes) > 2:
            name = self.rng.choice(sorted(self.nodes))
            del self.nodes[name]
            await self.server.delete("nodes", name)

    async def readiness_changes(self) -> None:
        name = self._any_node()
        status = self.rng.choice(["True", "True", "False", "Unknown"])
        condition = {"type": "Ready", "status": status, "reason": f"Because{status}"}
        self.nodes[name]["status"]["conditions"] = self.rng.choice([[condition], [condition], []])
        await self._put_node(name)

    async def cordon_changes(self) -> None:
        name = self._any_node()
        self.nodes[name]["spec"]["unschedulable"] = self.rng.random() < 0.5
        await self._put_node(name)

    async def taint_changes(self) -> None:
        name = self._any_node()
        effect = self.rng.choice(["NoSchedule", "PreferNoSchedule", "NoExecute"])
        taints = [{"key": "team", "value": "a", "effect": effect}]
        self.nodes[name]["spec"]["taints"] = self.rng.choice([[], [], taints])
        await self._put_node(name)

    async def devices_change(self) -> None:
        name = self._any_node()
        devices = self.rng.choice([
            {GPU: "8"}, {GPU: "8e0"}, {GPU: "7500m"}, {GPU: "4"}, {}, {SGPU: "32", GPU: "0"},
            {GPU: "4", SGPU: "16"}, {GPU: "8", SGPU: "0"}, {"nvidia.com/gpu": "8"},
        ])  # fmt: skip
        self.nodes[name]["status"]["allocatable"] = {"cpu": "190", **devices}
        await self._put_node(name)

    async def label_changes(self) -> None:
        name = self._any_node()
        labels = self.nodes[name]["metadata"]["labels"]
        labels["zone"] = self.rng.choice("abc")
        labels[f"{GPU}.product"] = self.rng.choice(["MXC500", "MXC550"])
        await self._put_node(name)

    # Pods.

    async def pod_comes(self) -> None:
        await self._new_pod(f"p{self.made}")

    async def pod_comes_again(self) -> None:
        """Of a name that there was, with another identity, and perhaps in one breath."""
        if self.pods:
            name = self._any_pod()
            await self.server.delete("pods", name, "jobs")
            await self._new_pod(name, node=self.pods[name]["spec"].get("nodeName"))

    async def _new_pod(self, name: str, node: str | None = None) -> None:
        """A pod, which may be bound at once."""
        self.made += 1
        gpus = {GPU: self.rng.choice(["1", "2", "4", "8", "8e0", "500m"])}
        amounts = self.rng.choice([gpus, gpus, gpus, {SGPU: "3"}, {"nvidia.com/gpu": "2"}])
        main = {"name": "main", "resources": {"limits": amounts, "requests": amounts}}
        init = {"name": "init", "resources": {"limits": {GPU: self.rng.choice(["1", "8"])}}}
        sidecar = {**init, "name": "side", "restartPolicy": "Always"}
        self.pods[name] = {
            "metadata": {"uid": f"uid-{self.made}"},
            "spec": {
                "containers": [main],
                "initContainers": self.rng.choice([[], [], [init], [sidecar], [sidecar, init]]),
            },
            "status": {"phase": "Pending"},
        }
        if node is not None:
            self.pods[name]["spec"]["nodeName"] = node
        await self._put_pod(name)

    async def pod_goes_on(self) -> None:
        if not self.pods:
            return
        name = self._any_pod()
        pod = self.pods[name]
        step = self.rng.choice(["bind", "bind", "nominate", "leave", "finish", "delete"])
        if step == "bind" and "nodeName" not in pod["spec"]:
            pod["spec"]["nodeName"] = self.rng.choice(NODES)
            pod["status"] = {"phase": "Running"}
        elif step == "nominate" and "nodeName" not in pod["spec"]:
            pod["status"]["nominatedNodeName"] = self.rng.choice(NODES)
        elif step == "leave":
            pod["status"].pop("nominatedNodeName", None)
        elif step == "finish" and "nodeName" in pod["spec"]:
            pod["status"]["phase"] = self.rng.choice(["Succeeded", "Failed"])
        elif step == "delete":
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        await self._put_pod(name)

    async def pod_goes(self) -> None:
        if self.pods:
            name = self._any_pod()
            del self.pods[name]
            await self.server.delete("pods", name, "jobs")

    # The API server.

    async def watch_is_cut(self) -> None:
        self.server.cut_watches()

    async def history_is_lost(self) -> None:
        """What follows is a list: what came again meanwhile looks as if it had stayed."""
        self.server.cut_watches()
        for _ in range(3):
            await self.pod_comes_again()
        await self.pod_goes()
        self.server.lose_history()

    async def answers_are_spoilt(self) -> None:
        verb = self.rng.choice(["list", "watch", "watch"])
        self.server.spoil(verb, *self.rng.choices(FAULTS, k=self.rng.randint(1, 3)))

    def recount(self) -> dict[str, Counted]:
        """What is free now, by the other client."""
        objects = self.server.objects
        nodes = [each for (plural, _, _), each in objects.items() if plural == "nodes"]
        return counted(
            nodes, [each for (plural, _, _), each in objects.items() if plural == "pods"]
        )

    def _any_node(self) -> str:
        return self.rng.choice(sorted(self.nodes))

    def _any_pod(self) -> str:
        return self.rng.choice(sorted(self.pods))

    async def _put_node(self, name: str) -> None:
        await self.server.put("nodes", name, **deepcopy(self.nodes[name]))

    async def _put_pod(self, name: str) -> None:
        await self.server.put("pods", name, "jobs", **deepcopy(self.pods[name]))


@asynccontextmanager
async def following(
    server: FakeServer, home: Path, *flags: str, text: str | None = None
) -> AsyncIterator[Master]:
    """A master that works with this API server."""
    file = home / "nodegroup.yaml"
    file.write_text(text or declared())
    path = kubeconfig(home, server.url)
    config = ("--mode=config", f"--config-file={file}")
    kube = ("--kubernetes=on", f"--kubeconfig={path}", "--gpus-per-node=8")
    async with running(*config, *kube, *flags) as master:
        yield master


async def told(master: Master) -> dict[str, NodeDocument]:
    """What the master says of each node."""
    await asyncio.sleep(2)  # a document is at most a second old
    document = read(TopologyDocument, await master.get("/v1/topology"))
    nodes = {v["name"]: v for _, v in walk(document["groups"]) if not is_group(v)}
    return nodes | {node["name"]: node for node in document["unplaced"]}


async def agree(master: Master, cluster: Cluster) -> None:
    """The master and the other client count the same, node by node and slot by slot."""
    expected, said = cluster.recount(), await told(master)
    assert expected.keys() <= said.keys()
    for name, node in expected.items():
        found = said[name]
        taken = found["used_gpus"], found["held_gpus"]
        assert (found["free_gpus"], *taken) == (node.free, node.used, node.held), name
        shared = {each["resource"]: (each["allocatable"], each["used"]) for each in found["shared"]}
        assert shared == node.shared, name
    assert all(not said[name]["free_gpus"] for name in said.keys() - expected.keys())
    capacity = master.service.placements.state._capacity
    for gpus in (1, 2, 8):
        slots: Counter[str] = Counter()
        for node in expected.values():
            slots[node.gpu_type] += node.slots(gpus)
        for gpu_type in ("MXC500", "MXC550", ""):
            kept = capacity.slots(Eligibility(), gpu_type, gpus)
            assert kept.total == int(kept.free.sum()) == slots[gpu_type], (gpu_type, gpus)
    master.service.placements.state._bookings.validate()
    assert capacity.recount() == ()


async def lived(seconds: float, seed: int, home: Path) -> None:
    """A cluster lives for so long, and is looked at now and then and at the end."""
    rng = random.Random(seed)  # noqa: S311 - the same hour each time
    async with fake_server() as server:
        cluster = Cluster(server, rng)
        await cluster.start()
        async with following(server, home) as master:
            loop = asyncio.get_running_loop()
            begun_s = looked_s = loop.time()
            while loop.time() - begun_s < seconds:
                for _ in range(rng.randint(1, 6)):
                    await rng.choice(cluster.actions())()
                await asyncio.sleep(rng.choice([0.0, 0.01, 1.0, 5.0, 20.0]))
                if loop.time() - looked_s > min(600, seconds / 4):
                    await asyncio.sleep(QUIET_S)
                    await agree(master, cluster)
                    looked_s = loop.time()
            await asyncio.sleep(QUIET_S)
            await agree(master, cluster)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.deep)])
async def test_after_some_minutes_what_is_free_is_what_another_client_counts(
    seed: int, tmp_path: Path
) -> None:
    """Pods and nodes come, go, fail, are cordoned; watches are cut, lists spoilt, history lost."""
    await lived(180, seed, tmp_path)


@pytest.mark.deep
async def test_after_an_hour_what_is_free_is_what_another_client_counts(tmp_path: Path) -> None:
    """The same, for longer."""
    await lived(3600, 10, tmp_path)
