"""What is held against nodes, on the real API server: the taint, the condition, and their end."""

import copy
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controlplane.client import MERGE, Api, ApiError
from tests.e2e.controlplane.cluster import Cluster, account_access, service_account
from tests.e2e.kubernetes.test_cleanup import RULES as CLEANUP
from tests.e2e.kubernetes.test_cleanup import clean
from tests.helm.chart import NAMESPACE, golden, one, rules
from tests.master.world import TOKEN, Master, facts, running
from tests.support.waiting import eventually
from topo.model.machine import LinkPort, PortState

CASE, ACCOUNT = "podgroups", "topo-master"
"""The chart with the controllers of suspicion."""
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
OURS = {"key": "metax-tech.com/quarantine", "value": "topo-master", "effect": "NoSchedule"}
THEIRS = {"key": "example.com/theirs", "effect": "PreferNoSchedule"}
_POLICY = 422


class Quarantine:
    """A node, a master with the chart's rights, and the chart's policy in force."""

    def __init__(self, api: Api, account: Api, namespace: str, node: str) -> None:
        self.api, self.account, self.namespace, self.node = api, account, namespace, node
        self.at = f"/api/v1/nodes/{node}"

    async def taints(self) -> list[dict[str, str]]:
        found = (await self.api.get(self.at))["spec"].get("taints", [])
        return [each for each in found if "node.kubernetes.io" not in each["key"]]

    async def condition(self) -> dict[str, str]:
        """Our condition; empty where there is none."""
        found = (await self.api.get(self.at))["status"]["conditions"]
        return next((each for each in found if each["type"] == "TopoLinkCheck"), {})

    async def pod(self) -> str:
        """Makes a pod that fits this node alone; returns its path."""
        at = f"/api/v1/namespaces/{self.namespace}/pods"
        chosen = {"kubernetes.io/hostname": self.node}
        containers = [{"name": "main", "image": "none"}]
        spec = {"nodeSelector": chosen, "containers": containers}
        await self.api.create(at, {"metadata": {"name": "plain"}, "spec": spec})
        return f"{at}/plain"

    async def is_refused(self, path: str, patch: Any) -> bool:
        """Whether the policy refuses the master's account a change."""
        try:
            await self.account.call("PATCH", path, patch, content_type=MERGE, dryRun="All")
        except ApiError as error:
            return error.status == _POLICY
        return False


@pytest.fixture
async def quarantine(cluster: Cluster, api: Api, namespace: str) -> AsyncIterator[Quarantine]:
    rights = [copy.deepcopy(each) for _, each in rules(golden(CASE), ACCOUNT)]
    await service_account(api, namespace, ACCOUNT, rights)
    paths = {"ValidatingAdmissionPolicy": POLICIES}
    paths["ValidatingAdmissionPolicyBinding"] = POLICIES.replace("policies", "policybindings")
    for kind, path in paths.items():
        text = json.dumps(one(golden(CASE), kind, "topo-master-nodes"))
        await api.create(path, json.loads(text.replace(f":{NAMESPACE}:", f":{namespace}:")))
    node = (await api.items("/api/v1/nodes"))[0]["metadata"]["name"]
    async with cluster.api(await account_access(cluster, namespace, ACCOUNT)) as account:
        made = Quarantine(api, account, namespace, node)
        await eventually(lambda: made.is_refused(made.at, {"spec": {"unschedulable": True}}))
        yield made


async def decided(master: Master, node: str, act: str, **body: str) -> None:
    """An operator's word about a node."""
    headers = {"Authorization": "Bearer writer-1"}
    path = f"/v1/nodes/{node}/{act}"
    said = {} if act == "clear" else {"reason": "seen", **body}
    async with master.session.post(master.url + path, json=said, headers=headers) as answer:
        assert answer.status == 200, await answer.read()


async def test_a_node_in_quarantine_takes_no_pod_until_it_is_cleared(
    quarantine: Quarantine, cluster: Cluster, tmp_path: Path
) -> None:
    access = await account_access(cluster, quarantine.namespace, ACCOUNT)
    (tmp_path / "tokens").write_text(f"{TOKEN}\n")
    (tmp_path / "writers").write_text("ops writer-1\n")
    flags = (
        f"--kubeconfig={access.kubeconfig(tmp_path / 'kubeconfig')}",
        "--controllers=node-taints,node-conditions",
        f"--worker-token-file={tmp_path / 'tokens'}",
        f"--api-token-file={tmp_path / 'writers'}",
    )
    seen, node = quarantine, quarantine.node
    await seen.api.merge(seen.at, {"spec": {"taints": [THEIRS]}})
    async with running("--mode=dragonfly", *flags) as master:
        port = LinkPort(2, 14, PortState.UP)
        await master.worker(node).full(replace(facts(node), ports=(port,)))
        await eventually(lambda: _is_known(master, node))
        await decided(master, node, "quarantine")
        await decided(master, node, "confirm", link="GPU 2 link 14")
        await eventually(lambda: _has(seen, [THEIRS, OURS]))
        await eventually(lambda: _says(seen, "TopoLinkCheckIsNotHealthy"))
        assert (await seen.condition())["message"].startswith("Link:GPU 2 link 14 ")
        pod = await seen.pod()

        async def is_kept_off() -> bool:
            conditions = (await seen.api.get(pod))["status"].get("conditions", [])
            return any("untolerated taint" in each.get("message", "") for each in conditions)

        await eventually(is_kept_off)
        await decided(master, node, "clear")
        await eventually(lambda: _has(seen, [THEIRS]))
        await eventually(lambda: _says(seen, ""))

        async def is_bound() -> bool:
            return bool((await seen.api.get(pod))["spec"].get("nodeName"))

        await eventually(is_bound)
        await decided(master, node, "quarantine")
        await decided(master, node, "confirm", link="GPU 2 link 14")
        await eventually(lambda: _has(seen, [THEIRS, OURS]))
        await eventually(lambda: _says(seen, "TopoLinkCheckIsNotHealthy"))
    rights = {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]}
    code, told = await clean(cluster, seen.namespace, tmp_path, (*CLEANUP, rights))
    assert code == 0, told
    assert await _has(seen, [THEIRS])
    assert await _says(seen, "")


async def test_a_master_writes_no_other_taint_and_no_other_condition(
    quarantine: Quarantine,
) -> None:
    for taint in (THEIRS, {**OURS, "value": "x"}, {**OURS, "effect": "NoExecute"}):
        assert await quarantine.is_refused(quarantine.at, {"spec": {"taints": [taint]}}), taint
    assert not await quarantine.is_refused(quarantine.at, {"spec": {"taints": [OURS]}})
    status = f"{quarantine.at}/status"
    conditions = (await quarantine.api.get(quarantine.at))["status"]["conditions"]
    ours = {"type": "TopoLinkCheck", "status": "True"}
    for wrong in ([ours], [*conditions, {"type": "DiskPressure2", "status": "True"}]):
        assert await quarantine.is_refused(status, {"status": {"conditions": wrong}})
    assert not await quarantine.is_refused(status, {"status": {"conditions": [*conditions, ours]}})
    assert await quarantine.is_refused(status, {"status": {"capacity": {"cpu": "9999"}}})


async def _is_known(master: Master, node: str) -> bool:
    return f'"{node}"' in (await master.get("/v1/topology")).body.decode()


async def _has(seen: Quarantine, taints: list[dict[str, str]]) -> bool:
    return await seen.taints() == taints


async def _says(seen: Quarantine, reason: str) -> bool:
    return (await seen.condition()).get("reason", "") == reason
