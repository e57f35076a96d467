"""`topo-master cleanup` as a process on the real API server, with the rights of its own account."""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.chaos.ports import own_ports
from tests.e2e.controlplane.client import Api, ApiError
from tests.e2e.controlplane.cluster import Cluster, account_access, service_account
from tests.e2e.kubernetes.forest_master import (
    FLY,
    HYPERNODES,
    VENDOR,
    Tree,
    forest_master,
    hypernodes,
    labels,
    wanted_hypernodes,
    wanted_labels,
)
from tests.e2e.kubernetes.node_features import (
    collection,
    node_feature,
    node_features_served,
)
from tests.support.waiting import CEILING_S, eventually

RULES = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "patch"]},
    {
        "apiGroups": ["topology.volcano.sh"],
        "resources": ["hypernodes"],
        "verbs": ["list", "delete"],
    },
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "delete"]},
    {
        "apiGroups": ["nfd.k8s-sigs.io"],
        "resources": ["nodefeatures"],
        "verbs": ["list", "delete"],
    },
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "create", "update", "delete"],
    },
)
"""What a clean-up needs; the chart grants the last three in its namespace."""
TERM_S = 16.0
FIRST: Tree = {"switchbox-1": VENDOR["switchbox-1"]}
OURS = {"metax-tech.com/managed-by": "topo-master"}


async def clean(
    cluster: Cluster, namespace: str, home: Path, rights: Sequence[dict[str, Any]] = RULES
) -> tuple[int, str]:
    """The exit code of a clean-up, and what it said."""
    async with cluster.api() as api:
        try:
            await service_account(api, namespace, "topo-cleanup", rights)
        except ApiError as error:
            if error.status != 409:
                raise
    access = await account_access(cluster, namespace, "topo-cleanup")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "master", "cleanup"),
        f"--kubeconfig={access.kubeconfig(home / 'cleanup-kubeconfig')}",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "POD_NAMESPACE": namespace},
    )
    out, _ = await asyncio.wait_for(process.communicate(), CEILING_S)
    assert process.returncode is not None
    return process.returncode, out.decode()


async def traces(api: Api) -> list[str]:
    """What of the product is left in the cluster: fields of nodes, HyperNodes, leases, state."""
    found = [f"{each['metadata']['name']}" for each in await api.items(HYPERNODES)]
    for node in await api.items("/api/v1/nodes"):
        managers = [each["manager"] for each in node["metadata"]["managedFields"]]
        found += [f"{node['metadata']['name']}: {name}" for name in managers if "topo" in name]
    for path in ("/api/v1/configmaps", "/apis/coordination.k8s.io/v1/leases"):
        names = [each["metadata"]["name"] for each in await api.items(path)]
        found += [name for name in names if name.startswith("topo-master")]
    return found


async def test_nothing_is_left_and_what_others_wrote_stays(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path
) -> None:
    # Nodes remember masters of earlier tests: their labels went one by one, and left no field.
    await clean(cluster, namespace, tmp_path)
    async with forest_master(cluster, namespace, tmp_path, FIRST):
        await eventually(lambda: _is_whole(api, FIRST))
    hand_made = {"metadata": {"labels": {"own": "stays", FLY: "by-hand"}}}
    await api.merge("/api/v1/nodes/node-sample5", hand_made)
    state = {"metadata": {"name": "topo-master-state-1", "labels": OURS}, "data": {"piece": "x"}}
    await api.create(f"/api/v1/namespaces/{namespace}/configmaps", state)
    theirs = {"metadata": {"name": "their-config"}, "data": {"x": "y"}}
    await api.create(f"/api/v1/namespaces/{namespace}/configmaps", theirs)
    async with node_features_served(api):
        for name, of in (("topo-node-sample1", OURS), ("node-sample1", {})):
            await api.create(collection(namespace), node_feature(name, of, {"labels": {FLY: "a"}}))

        code, said = await clean(cluster, namespace, tmp_path)
        assert (code, await traces(api)) == (0, []), said
        assert "4 nodes, 1 NodeFeature, 3 HyperNodes and 1 ConfigMaps" in said
        assert [each["metadata"]["name"] for each in await api.items(collection(namespace))] == [
            "node-sample1"
        ]
    assert {name: of for name, of in (await labels(api)).items() if of} == {
        "node-sample5": {FLY: "by-hand"}
    }
    assert await api.get(f"/api/v1/namespaces/{namespace}/configmaps/their-config")

    again, said = await clean(cluster, namespace, tmp_path)
    assert again == 0
    assert "0 nodes, 0 HyperNodes and 0 ConfigMaps" in said


async def test_a_label_that_a_running_pod_selects_stays_on_its_node_until_the_pod_ends(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path
) -> None:
    label, pods = "gang.metax-tech.com/runs", f"/api/v1/namespaces/{namespace}/pods"
    for name in ("node-sample1", "node-sample2"):
        await api.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": {label: "hold-1"}}})
    spec = {
        "nodeName": "node-sample1",
        "nodeSelector": {label: "hold-1"},
        "containers": [{"name": "main", "image": "none"}],
    }
    await api.create(pods, {"metadata": {"name": "worker-0"}, "spec": spec})

    async def runs() -> bool:
        return bool((await api.get(f"{pods}/worker-0"))["status"]["phase"] == "Running")

    async def labelled() -> list[str]:
        nodes = await api.items("/api/v1/nodes")
        return [each["metadata"]["name"] for each in nodes if label in each["metadata"]["labels"]]

    await eventually(runs)
    code, said = await clean(cluster, namespace, tmp_path)
    assert (code, await labelled()) == (0, ["node-sample1"]), said
    assert "1 nodes keep the label of a gang for 1 pods of theirs" in said
    await api.merge(f"{pods}/worker-0/status", {"status": {"phase": "Succeeded"}})
    code, said = await clean(cluster, namespace, tmp_path)
    assert (code, await labelled()) == (0, []), said


async def test_a_leader_that_ended_without_giving_its_lease_back_is_waited_for(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path
) -> None:
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    spec = {"holderIdentity": "topo-master-0", "leaseDurationSeconds": 2}
    await api.create(leases, {"metadata": {"name": "topo-master"}, "spec": spec})
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    code, said = await clean(cluster, namespace, tmp_path)
    assert (code, await traces(api)) == (0, []), said
    assert loop.time() - began_s >= 2


async def test_it_wins_against_two_masters_that_run(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path
) -> None:
    """The leader ends; what it wrote goes, and the other one does not write it again."""
    (tmp_path / "token").write_text("a-token-that-all-masters-share")
    shared = ("--leader-elect=true", "--pod-ip=127.0.0.1")
    token = f"--replica-token-file={tmp_path / 'token'}"
    with own_ports() as ports, own_ports() as others:
        first = (f"--server-port={ports[0]}", f"--rpc-server-port={ports[1]}")
        second = (f"--server-port={others[0]}", f"--rpc-server-port={others[1]}")
        async with forest_master(
            cluster, namespace, tmp_path, VENDOR, *shared, token, *first
        ) as master:
            other = master.beside("--pod-name=topo-master-1", *second)
            other.start()
            try:
                await eventually(lambda: _is_whole(api))
                await eventually(lambda: "who leads" in other.log.read_text())
                code, said = await clean(cluster, namespace, tmp_path)
                assert (code, await traces(api)) == (0, []), said
                masters = (master.program, other)
                await eventually(lambda: sum(each.is_alive for each in masters) == 1)
                await asyncio.sleep(TERM_S)  # after which it would lead if ours had not been seen
                assert await traces(api) == []
                assert sum(each.is_alive for each in masters) == 1
            finally:
                await asyncio.to_thread(other.stop)


async def test_a_master_that_goes_on_writing_without_a_lease_is_told(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path
) -> None:
    async with forest_master(cluster, namespace, tmp_path, VENDOR) as master:
        await eventually(lambda: _is_whole(api))
        code, said = await clean(cluster, namespace, tmp_path)
        assert code == 1
        assert "a master still writes; end every topo-master" in said
        await eventually(lambda: _is_whole(api))
        master.program.must_live()


async def _is_whole(api: Api, tree: Tree = VENDOR) -> bool:
    found = await labels(api)
    return found == wanted_labels(tree, [*found]) and await hypernodes(api) == wanted_hypernodes(
        tree
    )
