"""A control plane of so many nodes, and the command lines of masters with the chart's own rights.

The nodes are kwok's, made Ready and without a taint: what controllers would do first for each of
them is not what is measured.
"""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from bench import cluster as bench_cluster
from bench.processes import LOOPBACK
from bench.scale import CannotRunError
from tests.chaos.ports import own_ports
from tests.e2e.controlplane import nodes
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster, account_access
from tests.e2e.controlplane.core import Ports
from tests.helm.chart import ON, built_helm, objects, template
from topo.cli import worlds
from topo.sim.worlds.presets import SimNode, World

NAMESPACE = "metax-operator"
ACCOUNT = "topo-master"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
_AT_ONCE = 32
_LEASE_S = 3600
"""Of each node: kwok renews it four times meanwhile. A machine of two cores may lose nodes whose
leases are of minutes by being late, and then measures their coming and going."""
_NICE = shutil.which("nice") or "nice"
_YIELDING = 10
"""The niceness of the control plane, see nice(1). A cluster's API server, etcd and kubelets are not
on the machine of a master; where they run on its cores here, they take what it leaves."""


@dataclass(frozen=True, slots=True)
class Plane:
    """A control plane with its nodes; `world` says where each of them is."""

    cluster: Cluster
    api: Api
    world: World
    kubeconfig: Path
    """Of the masters' account."""

    @property
    def home(self) -> Path:
        """A folder for whoever works here."""
        return self.cluster.files.home

    def declare(self) -> None:
        """Writes the configuration file that says where all nodes are; masters read it at once."""
        beside = self._config.with_suffix(".new")
        beside.write_text(yaml.safe_dump(worlds.nodegroup(self.world)))
        beside.replace(self._config)

    @property
    def flags(self) -> tuple[str, ...]:
        """Of any master here."""
        return (
            "--mode=config",
            f"--config-file={self._config}",
            "--kubernetes=on",
            f"--kubeconfig={self.kubeconfig}",
        )

    def electing(self, name: str, ports: tuple[int, ...]) -> tuple[str, ...]:
        """Of one of several masters, which need ports that the others know."""
        token = self.home / "replica-token"
        token.write_text("bench-replica-token", encoding="utf-8")
        return (
            *self.flags,
            "--leader-elect=true",
            "--state-config-maps",
            f"--pod-name={name}",
            f"--pod-namespace={NAMESPACE}",
            f"--pod-ip={LOOPBACK}",
            f"--replica-token-file={token}",
            f"--server-port={ports[0]}",
            f"--rpc-server-port={ports[1]}",
        )

    def writes(self) -> list[str]:
        """What the masters have written, `resource/name` for each write that was not refused.

        Those count whose answer nobody was there to hear: the API server may have made them.
        """
        return [
            f"{call.resource}/{call.name}"
            for call in self.cluster.calls(f"{NAMESPACE}:{ACCOUNT}")
            if call.verb in _WRITES and call.resource in _WRITTEN
            if call.status not in _REFUSED
        ]

    @property
    def _config(self) -> Path:
        return self.home / "nodegroup.yaml"


_WRITES = {"create", "update", "patch", "delete"}
_REFUSED = range(400, 500)
_WRITTEN = {"nodes", "hypernodes"}


@asynccontextmanager
async def plane(
    count: int, *, volcano_configuration: str | None = None, pod_groups: bool = False
) -> AsyncIterator[Plane]:
    """The control plane, whose nodes are of no group yet; it ends with the block.

    Volcano is there where its scheduler is given a configuration. `pod_groups`: the gangs of
    Kubernetes are on.
    """
    world = worlds.chosen(bench_cluster.world_name(count))
    with tempfile.TemporaryDirectory() as folder, own_ports() as ports:
        cluster = Cluster(
            Path(folder),
            Ports(*ports),
            volcano_configuration=volcano_configuration,
            lease_s=_LEASE_S,
            pod_groups=pod_groups,
        )
        cluster.api_server.argv += ("--disable-admission-plugins=TaintNodesByCondition",)
        for program in cluster.programs:
            program.argv = (_NICE, "-n", str(_YIELDING), *program.argv)
        try:
            await cluster.start()
            async with cluster.api() as api:
                await _create_nodes(api, world)
                kubeconfig = await _account(cluster, api)
                yield Plane(cluster, api, world, kubeconfig)
        finally:
            cluster.stop()


async def _create_nodes(api: Api, world: World) -> None:
    room = asyncio.Semaphore(_AT_ONCE)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    async def create(host: SimNode) -> None:
        async with room:
            made = await api.create(nodes.NODES, _ready(nodes.node_object(host), now))
        if not nodes.is_usable(made):
            raise CannotRunError(f"{host.name} was made, and is not Ready or bears a taint")

    async with asyncio.TaskGroup() as group:
        for host in world.nodes:
            group.create_task(create(host))


def _ready(node: Any, now: str) -> Any:
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    return {**node, "status": {**node["status"], "conditions": [{**ready, **times}]}}


async def _account(cluster: Cluster, api: Api) -> Path:
    """The kubeconfig of an account with the chart's rights and no others."""
    await api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    for each in objects(template(built_helm(), *ON).stdout):
        if each["kind"] in _RIGHTS:
            await api.create(_collection(each), each)
    access = await account_access(cluster, NAMESPACE, ACCOUNT)
    return access.kubeconfig(cluster.files.home / "master.kubeconfig")


_RIGHTS = {
    "ServiceAccount": "/api/v1",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1",
    "Role": "/apis/rbac.authorization.k8s.io/v1",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1",
}


def _collection(each: Any) -> str:
    base, plural = _RIGHTS[each["kind"]], each["kind"].lower() + "s"
    namespace = each["metadata"].get("namespace")
    return f"{base}/namespaces/{namespace}/{plural}" if namespace else f"{base}/{plural}"
