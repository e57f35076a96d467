"""The chart's admission policy on the objects of Kubernetes' own gangs and devices."""

import copy
from typing import Any

import pytest

from tests.e2e.controlplane.client import Api, ApiError
from tests.e2e.controlplane.cluster import Cluster, account_access, service_account
from tests.e2e.scheduling.admission_master import WITH_POD_GROUPS
from tests.helm.chart import NAMESPACE, golden, one, rules
from tests.support.waiting import eventually

MASTER = "topo-master"
OURS = {"metax-tech.com/managed-by": MASTER}
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
RULES = "/apis/resource.k8s.io/v1/devicetaintrules"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
NAME = "topo-master-objects"


def group(name: str, least: int = 2, **metadata: Any) -> Any:
    policy = {"gang": {"minCount": least}}
    return {"metadata": {"name": name, **metadata}, "spec": {"schedulingPolicy": policy}}


def rule(name: str, device: str = "gpu-0", effect: str = "NoSchedule", **metadata: Any) -> Any:
    selector = {"driver": "gpu.example.com", "pool": "n", **({"device": device} if device else {})}
    taint = {"key": "metax-tech.com/gpu-unhealthy", "effect": effect}
    spec = {"deviceSelector": selector, "taint": taint}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


async def refused(call: Any) -> bool:
    """Whether the policy refuses a call; raises what else the server refuses it for."""
    try:
        await call
    except ApiError as error:
        if not error.is_of_policy:
            raise
        return True
    return False


@pytest.fixture
async def master(cluster: Cluster, api: Api) -> Any:
    """The account of a master with all of the chart's rights, and the policy in force."""
    await api.namespace(NAMESPACE)
    rights = [copy.deepcopy(each) for _, each in rules(golden(WITH_POD_GROUPS), MASTER)]
    await service_account(api, NAMESPACE, MASTER, rights)
    kinds = {"ValidatingAdmissionPolicy": POLICIES}
    kinds["ValidatingAdmissionPolicyBinding"] = POLICIES.replace("policies", "policybindings")
    for kind, path in kinds.items():
        await api.create(path, copy.deepcopy(one(golden(WITH_POD_GROUPS), kind, NAME)))
    access = await account_access(cluster, NAMESPACE, MASTER)
    async with cluster.api(access) as account:
        probe = {**group(""), "metadata": {"generateName": "probe-"}}
        await eventually(lambda: refused(account.create(GROUPS, probe)))
        yield account
    for path in kinds.values():
        await api.delete(f"{path}/{NAME}")


async def test_a_master_changes_its_own_pod_groups_and_device_taint_rules_alone(
    api: Api, master: Api
) -> None:
    await master.create(GROUPS, group("ours", labels=OURS))
    await master.merge(f"{GROUPS}/ours", group("ours", least=1))
    gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "gone"}
    owned = {"metadata": {"ownerReferences": [gone]}}
    assert await refused(master.merge(f"{GROUPS}/ours", owned))
    assert await refused(master.merge(f"{GROUPS}/ours", {"metadata": {"finalizers": ["a.b/c"]}}))
    assert await refused(master.merge(f"{GROUPS}/ours", {"metadata": {"annotations": {"a": "b"}}}))
    assert await refused(master.merge(f"{GROUPS}/ours", {"metadata": {"labels": {"a": "b"}}}))
    await api.create(GROUPS, group("theirs"))
    assert await refused(master.merge(f"{GROUPS}/theirs", group("theirs", least=1)))
    assert await refused(master.merge(f"{GROUPS}/theirs", {"metadata": {"labels": OURS}}))
    await master.create(RULES, rule("ours", labels=OURS))
    await master.delete(f"{RULES}/ours")
    assert await refused(master.create(RULES, rule("mine")))
    assert await refused(master.create(RULES, rule("all", device="", labels=OURS)))
    assert await refused(master.create(RULES, rule("hard", effect="NoExecute", labels=OURS)))
    await api.create(RULES, rule("theirs"))
    try:
        assert await refused(master.call("DELETE", f"{RULES}/theirs"))
        taking = {"metadata": {"labels": OURS}}
        assert await refused(master.merge(f"{RULES}/theirs", taking))
    finally:
        await api.delete(f"{RULES}/theirs")
