"""What a reflector promises, on the real API server; and a master that may not do all it needs."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from master.kube.advice import next_step
from master.kube.errors import Failure
from master.kube.objects import NODES, PODS, UNFINISHED, PodObject
from master.kube.reflector import Scope
from tests.e2e.controlplane.client import APPLY, MERGE, Access, Api
from tests.e2e.controlplane.cluster import Cluster, account_access, service_account
from tests.e2e.controlplane.core import LOOPBACK
from tests.kube.reflector.promises import PROMISES, ApiServer
from tests.kube.reflector.reflecting import reflecting
from tests.master.placing import config
from tests.master.process import master_process
from tests.support.relay import Relay, relay_to
from tests.support.waiting import eventually

READ = {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list", "watch"]}


@dataclass
class RealApiServer:
    """The real one, with an administrator's rights; reflectors reach it through a relay."""

    cluster: Cluster
    api: Api
    relay: Relay
    kubeconfig: Path
    namespace: str

    async def put(self, name: str, value: str) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/configmaps/{name}"
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        body |= {"data": {"value": value}}
        await self.api.call("PATCH", path, body, content_type=APPLY, fieldManager="t", force="true")

    async def delete(self, name: str) -> None:
        await self.api.call("DELETE", f"/api/v1/namespaces/{self.namespace}/configmaps/{name}")

    async def cut(self) -> None:
        self.relay.cut()

    async def forget(self, meanwhile: Callable[[], Awaitable[None]]) -> None:
        """The API server forgets with its cache, so it has to be started anew."""
        self.relay.block()
        await meanwhile()
        listed = await self.api.get(f"/api/v1/namespaces/{self.namespace}/configmaps")
        await self.cluster.stop_api_server()
        url = f"http://{LOOPBACK}:{self.cluster.ports.etcd}/v3/kv/compaction"
        body = {"revision": listed["metadata"]["resourceVersion"]}
        async with ClientSession() as session, session.post(url, json=body) as answer:
            assert answer.status == 200, await answer.text()
        await self.cluster.start_api_server()
        self.relay.passes = True


@pytest.fixture
async def server(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path
) -> AsyncIterator[RealApiServer]:
    async with relay_to(cluster.ports.api) as relay:
        through = replace(cluster.admin, server=f"https://{LOOPBACK}:{relay.port}")
        path = through.kubeconfig(tmp_path / "kubeconfig")
        yield RealApiServer(cluster, api, relay, path, namespace)


@pytest.mark.parametrize("promise", PROMISES)
async def test_on_the_real_server(
    promise: Callable[[ApiServer], Awaitable[None]], server: RealApiServer
) -> None:
    await promise(server)


async def test_heartbeats_of_real_nodes_are_no_news(cluster: Cluster, api: Api) -> None:
    """What kubelets write every few seconds changes nothing that we read."""
    async with reflecting(cluster.files.kubeconfig) as found:
        await found.ear.until(lambda: found.reflector.synced)
        node = min(found.names)
        before = len(found.ear.told)
        for beat in range(3):
            status = {"conditions": [{"type": "Ready", "lastHeartbeatTime": _time(beat)}]}
            await _patch_status(api, node, status)
        # A label: a node made unschedulable would be given a taint by the controller manager.
        await api.merge(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"rack": "r7"}}})
        await found.ear.until(lambda: any(name == node for _, name in found.ear.told[before:]))
        told = [change for change, name in found.ear.told[before:] if name == node]
        assert told == ["changed"]
        assert found.reflector.objects["", node].metadata.labels["rack"] == "r7"


def _time(second: int) -> str:
    return f"2026-01-01T00:00:0{second}Z"


async def _patch_status(api: Api, node: str, status: Any) -> None:
    path = f"/api/v1/nodes/{node}/status"
    patch = "application/strategic-merge-patch+json"
    await api.call("PATCH", path, {"status": status}, content_type=patch)


async def test_a_pod_that_ends_is_gone_for_who_follows_the_unfinished(
    cluster: Cluster, api: Api, namespace: str
) -> None:
    scope = Scope[PodObject](namespace=namespace, query=UNFINISHED)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    spec = {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]}
    async with reflecting(cluster.files.kubeconfig, PODS, scope) as found:
        await api.create(pods, {"metadata": {"name": "p"}, "spec": spec})
        await found.ear.until(lambda: found.names == {"p"})
        ended = {"status": {"phase": "Succeeded"}}
        await api.call("PATCH", f"{pods}/p/status", ended, content_type=MERGE)
        await found.ear.until(lambda: not found.names)
        assert (await api.get(f"{pods}/p"))["status"]["phase"] == "Succeeded", "it is still there"


async def test_an_api_server_that_comes_back_is_followed_as_before(
    cluster: Cluster, api: Api
) -> None:
    async with reflecting(cluster.files.kubeconfig) as found:
        await found.ear.until(lambda: found.reflector.synced)
        known = set(found.names)
        await cluster.stop_api_server()
        await eventually(lambda: found.reflector.trouble is not None)
        assert found.names == known, "what is known stays"
        await cluster.start_api_server()
        await eventually(lambda: found.reflector.trouble is None)
        await api.create("/api/v1/nodes", {"metadata": {"name": "late"}})
        await found.ear.until(lambda: "late" in found.names)


async def test_a_token_that_is_not_accepted_any_more_is_read_again(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path
) -> None:
    """An account that was made anew: the old token is nobody's."""
    await service_account(api, namespace, "reader", [READ])
    token = tmp_path / "token"
    token.write_text((await account_access(cluster, namespace, "reader")).token)
    path = _kubeconfig(tmp_path, cluster.admin, token)
    async with reflecting(path) as found:
        await found.ear.until(lambda: found.reflector.synced)
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        await api.call("DELETE", f"{accounts}/reader")
        await cluster.stop_api_server()  # it keeps for a while whom it knew
        await cluster.start_api_server()
        await eventually(lambda: _is(found.reflector.trouble, 401))
        trouble = found.reflector.trouble
        assert trouble is not None
        assert "has it expired" in next_step(trouble)
        await api.create(accounts, {"metadata": {"name": "reader"}})
        token.write_text((await account_access(cluster, namespace, "reader")).token)
        await eventually(lambda: found.reflector.trouble is None)


def _is(trouble: Any, status: int) -> bool:
    return trouble is not None and trouble.status == status


def _kubeconfig(folder: Path, admin: Access, token: Path) -> Path:
    """Of a user whose token is in a file."""
    ca = base64.b64encode(admin.ca.read_bytes()).decode()
    path = folder / "kubeconfig"
    path.write_text(f"""
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: {admin.server}, certificate-authority-data: {ca}}}}}]
users: [{{name: u, user: {{tokenFile: {token}}}}}]
""")
    return path


async def test_a_master_without_rights_names_verb_and_resource_and_goes_on_once_it_has_them(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path
) -> None:
    await service_account(api, namespace, "master", [READ | {"resources": ["pods"]}])
    access = await account_access(cluster, namespace, "master")
    tree = tmp_path / "nodegroup.yaml"
    tree.write_text(config())
    path = access.kubeconfig(tmp_path / "kubeconfig")
    async with master_process(f"--config-file={tree}", f"--kubeconfig={path}") as master:
        warned: list[str] = []

        async def is_warned() -> bool:  # it shows what it knows meanwhile
            async with master.session.get(f"{master.url}/v1/topology") as answer:
                warnings = (await answer.json())["warnings"] if answer.status == 200 else []
            warned[:] = [each["text"] for each in warnings if each["code"] == "kubernetes-nodes"]
            return bool(warned)

        await eventually(is_warned)
        (text,) = warned
        assert 'cannot list resource "nodes"' in text
        assert f"system:serviceaccount:{namespace}:master" in text
        assert await master.status("/ready") == 503
        role = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{namespace}-master"
        await api.call("PATCH", role, {"rules": [READ]}, content_type=MERGE)
        await eventually(lambda: _answers(master, "/ready"))


async def _answers(master: Any, path: str) -> bool:
    return bool(await master.status(path) == 200)


async def test_a_reflector_of_what_is_not_installed_waits_for_it(cluster: Cluster) -> None:
    resource = type(NODES)("example.com/v1", "Thing", "things", NODES.model, namespaced=False)
    async with reflecting(cluster.files.kubeconfig, resource) as found:
        await eventually(lambda: found.reflector.trouble is not None)
        trouble = found.reflector.trouble
        assert trouble is not None
        assert trouble.failure is Failure.MISSING
        assert "a CRD" in next_step(trouble)
        assert not found.reflector.synced
        await asyncio.sleep(0)
