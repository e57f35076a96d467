"""A simulated cluster over real TLS: Jobs get pods through a webhook, run, end and go."""

import base64
import copy
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from master.kube.client import Call, connect
from master.kube.credentials.config import KubeConfig
from tests.helm.chart import golden, one
from tests.sim.kubernetes.calls import PODS, call, pod
from tests.sim.kubernetes.served import Webhook, allow, cluster_in, trust
from tests.support.waiting import eventually
from topo.kit.tls import client_context
from topo.sim.kubernetes.access import ADMIN, MASTER, NAMESPACE, KubeAccess, kubeconfig_file
from topo.sim.kubernetes.apiserver.merging import MERGE
from topo.sim.kubernetes.apiserver.resources import WEBHOOKS
from topo.sim.kubernetes.apiserver.statuses import RefusedError
from topo.sim.kubernetes.cluster import SimulatedCluster
from topo.sim.kubernetes.install import ADMISSION, webhook_configuration
from topo.sim.kubernetes.jobs import MAX_EVENTS, MAX_FINISHED_JOBS, RUN_SECONDS

JOBS = "/apis/batch/v1/namespaces/jobs/jobs"


def job(name: str, pods: int, **annotations: str) -> dict[str, Any]:
    template = {"metadata": {"annotations": annotations}, "spec": pod("")["spec"]}
    spec = {"completionMode": "Indexed", "completions": pods, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


@pytest.fixture
def webhook(tmp_path: Path) -> Webhook:
    return Webhook(tmp_path)


async def pods_of(cluster: SimulatedCluster) -> list[Any]:
    found: list[Any] = (await call(cluster.api, "GET", PODS))["items"]
    return found


async def phases(cluster: SimulatedCluster) -> list[str]:
    return [each["status"]["phase"] for each in await pods_of(cluster)]


async def test_a_job_gets_a_pod_for_each_index_and_is_over_when_all_have_succeeded(
    tmp_path: Path, webhook: Webhook
) -> None:
    async with cluster_in(tmp_path / "k", webhook) as cluster:
        await call(cluster.api, "POST", JOBS, job("train", 3))

        async def all_run() -> bool:
            return await phases(cluster) == ["Running"] * 3

        await eventually(all_run)
        found = await pods_of(cluster)
        index = "batch.kubernetes.io/job-completion-index"
        assert [each["metadata"]["annotations"][index] for each in found] == ["0", "1", "2"]
        assert {each["spec"]["nodeName"] for each in found} == {"node-1", "node-2", "node-3"}
        for each in found:
            path = f"{PODS}/{each['metadata']['name']}/status"
            await call(cluster.api, "PATCH", path, {"status": {"phase": "Succeeded"}}, as_=MERGE)

        async def is_complete() -> bool:
            status = (await call(cluster.api, "GET", f"{JOBS}/train"))["status"]
            kinds = [each["type"] for each in status.get("conditions", ())]
            return (status.get("succeeded"), kinds) == (3, ["Complete"])

        await eventually(is_complete)
        await call(cluster.api, "DELETE", f"{JOBS}/train")

        async def are_gone() -> bool:
            return await pods_of(cluster) == []

        await eventually(are_gone)


async def test_a_pod_that_is_deleted_is_made_again_and_one_with_a_time_ends_by_itself(
    tmp_path: Path, webhook: Webhook
) -> None:
    async with cluster_in(tmp_path / "k", webhook) as cluster:
        await call(cluster.api, "POST", JOBS, job("train", 1))

        async def runs() -> bool:
            return await phases(cluster) == ["Running"]

        await eventually(runs)
        (first,) = await pods_of(cluster)
        await call(cluster.api, "DELETE", f"{PODS}/{first['metadata']['name']}")
        await eventually(runs)
        (second,) = await pods_of(cluster)
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        await call(cluster.api, "POST", JOBS, job("short", 1, **{RUN_SECONDS: "0"}))

        async def is_over() -> bool:
            status = (await call(cluster.api, "GET", f"{JOBS}/short"))["status"]
            return bool(status.get("succeeded"))

        await eventually(is_over)


async def test_a_webhook_changes_new_objects_warns_and_denies(
    tmp_path: Path, webhook: Webhook
) -> None:
    def answer(request: Any) -> dict[str, Any]:
        if "bad" in request["object"]["metadata"]["name"]:
            status = {"code": 422, "reason": "Invalid", "message": "no such size"}
            return {"uid": request["uid"], "allowed": False, "status": status}
        label = [{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]
        patch = base64.b64encode(orjson.dumps(label)).decode()
        patched = {"patchType": "JSONPatch", "patch": patch, "warnings": ["a key is misspelt"]}
        return {**allow(request), **patched}

    webhook.answer = answer
    async with cluster_in(tmp_path / "k", webhook):
        access = KubeAccess.read(kubeconfig_file(tmp_path / "k", ADMIN))
        headers = {"Authorization": f"Bearer {access.token}"}
        context = client_context(access.ca_file)
        async with aiohttp.ClientSession(headers=headers) as session:
            url = access.server + JOBS
            async with session.post(url, json=job("good", 1), ssl=context) as made:
                assert made.headers.getall("Warning") == ['299 - "a key is misspelt"']
                assert (await made.json())["metadata"]["labels"] == {"seen": "yes"}
            async with session.post(url, json=job("bad", 1), ssl=context) as refused:
                assert refused.status == 422
                assert "no such size" in (await refused.json())["message"]
            asked = webhook.reviews[0]["request"]
            assert (asked["kind"]["kind"], asked["operation"]) == ("Job", "CREATE")


def _with(more: dict[str, Any], request: Any) -> dict[str, Any]:
    return {"uid": request["uid"], **more}


async def test_a_webhook_that_cannot_be_trusted_or_understood_lets_nothing_in(
    tmp_path: Path, webhook: Webhook
) -> None:
    async with cluster_in(tmp_path / "k", webhook, trusted=webhook.other) as cluster:
        with pytest.raises(RefusedError, match="failed calling webhook") as refused:
            await call(cluster.api, "POST", PODS, pod("p"))
        assert refused.value.code == 500
        assert webhook.reviews == []
        await trust(cluster, webhook.authority)
        for wrong in (
            {"uid": "another", "allowed": True},
            {"allowed": True, "patch": "!", "patchType": "JSONPatch"},
            {"allowed": True, "patch": "W10=", "patchType": "YAML"},
        ):
            webhook.answer = partial(_with, wrong)
            with pytest.raises(RefusedError, match="failed calling webhook"):
                await call(cluster.api, "POST", PODS, pod("p"))
        ignoring = await call(cluster.api, "GET", f"{WEBHOOKS.root}/{ADMISSION}")
        changed = copy.deepcopy(ignoring["webhooks"])
        for each in changed:
            each["failurePolicy"] = "Ignore"
        path = f"{WEBHOOKS.root}/{ADMISSION}"
        await call(cluster.api, "PATCH", path, {"webhooks": changed}, as_=MERGE)
        await call(cluster.api, "POST", PODS, pod("p"))


async def test_the_product_s_own_client_reaches_it_and_strangers_do_not(
    tmp_path: Path, webhook: Webhook
) -> None:
    async with cluster_in(tmp_path / "k", webhook):
        config = KubeConfig(kubeconfig=kubeconfig_file(tmp_path / "k", MASTER))
        client = await connect(config)
        body = orjson.loads(await client.call(Call(method="GET", path="/api/v1/nodes")))
        await client.close()
        assert len(body["items"]) == 4
        access = KubeAccess.read(kubeconfig_file(tmp_path / "k", ADMIN))
        context = client_context(access.ca_file)
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            async with (
                aiohttp.ClientSession(headers=headers) as session,
                session.get(f"{access.server}/api/v1/secrets", ssl=context) as answer,
            ):
                assert answer.status == 401


async def test_a_killed_server_starts_again_with_the_same_objects(
    tmp_path: Path, webhook: Webhook
) -> None:
    folder = tmp_path / "k"
    async with cluster_in(folder, webhook) as cluster:
        await call(cluster.api, "POST", JOBS, job("train", 2))

        async def all_run() -> bool:
            return await phases(cluster) == ["Running"] * 2

        await eventually(all_run)
        before, version = await pods_of(cluster), cluster.store.version
    journal = folder / "objects.jsonl"
    assert journal.stat().st_mode & 0o077 == 0
    with journal.open("ab") as file:
        file.write(b'{"at":"/api/v1/nodes","na')  # the kill came in the middle of a line
    async with cluster_in(folder, webhook) as again:
        assert await pods_of(again) == before
        assert again.store.version >= version
        assert len((await call(again.api, "GET", "/api/v1/nodes"))["items"]) == 4


async def test_events_and_finished_jobs_do_not_pile_up(tmp_path: Path, webhook: Webhook) -> None:
    async with cluster_in(tmp_path / "k", webhook) as cluster:
        events = "/apis/events.k8s.io/v1/namespaces/jobs/events"
        store = cluster.store
        for number in range(MAX_EVENTS + 10):
            store.create(events, {"metadata": {"name": f"e{number}"}}, "m")
        done = {"conditions": [{"type": "Complete"}]}
        for number in range(MAX_FINISHED_JOBS + 10):
            made = {**job(f"j{number}", 0), "status": done}
            made["metadata"]["namespace"] = "jobs"
            store.create(JOBS, made, "m")

        def kept(at: str) -> int:
            return sum(collection == at for collection, _ in store.objects)

        await eventually(lambda: kept(events) == MAX_EVENTS)
        await eventually(lambda: kept(JOBS) == MAX_FINISHED_JOBS)


def test_the_webhook_is_that_of_the_chart_but_for_what_spares_a_real_master_calls() -> None:
    """It asks about the kinds of stock Kubernetes, through the same Service, the same path."""
    charted = {
        each["name"]: each
        for each in one(golden("vendor"), "MutatingWebhookConfiguration", ADMISSION)["webhooks"]
    }
    for ours in webhook_configuration()["webhooks"]:
        theirs = copy.deepcopy(charted[ours["name"]])
        for name in ("matchConditions", "namespaceSelector"):
            del theirs[name]
        theirs["clientConfig"]["service"]["namespace"] = NAMESPACE
        chosen = ("failurePolicy", "timeoutSeconds")  # values of the chart
        assert {k: v for k, v in ours.items() if k not in chosen} == {
            k: v for k, v in theirs.items() if k not in chosen
        }


async def test_a_configuration_that_it_cannot_follow_is_refused(
    tmp_path: Path, webhook: Webhook
) -> None:
    async with cluster_in(tmp_path / "k", webhook) as cluster:
        made = webhook_configuration()
        made["metadata"] = {"name": "another"}
        made["webhooks"][0]["matchConditions"] = [{"name": "x", "expression": "true"}]
        with pytest.raises(RefusedError, match="does not read matchConditions"):
            await call(cluster.api, "POST", WEBHOOKS.root, made)
