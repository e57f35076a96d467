"""The walkthroughs of docs/provisioning.md on a real API server, kube-scheduler and Kueue."""

import copy
import re
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.controlplane.client import Api, ApiError
from tests.e2e.controlplane.cluster import Cluster, account_access, service_account
from tests.e2e.provisioning.lives import REQUESTS, booked, true
from tests.e2e.scheduling.admission_master import WITH_POD_GROUPS, AdmissionMaster
from tests.e2e.scheduling.jobs import GPU, NODES, PODS, taker
from tests.helm.chart import NAMESPACE, golden, one, rules
from tests.support.waiting import eventually

PAGE = Path(__file__).parents[3] / "docs" / "provisioning.md"
MASTER, POLICY = "topo-master", "topo-master-objects"
_POLICIES_AT = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
POLICIES = {
    "ValidatingAdmissionPolicy": _POLICIES_AT,
    "ValidatingAdmissionPolicyBinding": _POLICIES_AT.replace("policies", "policybindings"),
}
NVIDIA = "nvidia.com/gpu"
DISK = "ephemeral-storage"
POOL = "cloud.google.com/gke-nodepool"
PLACES = {
    "PodTemplate": "/api/v1/namespaces/default/podtemplates",
    "ProvisioningRequest": REQUESTS,
    "Job": "/apis/batch/v1/namespaces/default/jobs",
    "ResourceFlavor": "/apis/kueue.x-k8s.io/v1beta2/resourceflavors",
    "AdmissionCheck": "/apis/kueue.x-k8s.io/v1beta2/admissionchecks",
    "ProvisioningRequestConfig": "/apis/kueue.x-k8s.io/v1beta2/provisioningrequestconfigs",
    "ClusterQueue": "/apis/kueue.x-k8s.io/v1beta2/clusterqueues",
    "LocalQueue": "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/localqueues",
}


def manifests(heading: str) -> Iterator[Any]:
    """The objects that the page shows below a heading, as they stand."""
    after = re.split(rf"\n##+ {heading}\n", PAGE.read_text())[1]
    section = re.split(r"\n##+ ", after)[0]
    for block in re.findall(r"```yaml\n(.*?)```", section, re.DOTALL):
        yield from yaml.safe_load_all(block)


async def create(api: Api, *objects: Any) -> None:
    for each in objects:
        await api.create(PLACES[each["kind"]], each)


def as_published(found: Any) -> Any:
    """An object of the walkthrough as GKE's page has it: the older API, NVIDIA's GPUs, a node pool.

    Of the job also the toleration, and of the queue the covered disks:
    cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest.
    """
    text = yaml.safe_dump(found).replace("v1beta2", "v1beta1").replace(GPU, NVIDIA)
    old = yaml.safe_load(text)
    spec = old.get("spec", {})
    if old["kind"] == "ClusterQueue":
        checks = spec.pop("admissionChecksStrategy")["admissionChecks"]
        spec["admissionChecks"] = [each["name"] for each in checks]
        (group,) = spec["resourceGroups"]
        group["coveredResources"].append(DISK)
        group["flavors"][0]["resources"].append({"name": DISK, "nominalQuota": "1000000000Ti"})
    if old["kind"] == "ProvisioningRequestConfig":
        spec.pop("podSetUpdates")
    if old["kind"] == "Job":
        pods = spec["template"]["spec"]
        pods["nodeSelector"] = {POOL: "dws"}
        pods["tolerations"] = [{"key": NVIDIA, "operator": "Exists", "effect": "NoSchedule"}]
    return old


async def _make_nvidia_pool(api: Api, nodes: int) -> list[str]:
    """Give all nodes NVIDIA's GPUs and taint; the last of them, the result, are the node pool."""
    amounts = {GPU: None, NVIDIA: "8"}
    taint = {"key": NVIDIA, "value": "present", "effect": "NoSchedule"}
    names = sorted(each["metadata"]["name"] for each in await api.items(NODES))
    for name in names:
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        await api.merge(f"{NODES}/{name}/status", status)
        await api.merge(f"{NODES}/{name}", {"spec": {"taints": [taint]}})
    for name in names[-nodes:]:
        await api.merge(f"{NODES}/{name}", {"metadata": {"labels": {POOL: "dws"}}})
    return names[-nodes:]


async def bound(api: Api, prefix: str) -> list[str]:
    """The nodes of a job's pods; empty while one of them has none."""
    pods = [each for each in await api.items(PODS) if each["metadata"]["name"].startswith(prefix)]
    nodes = [each["spec"].get("nodeName", "") for each in pods]
    return sorted(nodes) if all(nodes) else []


async def test_pods_run_on_the_groups_that_were_booked_before_they_were_there(
    api: Api, master: AdmissionMaster
):
    """Of the eight pairs the first is taken when the groups are booked, and free afterwards."""
    await eventually(lambda: _is_answering(master))
    first = min(each["metadata"]["name"] for each in await api.items(NODES))
    await api.create(PODS, taker("taker", first))
    template, request, job = manifests("By hand")
    await create(api, template, request)
    path = f"{REQUESTS}/{request['metadata']['name']}"
    await eventually(lambda: _is(api, path, "Provisioned"))
    nodes = sorted(booked(await api.get(path)))
    assert first not in nodes
    await api.delete(f"{PODS}/taker")
    master.stop()
    master.start()
    await create(api, job)
    await eventually(lambda: _has(api, "train-", 4))
    assert await bound(api, "train-") == nodes
    assert true(await api.get(path)).keys() == {"Accepted", "Provisioned"}


@pytest.mark.parametrize("version", ["v1beta2", "v1beta1"])
async def test_the_manifests_of_the_walkthrough_run_with_kueue_but_for_the_name_of_the_class(
    api: Api, master: AdmissionMaster, version: str
):
    """As the page has them, and as GKE's page has them: on its node pool alone, and no other."""
    await eventually(lambda: _is_answering(master))
    found = list(manifests("With Kueue"))
    pool = [each["metadata"]["name"] for each in await api.items(NODES)]
    if version == "v1beta1":
        pool = await _make_nvidia_pool(api, 4)
        found = list(map(as_published, found))
    for each in found:
        await api.create(PLACES[each["kind"]].replace("v1beta2", version), each)
    await eventually(lambda: _has(api, "sample-job-", 3))
    (request,) = await api.items(REQUESTS)
    assert true(request).keys() == {"Accepted", "Provisioned"}
    nodes = await bound(api, "sample-job-")
    assert nodes == _pods_by_node(request)
    assert set(nodes) <= set(pool)


async def test_jobs_run_on_reserved_nodes_first_and_the_others_book_groups_of_the_other_pool(
    api: Api, master: AdmissionMaster
):
    await eventually(lambda: _is_answering(master))
    names = sorted(each["metadata"]["name"] for each in await api.items(NODES))
    for name in names:
        pool = "reserved" if name in names[:8] else "requested"
        await api.merge(f"{NODES}/{name}", {"metadata": {"labels": {"example.com/pool": pool}}})
    *one_flavor, job = manifests("With Kueue")
    shared = [each for each in one_flavor if each["kind"] not in ("ResourceFlavor", "ClusterQueue")]
    await create(api, *shared, *manifests("Reserved nodes first"), job)
    await eventually(lambda: _has(api, "sample-job-", 3))
    assert set(await bound(api, "sample-job-")) <= set(names[:8])
    assert await api.items(REQUESTS) == []
    job["metadata"]["name"] = "second-job"
    await create(api, job)
    await eventually(lambda: _has(api, "second-job-", 3))
    (request,) = await api.items(REQUESTS)
    nodes = await bound(api, "second-job-")
    assert nodes == _pods_by_node(request)
    assert set(nodes).isdisjoint(names[:8])


async def test_without_room_kueue_keeps_the_job_and_says_what_the_request_says(
    api: Api, master: AdmissionMaster
):
    await eventually(lambda: _is_answering(master))
    for each in await api.items(NODES):
        await api.create(PODS, taker(f"taker-{each['metadata']['name']}", each["metadata"]["name"]))
    *queues, job = manifests("With Kueue")
    await create(api, *queues)
    job["metadata"]["annotations"]["provreq.kueue.x-k8s.io/ValidUntilSeconds"] = "5"
    await create(api, job)
    await eventually(lambda: _any(api, "Failed"))
    (request, *_) = await api.items(REQUESTS)
    failed = {each["type"]: each for each in request["status"]["conditions"]}["Failed"]
    assert "GPU" in failed["message"]
    await eventually(lambda: _is_told(api, failed["message"][:60]))
    assert not [
        each for each in await api.items(PODS) if each["metadata"]["name"].startswith("sample-job-")
    ]


async def test_a_master_answers_no_request_of_another_class(api: Api, cluster: Cluster):
    """The chart's admission policy refuses it, whatever its role allows."""
    await api.namespace(NAMESPACE)
    rights = [copy.deepcopy(each) for _, each in rules(golden(WITH_POD_GROUPS), MASTER)]
    await service_account(api, NAMESPACE, MASTER, rights)
    for kind, path in POLICIES.items():
        await api.create(path, copy.deepcopy(one(golden(WITH_POD_GROUPS), kind, POLICY)))
    template, request, _ = manifests("By hand")
    other = copy.deepcopy(request)
    other["metadata"]["name"] = "other"
    other["spec"]["provisioningClassName"] = "queued-provisioning.gke.io"
    await create(api, template, request, other)
    answer = {"status": {"provisioningClassDetails": {"groups": "all"}}}
    access = await account_access(cluster, NAMESPACE, MASTER)
    async with cluster.api(access) as account:
        await eventually(lambda: refused(account.merge(f"{REQUESTS}/other/status", answer)))
        assert not await refused(account.merge(f"{REQUESTS}/train/status", answer))


async def refused(call: Awaitable[Any]) -> bool:
    """Whether the policy refuses a call; raises what else the server refuses it for."""
    try:
        await call
    except ApiError as error:
        if not error.is_of_policy:
            raise
        return True
    return False


def _pods_by_node(request: Any) -> list[str]:
    text = request["status"]["provisioningClassDetails"]["nodes"]
    found: list[str] = []
    for each in re.split("[,;]", text):
        node, _, pods = each.partition(":")
        found += [node] * int(pods or 1)
    return sorted(found)


async def _is_answering(master: AdmissionMaster) -> bool:
    return bool(await master.url())


async def _is(api: Api, path: str, condition: str) -> bool:
    return condition in true(await api.get(path))


async def _has(api: Api, prefix: str, pods: int) -> bool:
    return len(await bound(api, prefix)) == pods


async def _any(api: Api, condition: str) -> bool:
    return any(condition in true(each) for each in await api.items(REQUESTS))


async def _is_told(api: Api, text: str) -> bool:
    workloads = await api.items("/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads")
    return any(text in str(each.get("status", {})) for each in workloads)
