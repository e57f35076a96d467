"""The kubelet and the proxy of the harness: a pod is a process that sees what its spec says."""

import os
import signal
from pathlib import Path
from typing import Any

from aiohttp import ClientError, ClientSession

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.kubelet import Kubelet
from tests.support.processes import gone
from tests.support.waiting import eventually

NODEGROUP = """
group:
  - name: dragonfly-1
    kind: dragonfly
    child:
      - {name: node-sample1, kind: node}
      - {name: node-sample2, kind: node}
"""
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
SLEEP = ["sleep", "1000"]
SHOW = f"cat /secret/password /etc/hosts {ACCOUNT}/namespace; env"


async def test_a_pod_of_a_master_is_ready_and_answers_through_its_service(
    api: Api, real_namespace: str, kubelet: Kubelet
) -> None:
    base = f"/api/v1/namespaces/{real_namespace}"
    config = {"metadata": {"name": "config"}, "data": {"nodegroup.yaml": NODEGROUP}}
    await api.create(f"{base}/configmaps", config)
    await api.create(f"{base}/services", _service())
    await api.create(f"{base}/pods", _master())
    url = f"http://{await _address(api, base)}:9001/node_group"
    async with ClientSession() as session:
        await eventually(lambda: _answers(session, url))
        async with session.get(url) as answer:
            (root,) = await answer.json()
    assert root["name"] == "dragonfly-1"
    pod = await api.get(f"{base}/pods/master")
    assert pod["status"]["phase"] == "Running"
    (pid,) = kubelet.pod("master").pids
    await api.delete(f"{base}/pods/master")
    await gone(pid)
    await eventually(lambda: _is_empty(api, f"{base}/pods"))


async def test_a_container_sees_its_mounts_its_token_its_variables_and_the_names_of_services(
    api: Api, real_namespace: str, kubelet: Kubelet
) -> None:
    base = f"/api/v1/namespaces/{real_namespace}"
    await api.create(
        f"{base}/secrets", {"metadata": {"name": "account"}, "stringData": {"password": "open\n"}}
    )
    await api.create(f"{base}/services", _service())
    await api.create(f"{base}/pods", _shower())
    await eventually(lambda: _has_phase(api, f"{base}/pods/shower", "Succeeded"))
    lines = kubelet.pod("shower").log.splitlines()
    assert lines[0] == "open"
    assert f"{await _address(api, base)} master" in "\n".join(lines)
    assert any(line.startswith(f"{real_namespace}") for line in lines)
    assert f"WHERE=shower in {real_namespace}" in lines


async def test_a_container_that_dies_is_started_again(
    api: Api, real_namespace: str, kubelet: Kubelet
) -> None:
    base = f"/api/v1/namespaces/{real_namespace}"
    await api.create(f"{base}/pods", _pod("sleeper", {"command": SLEEP}))
    (pid,) = await _pids(kubelet, "sleeper", 1)
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: _restarted(api, f"{base}/pods/sleeper"))
    assert (await api.get(f"{base}/pods/sleeper"))["status"]["phase"] == "Running"


async def test_a_pod_that_must_end_is_not_started_again(
    api: Api, real_namespace: str, kubelet: Kubelet
) -> None:
    """One of its containers ends when it is asked, the other when it is killed."""
    path = f"/api/v1/namespaces/{real_namespace}/pods"
    await api.create(path, _pod("pair", _stubborn(), {"name": "polite", "command": SLEEP}))
    polite, stubborn = await _pids(kubelet, "pair", 2)
    pod = kubelet.pod("pair")
    await api.delete(f"{path}/pair")
    await gone(polite)
    os.kill(stubborn, signal.SIGKILL)
    await eventually(lambda: _is_empty(api, path))
    assert pod.restarts == 0


async def test_a_pod_may_be_deleted_once_more_while_it_ends(
    api: Api, real_namespace: str, kubelet: Kubelet
) -> None:
    """Its processes end at once, and another pod of its name stays."""
    path = f"/api/v1/namespaces/{real_namespace}/pods"
    await api.create(path, _pod("twice", _stubborn()))
    (pid,) = await _pids(kubelet, "twice", 1)
    await api.delete(f"{path}/twice")
    assert "deletionTimestamp" in (await api.get(f"{path}/twice"))["metadata"]
    await api.delete(f"{path}/twice", grace_s=0)
    await gone(pid)
    await api.create(path, _pod("twice", _stubborn()))
    await _pids(kubelet, "twice", 1)
    await eventually(lambda: _has_phase(api, f"{path}/twice", "Running"))
    assert kubelet.failures == []


async def test_what_became_of_a_pod_while_the_api_server_was_away_is_told_once_it_is_back(
    cluster: Cluster, api: Api, real_namespace: str, kubelet: Kubelet
) -> None:
    path = f"/api/v1/namespaces/{real_namespace}/pods"
    await api.create(path, _pod("sleeper", {"command": SLEEP}))
    (pid,) = await _pids(kubelet, "sleeper", 1)
    await cluster.stop_api_server()
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: kubelet.pod("sleeper").restarts == 1)
    await cluster.start_api_server()
    await eventually(lambda: _restarted(api, f"{path}/sleeper"))
    assert kubelet.failures == []


async def _pids(kubelet: Kubelet, name: str, count: int) -> list[int]:
    """The numbers of the processes of a pod, in the order of its containers, once they run."""
    found: list[int] = []

    def run() -> bool:
        found[:] = [pid for pod in kubelet.pods(name) for pid in pod.pids if _sleeps(pid)]
        return len(found) == count

    await eventually(run)
    return found


def _sleeps(pid: int) -> bool:
    """Whether the process has become the program of its container, and has not ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text() == "sleep\n"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _stubborn() -> Any:
    """A container that does not end when it is asked."""
    return {"command": ["sh", "-c", "trap '' TERM; exec sleep 1000"]}


def _pod(name: str, container: Any, *beside: Any, **spec: Any) -> Any:
    labels = {"app": name}
    shown = [{"image": name, **each} for each in (*beside, {"name": "main", **container})]
    return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": shown, **spec}}


def _master() -> Any:
    probe = {"httpGet": {"path": "/ready", "port": "api"}}
    container = {
        "command": ["topo-master"],
        "args": [
            "--mode=config",
            "--server-port=9001",
            "--rpc-server-port=10001",
            "--kubernetes=off",
        ],
        "ports": [{"name": "api", "containerPort": 9001}],
        "readinessProbe": probe,
        "volumeMounts": [{"name": "config", "mountPath": "/config"}],
    }
    return _pod("master", container, volumes=[{"name": "config", "configMap": {"name": "config"}}])


def _shower() -> Any:
    fields = {"NAME": "metadata.name", "SPACE": "metadata.namespace"}
    variables = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in fields.items()
    ]
    container = {
        "command": ["sh", "-c", SHOW],
        "env": [*variables, {"name": "WHERE", "value": "$(NAME) in $(SPACE)"}],
        "volumeMounts": [{"name": "account", "mountPath": "/secret"}],
    }
    volumes = [{"name": "account", "secret": {"secretName": "account"}}]
    return _pod("shower", container, volumes=volumes, restartPolicy="Never")


def _service() -> Any:
    ports = [{"name": "api", "port": 9001, "targetPort": "api"}]
    return {"metadata": {"name": "master"}, "spec": {"selector": {"app": "master"}, "ports": ports}}


async def _address(api: Api, base: str) -> str:
    return str((await api.get(f"{base}/services/master"))["spec"]["clusterIP"])


async def _answers(session: ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as answer:
            return answer.status == 200
    except ClientError:
        return False


async def _is_empty(api: Api, path: str) -> bool:
    return not await api.items(path)


async def _has_phase(api: Api, path: str, phase: str) -> bool:
    return bool((await api.get(path))["status"]["phase"] == phase)


async def _restarted(api: Api, path: str) -> bool:
    statuses = (await api.get(path))["status"].get("containerStatuses", ())
    return any(status["restartCount"] == 1 for status in statuses)
