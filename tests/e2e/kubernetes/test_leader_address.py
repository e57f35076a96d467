"""Which addresses are those of masters, by the real API server and with the chart's rights."""

import copy
from pathlib import Path
from typing import Any

import prometheus_client as prom

from master.kube.client import KubeClient
from master.kube.credentials.config import KubeConfig
from master.kube.service_accounts.token_review import TokenReviews
from master.replicas.address import LeaderAddress
from master.replicas.credential import Credential
from master.replicas.leader_pod import OtherMasters
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster, account_access, service_account, token
from tests.helm.chart import golden, rules
from tests.support.waiting import eventually


async def test_only_pods_of_the_masters_account_have_an_address_of_a_leader(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path
) -> None:
    granted = [copy.deepcopy(rule) for _, rule in rules(golden("vendor"), "topo-master")]
    await service_account(api, namespace, "topo-master", granted)
    await service_account(api, namespace, "stranger")
    ours, theirs = [await _address(api, namespace, name) for name in ("topo-master", "stranger")]
    access = await account_access(cluster, namespace, "topo-master")
    (tmp_path / "token").write_text(await token(api, namespace, "topo-master"))
    client = KubeClient(KubeConfig(kubeconfig=access.kubeconfig(tmp_path / "kubeconfig")))
    await client.open()
    try:
        reviews = TokenReviews(client.call, prom.CollectorRegistry(), nodes=1)
        pods = OtherMasters(client, Credential(tmp_path / "token", reviews))
        assert await pods.doubt(_leader(ours, ours)) == ""
        for other in (theirs, "10.255.255.254", "[fd00::8]"):
            assert "no pod" in await pods.doubt(_leader(ours, other))
    finally:
        await client.close()


def _leader(api: str, reports: str) -> LeaderAddress:
    return LeaderAddress(f"http://{api}:9001", f"http://{reports}:10001")


async def _address(api: Api, namespace: str, account: str) -> str:
    """The address of a new pod of the account, once it runs."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    spec = {
        "serviceAccountName": account,
        "nodeName": "node-sample1",
        "containers": [{"name": "main", "image": "none"}],
    }
    await api.create(pods, {"metadata": {"name": account}, "spec": spec})
    status: dict[str, Any] = {}

    async def has_one() -> bool:
        status.update((await api.get(f"{pods}/{account}")).get("status", {}))
        return bool(status.get("podIP"))

    await eventually(has_one)
    return str(status["podIP"])
