"""The harness itself: a real cluster, whose rules hold and of which nothing is left."""

import asyncio
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.chaos.ports import own_ports
from tests.e2e.controlplane import nodes
from tests.e2e.controlplane.cleanup import Baseline
from tests.e2e.controlplane.client import Api, ApiError
from tests.e2e.controlplane.cluster import Cluster, account_access, service_account
from tests.e2e.controlplane.core import Ports
from tests.support.processes import alive
from tests.support.waiting import eventually, eventually_in_a_thread
from topo.sim.worlds.presets import World

READ_NODES = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}


async def test_every_host_is_a_node_that_takes_pods(api: Api, world: World) -> None:
    found = {node["metadata"]["name"]: node for node in await api.items(nodes.NODES)}
    assert set(found) == {str(host.name) for host in world.nodes}
    assert all(nodes.is_usable(node) for node in found.values())
    assert {node["status"]["allocatable"][nodes.GPU] for node in found.values()} == {"8"}


async def test_a_service_account_may_do_what_its_role_says_and_nothing_else(
    cluster: Cluster, api: Api, namespace: str, world: World
) -> None:
    await service_account(api, namespace, "reader", [READ_NODES])
    access = await account_access(cluster, namespace, "reader")
    async with cluster.api(access) as reader:
        assert len(await reader.items(nodes.NODES)) == len(world.nodes)
        with pytest.raises(ApiError) as refused:
            await reader.merge(f"{nodes.NODES}/node-sample1", {"metadata": {"labels": {"a": "b"}}})
    assert refused.value.status == 403

    def said() -> list[tuple[str, str, int]]:
        calls = cluster.calls(f"{namespace}:reader")
        return [(call.verb, call.resource, call.status) for call in calls]

    # The API server writes its audit log after its answer.
    await eventually(lambda: said() == [("list", "nodes", 200), ("patch", "nodes", 403)])


async def test_a_pod_runs_where_the_scheduler_puts_it(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    await api.create(path, _pod("taker", gpus=8))

    async def runs() -> bool:
        return bool((await api.get(f"{path}/taker"))["status"]["phase"] == "Running")

    await eventually(runs)
    assert (await api.get(f"{path}/taker"))["status"]["podIP"].startswith("10.")


async def test_what_a_test_leaves_is_taken_away(
    control_plane: Cluster, baseline: Baseline, namespace: str, api: Api
) -> None:
    await api.create(f"/api/v1/namespaces/{namespace}/pods", _pod("left", gpus=1))
    group = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
    selector = {"exactMatch": {"name": "node-sample1"}}
    member = {"type": "Node", "selector": selector}
    hypernode = {"metadata": {"name": "left"}, "spec": {"tier": 1, "members": [member]}}
    versioned = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", **hypernode}
    await api.create(group, versioned)
    await api.merge(
        f"{nodes.NODES}/node-sample1",
        {"metadata": {"labels": {"left": "yes"}}, "spec": {"unschedulable": True}},
    )
    await api.delete(f"{nodes.NODES}/node-sample2")
    await api.create(nodes.NODES, {"metadata": {"name": "late"}})
    await baseline.restore(api)
    assert {node["metadata"]["name"] for node in await api.items(nodes.NODES)} == {*baseline.nodes}
    assert await api.items(group) == []
    assert await api.items(f"/api/v1/namespaces/{namespace}/pods") == []
    node = await api.get(f"{nodes.NODES}/node-sample1")
    assert "left" not in node["metadata"]["labels"]
    assert "unschedulable" not in node["spec"]
    assert nodes.is_usable(await api.get(f"{nodes.NODES}/node-sample2"))
    assert control_plane.api_server.is_alive


async def test_the_lease_of_an_api_server_is_nothing_that_a_test_leaves(
    api: Api, namespace: str
) -> None:
    """An API server that has lost it makes it anew, up to ten seconds later."""
    before = await Baseline.of(api)
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    labels = {"apiserver.kubernetes.io/identity": "kube-apiserver"}
    await api.create(leases, {"metadata": {"name": "apiserver-a", "labels": labels}})
    await api.create(leases, {"metadata": {"name": "topo-master"}})
    added = {kept.path for kept in await before.added(api) if kept.collection == leases}
    assert added == {f"{leases}/topo-master"}


async def test_what_controllers_make_anew_is_nothing_that_a_test_leaves(
    api: Api, baseline: Baseline
) -> None:
    """On a busy machine they also make it for the first time after the baseline is taken."""
    default = "/api/v1/namespaces/default"
    for path in (f"{default}/configmaps/kube-root-ca.crt", f"{default}/serviceaccounts/default"):
        lost = (await api.get(path))["metadata"]["uid"]
        await api.delete(path)
        await eventually(partial(_is_anew, api, path, lost))
    await baseline.restore(api)
    account = (await api.get(f"{default}/serviceaccounts/default"))["metadata"]["uid"]
    await baseline.restore(api)
    assert (await api.get(f"{default}/serviceaccounts/default"))["metadata"]["uid"] == account


async def _is_anew(api: Api, path: str, lost: str) -> bool:
    try:
        return bool((await api.get(path))["metadata"]["uid"] != lost)
    except ApiError as error:
        if error.status != 404:
            raise
        return False


async def test_the_api_server_comes_back_with_all_that_it_had(cluster: Cluster, api: Api) -> None:
    before = {node["metadata"]["uid"] for node in await api.items(nodes.NODES)}
    await cluster.stop_api_server()
    assert not cluster.api_server.is_alive
    await cluster.start_api_server()
    assert {node["metadata"]["uid"] for node in await api.items(nodes.NODES)} == before


def test_nothing_of_a_cluster_outlives_its_end(tmp_path: Path) -> None:
    with own_ports() as ports:
        cluster = Cluster(tmp_path, Ports(*ports))
        try:
            asyncio.run(cluster.start())
            pids = {program.pid for program in cluster.programs}
            assert len(pids) == 5
        finally:
            cluster.stop()
    eventually_in_a_thread(lambda: not any(map(alive, pids)))


_HOLDER = """
import asyncio, pathlib, sys, time
from tests.chaos.ports import own_ports
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.core import Ports
with own_ports() as ports:
    cluster = Cluster(pathlib.Path(sys.argv[1]), Ports(*ports))
    asyncio.run(cluster.start())
    print(*[program.pid for program in cluster.programs], flush=True)
    time.sleep(600)
"""


def test_nothing_of_a_cluster_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        pids = {int(pid) for pid in holder.stdout.readline().split()}
        os.kill(holder.pid, signal.SIGKILL)
    assert len(pids) == 5
    eventually_in_a_thread(lambda: not any(map(alive, pids)))


def _pod(name: str, *, gpus: int) -> dict[str, object]:
    amounts = {nodes.GPU: str(gpus)}
    resources = {"limits": amounts, "requests": amounts}
    container = {"name": "main", "image": "none", "resources": resources}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}
