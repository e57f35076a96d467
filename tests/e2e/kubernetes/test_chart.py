"""The chart on a real cluster: what the API server says of it, and the life of a release."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controlplane.client import Api, ApiError
from tests.e2e.controlplane.cluster import Cluster, account_access
from tests.helm.chart import CHART, NAMESPACE, ON, VENDOR, built_helm, cases, golden, pod_specs, run
from tests.support.waiting import CEILING_S, eventually
from topo.sim.worlds.presets import World

WAIT = ("--wait", "--timeout", f"{CEILING_S:.0f}s")
UNKNOWN_HERE = {"monitoring.coreos.com/v1", "cert-manager.io/v1"}
"""Kinds of others that the chart makes on demand only, and whose definitions no module has."""
_CLASSES = ("priorityClassName", "runtimeClassName")
"""Names of objects that the API server would look for."""
_POLICY = 422
"""How the API server refuses what an admission policy denies."""
Helm = Callable[..., Any]


@pytest.fixture
def helm(cluster: Cluster, tmp_path: Path) -> Helm:
    """Calls helm on the cluster; what it prints as JSON, or else as text."""

    async def call(*arguments: str) -> Any:
        kubeconfig = ("--kubeconfig", str(cluster.files.kubeconfig))
        done = await asyncio.to_thread(
            partial(run, built_helm(), *arguments, *kubeconfig, home=tmp_path)
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout) if "json" in arguments else done.stdout

    return call


async def test_the_api_server_takes_every_object_and_knows_every_field(
    api: Api, namespace: str
) -> None:
    resources = await _resources(api)
    for case in cases():
        for each in golden(case):
            if each["apiVersion"] in UNKNOWN_HERE:
                continue
            if "namespace" in each["metadata"]:
                each["metadata"]["namespace"] = namespace
            path = _collection(resources, each)
            await api.call("POST", path, each, dryRun="All", fieldValidation="Strict")


async def test_alerts_are_refused_by_their_kind_where_no_operator_takes_them(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """docs/install.md says what to do then; nothing of the release is made."""
    asked = (*ON, "--set", "topoDiscovery.alerts.enabled=true", "--namespace", namespace)
    place = ("--kubeconfig", str(cluster.files.kubeconfig))
    install = partial(run, built_helm(), "install", "topo", str(CHART), *asked, *place)
    done = await asyncio.to_thread(partial(install, home=tmp_path))
    assert done.returncode == 1
    assert 'no matches for kind "PrometheusRule"' in done.stderr


async def test_a_namespace_of_the_restricted_standard_takes_all_pods_but_the_workers(
    api: Api, namespace: str
) -> None:
    """The API server judges, by its own Pod Security admission."""
    enforced = {"pod-security.kubernetes.io/enforce": "restricted"}
    await api.merge(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": enforced}})
    path = f"/api/v1/namespaces/{namespace}/pods"
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    for name in ("topo-master", "topo-worker", "topo-master-cleanup"):
        await api.create(accounts, {"metadata": {"name": name}})
    refused = set()
    for name, spec in (pod for case in cases() for pod in pod_specs(golden(case))):
        known = {key: value for key, value in spec.items() if key not in _CLASSES}
        pod = {"metadata": {"name": name}, "spec": {"restartPolicy": "Never", **known}}
        try:
            await api.call("POST", path, pod, dryRun="All")
        except ApiError as error:
            refused.add((name, error.status))
    assert refused == {("topo-worker", 403), ("topo-sweeper", 403)}


async def test_the_vendors_command_installs_two_masters_and_a_worker_on_every_gpu_node(
    helm: Helm, api: Api, world: World
) -> None:
    made = await helm(
        *("install", str(CHART), "--create-namespace", "-n", NAMESPACE, "--generate-name"),
        *(*WAIT, *VENDOR, "--output", "json"),
    )
    assert made["info"]["status"] == "deployed"
    pods = await api.items(f"/api/v1/namespaces/{NAMESPACE}/pods")
    nodes = {
        program: [each["spec"]["nodeName"] for each in pods if _program(each) == program]
        for program in ("topo-master", "topo-worker")
    }
    assert len(set(nodes["topo-master"])) == 2
    assert sorted(nodes["topo-worker"]) == sorted(str(host.name) for host in world.nodes)
    variables = pods[0]["spec"]["containers"][0]["env"] + pods[-1]["spec"]["containers"][0]["env"]
    assert {"name": "CLIENT_GO_BRUST", "value": "100"} in variables
    assert f"kubectl -n {NAMESPACE} get service topo-master-service" in made["info"]["notes"]


async def test_on_a_cluster_without_the_label_the_notes_say_which_one_brings_a_worker(
    helm: Helm, api: Api, namespace: str, world: World
) -> None:
    """What they say is done to one node, and it gets its worker."""
    asked = (*ON, "--set", "topoDiscovery.mode=dragonfly", "--set", "domain=example.com")
    made = await helm("install", "topo", str(CHART), *asked, "-n", namespace, "--output", "json")
    (told,) = re.findall(r"kubectl label node NODE (\S+)=(\S+)", made["info"]["notes"])
    path = f"/apis/apps/v1/namespaces/{namespace}/daemonsets/topo-worker"

    async def workers() -> int:
        status = (await api.get(path))["status"]
        is_seen = status.get("observedGeneration", 0) > 0
        return int(status["desiredNumberScheduled"]) if is_seen else -1

    async def are(number: int) -> bool:
        return await workers() == number

    await eventually(partial(are, 0))
    node = f"/api/v1/nodes/{world.nodes[0].name}"
    await api.merge(node, {"metadata": {"labels": {told[0]: told[1]}}})
    try:
        await eventually(partial(are, 1))
    finally:
        await api.merge(node, {"metadata": {"labels": {told[0]: None}}})
        await helm("uninstall", "topo", "-n", namespace, "--no-hooks")


async def test_an_upgrade_changes_what_is_asked_and_a_rollback_takes_it_back(
    helm: Helm, api: Api, namespace: str
) -> None:
    async def flags() -> list[str]:
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/topo-master"
        spec = (await api.get(path))["spec"]["template"]["spec"]
        found: list[str] = spec["containers"][0]["args"]
        return found

    release = ("topo", str(CHART), "-n", namespace, *WAIT, *ON)
    await helm("install", *release)
    before = await flags()
    await helm("upgrade", *release, "--set", "topoDiscovery.mode=dragonfly")
    assert set(await flags()) - set(before) == {"--mode=dragonfly"}
    await helm("rollback", "topo", "1", "-n", namespace, *WAIT)
    assert await flags() == before


async def test_groups_that_were_written_by_hand_outlive_an_upgrade(
    helm: Helm, api: Api, namespace: str
) -> None:
    release = ("topo", str(CHART), "-n", namespace, *ON)
    await helm("install", *release)
    path = f"/api/v1/namespaces/{namespace}/configmaps/topo-master-config"
    written = {"nodegroup": "group:\n- name: d\n  kind: dragonfly\n  child: [node-sample1]\n"}
    await api.merge(path, {"data": written})
    await helm("upgrade", *release, "--set", "log.level=debug")
    assert (await api.get(path))["data"] == written


async def test_a_master_may_change_labels_and_its_own_state_and_nothing_beside_them(
    helm: Helm, cluster: Cluster, api: Api, namespace: str
) -> None:
    await helm("install", "topo", str(CHART), "-n", namespace, *ON)
    access = await account_access(cluster, namespace, "topo-master")
    here, node = f"/api/v1/namespaces/{namespace}", "/api/v1/nodes/node-sample1"
    async with cluster.api(access) as master:

        async def refused(call: Awaitable[object]) -> int:
            with pytest.raises(ApiError) as error:
                await call
            return error.value.status

        async def is_enforced() -> bool:  # a policy takes effect a moment after it is made
            try:
                await master.merge(node, {"spec": {"unschedulable": True}})
            except ApiError as error:
                return error.status == _POLICY
            await api.merge(node, {"spec": {"unschedulable": None}})
            return False

        await eventually(is_enforced)
        await master.merge(node, {"metadata": {"labels": {"metax-tech.com/dragonfly": "d"}}})
        await master.create(f"{here}/configmaps", {"metadata": {"name": "topo-master-state-a"}})
        await master.delete(f"{here}/configmaps/topo-master-state-a")
        other = {"metadata": {"name": "other"}}
        assert await refused(master.create(f"{here}/configmaps", other)) == _POLICY
        written = {"data": {"nodegroup": ""}}
        path = f"{here}/configmaps/topo-master-config"
        assert await refused(master.merge(path, written)) == _POLICY
        assert await refused(master.delete(path)) == _POLICY
        assert await refused(master.get(f"{here}/secrets")) == 403
        assert await refused(master.delete(node)) == 403
        pods = f"{here}/pods"
        assert await refused(master.create(pods, {"metadata": {"name": "mine"}})) == 403
        lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-sample1"
        assert await refused(master.get(lease)) == 403


def _program(pod: Any) -> str:
    name: str = pod["metadata"]["labels"]["app.kubernetes.io/name"]
    return name


async def _resources(api: Api) -> dict[tuple[str, str], tuple[str, bool]]:
    """The path of each kind and whether it lies in namespaces, by API version and kind."""
    roots = {"v1": "/api/v1"}
    for group in (await api.get("/apis"))["groups"]:
        for version in group["versions"]:
            roots[version["groupVersion"]] = f"/apis/{version['groupVersion']}"
    return {
        (version, each["kind"]): (f"{root}/{each['name']}", each["namespaced"])
        for version, root in roots.items()
        for each in (await api.get(root))["resources"]
        if "/" not in each["name"]
    }


def _collection(resources: dict[tuple[str, str], tuple[str, bool]], each: Any) -> str:
    path, namespaced = resources[each["apiVersion"], each["kind"]]
    if not namespaced:
        return path
    base, _, name = path.rpartition("/")
    return f"{base}/namespaces/{each['metadata']['namespace']}/{name}"
