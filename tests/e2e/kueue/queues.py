"""Queues of Kueue as an administrator writes them, and what became of the workloads in them."""

from typing import Any

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.kueue import API, FLAVORS, GROUP, QUEUES, TOPOLOGIES, is_active
from tests.support.waiting import eventually

RENDERING = "kueue"
"""The rendering of the chart whose masters publish for Kueue."""
WRITES = "--controllers=labels,nomination,kueue-topologies,kueue-workloads"
GPU = "metax-tech.com/gpu"
FLAVOR = "supernode-switchbox-dragonfly"
PLAIN = "plain"
"""A flavor without a topology: Kueue keeps the quota alone."""
LOCAL_QUEUES = f"{API}/namespaces/default/localqueues"
WORKLOADS = f"{API}/namespaces/default/workloads"
QUEUE_NAME = f"{GROUP}/queue-name"


def cluster_queue(name: str, flavor: str, gpus: int, **spec: Any) -> Any:
    """A queue with so many GPUs of one flavor."""
    quota = {"name": GPU, "nominalQuota": gpus}
    group = {
        "coveredResources": [GPU],
        "flavors": [{"name": flavor, "resources": [quota]}],
    }
    whole = {"namespaceSelector": {}, "resourceGroups": [group], **spec}
    return _object("ClusterQueue", name, whole)


async def is_published(api: Api) -> bool:
    """Whether a master has published the topology that `FLAVOR` names."""
    return FLAVOR in {each["metadata"]["name"] for each in await api.items(TOPOLOGIES)}


async def open_queue(api: Api, name: str, flavor: str, gpus: int, **spec: Any) -> None:
    """Make a ClusterQueue, and a LocalQueue of its name; return when it admits."""
    await api.create(QUEUES, cluster_queue(name, flavor, gpus, **spec))
    await api.create(LOCAL_QUEUES, _object("LocalQueue", name, {"clusterQueue": name}))
    await eventually(lambda: is_active(api, name))


async def open_wide_queue(api: Api, name: str, flavor: str, gpus: int) -> None:
    """Make a queue with so many GPUs, and with all that pods without GPUs ask for."""
    amounts = {GPU: gpus, "cpu": 1000, "memory": "1000Gi"}  # of a RayJob's submitter, too
    quotas = [{"name": each, "nominalQuota": amount} for each, amount in amounts.items()]
    flavors = [{"name": flavor, "resources": quotas}]
    groups = [{"coveredResources": list(amounts), "flavors": flavors}]
    await open_queue(api, name, flavor, 0, resourceGroups=groups)


async def plain_flavor(api: Api) -> None:
    """Make the flavor of queues whose nodes Kueue does not choose."""
    await api.create(FLAVORS, flavor(PLAIN))


def flavor(name: str, **spec: Any) -> Any:
    """A flavor of somebody else."""
    return _object("ResourceFlavor", name, spec)


def _object(kind: str, name: str, spec: Any) -> Any:
    return {
        "apiVersion": f"{GROUP}/v1beta2",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def queued(job: Any, queue: str, **annotations: str) -> Any:
    """The job in a LocalQueue, as its user submits it."""
    job["metadata"].setdefault("labels", {})[QUEUE_NAME] = queue
    if annotations:
        job["metadata"].setdefault("annotations", {}).update(annotations)
    job["spec"]["suspend"] = True
    return job


async def conditions(api: Api, job: str) -> dict[str, str]:
    """The conditions of the workload of a job, by type; empty before there is one."""
    for each in await api.items(WORKLOADS):
        owners = each["metadata"].get("ownerReferences", ())
        if any(owner["name"] == job for owner in owners):
            found = each.get("status", {}).get("conditions", ())
            return {condition["type"]: condition["status"] for condition in found}
    return {}
