"""Whom a worker's token speaks for, by the real API server: tokens as kubelet asks for them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import prometheus_client as prom
import pytest

from master.kube.client import KubeClient
from master.kube.credentials.config import KubeConfig
from master.kube.service_accounts.accounts import Account, Denied, Wanted
from master.kube.service_accounts.token_review import LATE_S, REFUSED_S, TokenReviews
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster, account_access, service_account, token
from tests.master.world import Master, facts, running
from tests.support.waiting import eventually
from topo.model.conditions.sources import ReportCondition

AUDIENCE = "topo-master"
READ = {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]}
ASK = {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}
HERE = "10.0.0.1"


@dataclass(frozen=True, slots=True)
class Accounts:
    """A namespace with the accounts of masters, of workers and of others."""

    cluster: Cluster
    api: Api
    namespace: str
    folder: Path

    @property
    def wanted(self) -> Wanted:
        name = f"{self.namespace}:topo-worker"
        return Wanted(account=name, audience=AUDIENCE, on_node=True)

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    async def nodes(self) -> list[str]:
        return [each["metadata"]["name"] for each in await self.api.items("/api/v1/nodes")]

    async def pod(self, name: str, node: str | None, account: str = "topo-worker") -> Any:
        """A pod of the account, on that node or waiting for one."""
        spec: dict[str, Any] = {
            "serviceAccountName": account,
            "containers": [{"name": "main", "image": "none"}],
            "tolerations": [{"operator": "Exists"}],
        }
        where = {"schedulingGates": [{"name": "e2e/never"}]} if node is None else {"nodeName": node}
        return await self.api.create(
            self.pods, {"metadata": {"name": name}, "spec": {**spec, **where}}
        )

    async def token(self, pod: Any, audience: str = AUDIENCE) -> str:
        """What kubelet projects into the pod."""
        who = {key: pod["metadata"][key] for key in ("name", "uid")}
        bound = {"kind": "Pod", "apiVersion": "v1", **who}
        account = pod["spec"]["serviceAccountName"]
        return await token(self.api, self.namespace, account, audience=audience, bound_to=bound)

    async def unbound(self) -> str:
        """A token of the workers' account that is of no pod."""
        return await token(self.api, self.namespace, "topo-worker", audience=AUDIENCE)

    async def master(self, *rules: Any) -> Path:
        """The kubeconfig of a master that may do this and nothing else."""
        await service_account(self.api, self.namespace, "topo-master", rules)
        access = await account_access(self.cluster, self.namespace, "topo-master")
        return access.kubeconfig(self.folder / "kubeconfig")

    @asynccontextmanager
    async def running(self, *rules: Any) -> AsyncIterator[Master]:
        """A master that may do this and nothing else."""
        flags = (f"--kubeconfig={await self.master(*rules)}", f"--pod-namespace={self.namespace}")
        async with running("--mode=dragonfly", *flags) as master:
            yield master


@pytest.fixture
async def accounts(cluster: Cluster, api: Api, namespace: str, tmp_path: Path) -> Accounts:
    """Of this test."""
    for name in ("topo-worker", "other"):
        await service_account(api, namespace, name)
    return Accounts(cluster, api, namespace, tmp_path)


async def test_a_pods_token_reports_for_its_node_and_no_other_token_for_any(
    accounts: Accounts,
) -> None:
    """With no more rights than to ask whose a token is."""
    node, other, *_ = await accounts.nodes()
    own = await accounts.pod("worker", node)
    good = await accounts.token(own)
    strangers = {
        await accounts.token(own, "https://kubernetes.default.svc"): ReportCondition.WRONG_AUDIENCE,
        await accounts.token(own, "somebody-else"): ReportCondition.WRONG_AUDIENCE,
        await accounts.token(
            await accounts.pod("other", node, "other")
        ): ReportCondition.WRONG_ACCOUNT,
        await accounts.token(
            await accounts.pod("waiting", None)
        ): ReportCondition.TOKEN_WITHOUT_NODE,
        await token(
            accounts.api, accounts.namespace, "topo-worker", audience=AUDIENCE
        ): ReportCondition.TOKEN_WITHOUT_NODE,
        good[:-8] + "AAAAAAAA": ReportCondition.TOKEN_REFUSED,
        accounts.cluster.admin.token: ReportCondition.NO_ACCOUNT,
    }
    async with accounts.running(READ, ASK) as master:
        worker = master.worker(node, good)
        assert (await worker.full(facts(node))).status == 200
        assert (await worker.beat()).status == 200
        foreign = await master.worker(other, good).full(facts(other))
        assert (foreign.status, foreign.json["code"]) == (403, "foreign-report")
        for text, code in strangers.items():
            answer = await master.worker(node, text).full(facts(node))
            assert (answer.status, answer.json["code"]) == (401, code)
            assert text not in answer.body.decode()
    called = accounts.cluster.calls(f"{accounts.namespace}:topo-master")
    assert {call.verb for call in called if call.resource == "tokenreviews"} == {"create"}


async def test_the_token_of_a_deleted_pod_is_refused_when_it_is_asked_about_again(
    accounts: Accounts,
) -> None:
    """The API server itself remembers it for ten seconds."""
    node, *_ = await accounts.nodes()
    good = await accounts.token(await accounts.pod("worker", node))
    client = KubeClient(KubeConfig(kubeconfig=await accounts.master(ASK)))
    await client.open()
    now_s = 0.0
    reviews = TokenReviews(client.call, prom.CollectorRegistry(), nodes=16, clock=lambda: now_s)
    try:
        found = await reviews.identity_of(good, accounts.wanted, HERE)
        assert isinstance(found, Account)
        assert found.node == node
        await accounts.api.delete(f"{accounts.pods}/worker", grace_s=0)

        async def is_refused() -> bool:
            nonlocal now_s
            now_s += LATE_S
            found = await reviews.identity_of(good, accounts.wanted, HERE)
            return isinstance(found, Denied) and found.code == ReportCondition.TOKEN_REFUSED

        await eventually(is_refused)
        now_s += REFUSED_S
        assert await is_refused()
    finally:
        await reviews.close()
        await client.close()


async def test_a_master_that_may_not_ask_says_what_its_role_lacks(
    accounts: Accounts,
) -> None:
    """The workers are told to come back: nothing is wrong with their tokens."""
    node, *_ = await accounts.nodes()
    good = await accounts.token(await accounts.pod("worker", node))
    async with accounts.running(READ) as master:
        answer = await master.worker(node, good).full(facts(node))
        assert (answer.status, answer.json["code"]) == (503, ReportCondition.TOKEN_NOT_REVIEWED)
        assert "tokenreviews" in answer.json["detail"]
        assert "roles" in answer.json["fix"]


async def test_while_the_api_server_is_away_known_workers_report_and_new_ones_come_later(
    accounts: Accounts,
) -> None:
    known, new, *_ = await accounts.nodes()
    tokens = [await accounts.token(await accounts.pod(f"worker-{n}", n)) for n in (known, new)]
    async with accounts.running(READ, ASK) as master:
        first, second = (
            master.worker(node, text) for node, text in zip((known, new), tokens, strict=True)
        )
        assert (await first.full(facts(known))).status == 200
        await accounts.cluster.stop_api_server()
        try:
            assert (await first.beat()).status == 200
            answer = await second.full(facts(new))
            assert (answer.status, answer.json["code"]) == (503, ReportCondition.TOKEN_NOT_REVIEWED)
        finally:
            await accounts.cluster.start_api_server()

        async def is_let_in() -> bool:
            await asyncio.sleep(0.1)
            return (await second.full(facts(new))).status == 200

        await eventually(is_let_in)
