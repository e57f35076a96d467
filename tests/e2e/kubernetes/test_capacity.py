"""What is free follows the real cluster: its scheduler binds pods, kwok runs and ends them."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controlplane import nodes
from tests.e2e.controlplane.client import Api, ApiError
from tests.e2e.controlplane.cluster import Cluster, account_access, service_account
from tests.e2e.controlplane.kwok import COMPLETE
from tests.kube.recount import Counted, counted
from tests.master.documents import read
from tests.master.world import Master, running
from tests.support.waiting import eventually
from topo.model.rest.topology import TopologyDocument, is_group, walk
from topo.sim.worlds.presets import World

RIGHTS = [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]}]
"""What the chart gives a master that writes nothing."""
SIDECAR = {"restartPolicy": "Always"}


@asynccontextmanager
async def following(
    cluster: Cluster, namespace: str, home: Path, world: World
) -> AsyncIterator[Master]:
    """A master over the nodes of the world, with the rights of its own account."""
    async with cluster.api() as api:
        await service_account(api, namespace, "topo-master", RIGHTS)
    access = await account_access(cluster, namespace, "topo-master")
    names = ", ".join(str(host.name) for host in world.nodes)
    file = home / "nodegroup.yaml"
    file.write_text(f"group: [{{name: all, kind: leaf, child: [{names}]}}]")
    flags = ("--mode=config", f"--config-file={file}", "--controllers=none")
    kube = ("--kubernetes=on", f"--kubeconfig={access.kubeconfig(home / 'master')}")
    async with running(*flags, *kube) as master:
        await master.ready()
        yield master


@pytest.fixture
async def master(
    cluster: Cluster, namespace: str, tmp_path: Path, world: World
) -> AsyncIterator[Master]:
    async with following(cluster, namespace, tmp_path, world) as found:
        yield found


async def recount(api: Api) -> dict[str, Counted]:
    """What is free, by a client that knows nothing of the product."""
    found = await asyncio.gather(api.items(nodes.NODES), api.items("/api/v1/pods"))
    return counted(*found)


async def told(master: Master) -> dict[str, tuple[int, int]]:
    """(free, used) of each node by the master."""
    document = read(TopologyDocument, await master.get("/v1/topology"))
    leaves = [v for _, v in walk(document["groups"]) if not is_group(v)]
    return {n["name"]: (n["free_gpus"], n["used_gpus"]) for n in (*leaves, *document["unplaced"])}


async def agree(master: Master, api: Api) -> bool:
    """Whether both count the same of every node that there is, and none is free elsewhere."""
    expected, said = await recount(api), await told(master)
    gone = [said[name][0] for name in said.keys() - expected.keys()]
    same = all(said.get(name) == (node.free, node.used) for name, node in expected.items())
    return same and not any(gone)


def pod(name: str, gpus: int, **more: Any) -> dict[str, Any]:
    """A pod for the scheduler to place; `init` and `sidecar` are the GPUs of such containers."""

    def container(kind: str, number: int) -> dict[str, Any]:
        amounts = {nodes.GPU: str(number)}
        resources = {"limits": amounts, "requests": amounts}
        return {"name": kind, "image": "none", "resources": resources}

    init = [container(kind, more[kind]) for kind in ("sidecar", "init") if more.get(kind)]
    init = [each | SIDECAR if each["name"] == "sidecar" else each for each in init]
    spec = {"containers": [container("main", gpus)], "initContainers": init}
    return {
        "metadata": {"name": name, **more.get("metadata", {})},
        "spec": spec | more.get("spec", {}),
    }


async def test_a_pod_takes_its_gpus_from_when_it_is_bound_until_it_is_finished(
    master: Master, api: Api, namespace: str
) -> None:
    """By the scheduler's own count: it gets a node of eight with seven for it, and no eighth."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    pinned = {"nodeSelector": {"kubernetes.io/hostname": "node-sample1"}}
    await api.create(pods, pod("whole", 2, sidecar=1, init=6, spec=pinned))

    async def node() -> tuple[int, int]:
        return (await told(master))["node-sample1"]

    await eventually(lambda: _is(node, (1, 7)))
    await api.create(pods, pod("second", 2, spec=pinned))
    await api.create(pods, pod("third", 1, spec=pinned))
    await eventually(lambda: _is(node, (0, 8)))
    assert await agree(master, api), "the scheduler bound the one that fits and not the other"
    await api.merge(f"{pods}/whole", {"metadata": {"annotations": {COMPLETE: "true"}}})
    await eventually(lambda: _is(node, (5, 3)))
    assert await agree(master, api)


async def _is(node: Any, expected: tuple[Any, ...]) -> bool:
    return bool(await node() == expected)


async def test_a_gated_pod_takes_no_gpus_and_an_opened_one_those_of_its_node(
    master: Master, api: Api, namespace: str
) -> None:
    """A nomination of a gated pod that nobody takes back closes no node to others."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    gated = {"schedulingGates": [{"name": "example.com/gang"}]}
    await api.create(pods, pod("waiting", 8, spec=gated))
    nominated = {"status": {"nominatedNodeName": "node-sample3"}}
    await api.merge(f"{pods}/waiting/status", nominated)
    # The master has seen the nomination once it has seen a pod that was bound after it.
    await api.create(pods, pod("later", 8, spec={"nodeName": "node-sample4"}))

    async def counts() -> tuple[tuple[int, int], ...]:
        found = await told(master)
        return found["node-sample3"], found["node-sample4"]

    await eventually(lambda: _is(counts, ((8, 0), (0, 8))))
    await api.merge(f"{pods}/waiting", {"spec": {"schedulingGates": None}})
    await eventually(lambda: _is(counts, ((0, 8), (0, 8))))
    await api.delete(f"{pods}/waiting", grace_s=0)
    await eventually(lambda: _is(counts, ((8, 0), (0, 8))))


async def test_whatever_happens_in_a_cluster_both_count_the_same_in_the_end(
    master: Master, cluster: Cluster, api: Api, namespace: str
) -> None:
    """Pods come, end and go by the scheduler and kwok; nodes are cordoned, fail, go, come back."""
    rng = random.Random(5)  # noqa: S311 - the same course each time
    life = _Life(api, f"/api/v1/namespaces/{namespace}/pods", rng)
    for turn in range(4):
        for _ in range(30):
            await life.step()
        if turn % 2:
            await cluster.compact()
        await eventually(lambda: agree(master, api))
    assert sum(node.used for node in (await recount(api)).values()) > 16
    assert life.done >= {"created", "finished", "deleted", "cordoned", "failed", "lost"}
    state = master.service.placements.state
    state._bookings.validate()
    assert state._capacity.recount() == ()


class _Life:
    """One thing after the other; `done` says which kinds of things there were."""

    def __init__(self, api: Api, pods: str, rng: random.Random) -> None:
        self._api, self._pods, self._rng = api, pods, rng
        self._made = 0
        self.done: set[str] = set()

    async def step(self) -> None:
        """Something that may be refused: a pod that has gone, a node that is not there."""
        steps = [self._create] * 5 + [self._finish, self._delete, self._cordon, self._fail]
        with suppress(ApiError):
            await self._rng.choice([*steps, self._lose])()

    async def _create(self) -> None:
        self._made += 1
        sizes = {kind: self._rng.choice([0, 0, 1, 4]) for kind in ("sidecar", "init")}
        name = f"p{self._made}"
        await self._api.create(self._pods, pod(name, self._rng.choice([1, 2, 4]), **sizes))
        self.done.add("created")

    async def _finish(self) -> None:
        body = {"metadata": {"annotations": {COMPLETE: "true"}}}
        await self._api.merge(self._pod(), body)
        self.done.add("finished")

    async def _delete(self) -> None:
        await self._api.delete(self._pod(), grace_s=self._rng.choice([0, None]))
        self.done.add("deleted")

    async def _cordon(self) -> None:
        body = {"spec": {"unschedulable": self._rng.random() < 0.6}}
        await self._api.merge(self._node(), body)
        self.done.add("cordoned")

    async def _fail(self) -> None:
        name = f"node-sample{self._rng.randint(1, 2)}"
        change = nodes.make_ready if self._rng.random() < 0.4 else nodes.make_not_ready
        await change(self._api, name)
        self.done.add("failed")

    async def _lose(self) -> None:
        await self._api.delete(f"{nodes.NODES}/node-sample{self._rng.randint(7, 8)}")
        self.done.add("lost")

    def _pod(self) -> str:
        return f"{self._pods}/p{self._rng.randint(1, self._made + 1)}"

    def _node(self) -> str:
        return f"{nodes.NODES}/node-sample{self._rng.randint(3, 6)}"
