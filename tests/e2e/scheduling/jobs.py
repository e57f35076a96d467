"""Jobs as the admission webhook leaves them, and what becomes of their pods."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.e2e.controlplane.client import Api
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.stamp import Stamp
from topo.sim.worlds.presets import World

WORDS = AnnotationKeys("metax-tech.com")
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
BATCH_JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
GPU = "metax-tech.com/gpu"
GATE = {"name": WORDS.gate}


def template(stamp: Stamp, size: int, gpus: int = 8, **annotations: str) -> dict[str, Any]:
    """A pod template with gate and stamp, as a webhook that sees it would leave it."""
    container = {
        "name": "main",
        "image": "alpine:3.19",
        "resources": {"requests": {GPU: gpus}, "limits": {GPU: gpus}},
    }
    return {
        "metadata": {
            "annotations": {WORDS.size: str(size), **stamp.annotations(WORDS), **annotations}
        },
        "spec": {"schedulingGates": [GATE], "restartPolicy": "Never", "containers": [container]},
    }


def volcano_job(name: str, pods: int, size: int, *, gpus: int = 8, **annotations: str) -> Any:
    """A master and workers, as in the vendor's sample."""
    k = size // gpus

    def task(task_name: str, offset: int, replicas: int) -> dict[str, Any]:
        made = template(Stamp(pods, offset, k), size, gpus, **annotations)
        return {"name": task_name, "replicas": replicas, "template": made}

    tasks = [task("master", 0, 1)]
    if pods > 1:
        tasks.append(task("worker", 1, pods - 1))
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"schedulerName": "volcano", "minAvailable": pods, "tasks": tasks},
    }


def is_reviewed(job: Any) -> bool:
    """Return whether a master reviewed the job: its stamp, or why it gets none, is on it."""
    return any(key in str(job) for key in (WORDS.pods, WORDS.ungrouped))


def taker(name: str, node: str, gpus: int = 8) -> Any:
    """A pod of somebody else's that is bound to a node already."""
    resources = {"requests": {GPU: gpus}, "limits": {GPU: gpus}}
    return {
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "image": "alpine:3.19", "resources": resources}],
        },
    }


@dataclass(frozen=True, slots=True)
class Seen:
    """A pod of a gang: rank, node where it is bound, node that its note names."""

    name: str
    rank: int
    node: str
    planned: str
    gated: bool


async def pods_of(api: Api, job: str) -> list[Seen]:
    """The pods of a job by rank."""
    found = [_seen(pod) for pod in await api.items(PODS) if owner_of(pod) == job]
    return sorted(found, key=lambda each: each.rank)


async def bound(api: Api, job: str, pods: int) -> bool:
    """Whether so many pods of the job are bound."""
    return sum(1 for each in await pods_of(api, job) if each.node) == pods


async def events_of(api: Api, job: str) -> dict[str, str]:
    """What is told of a job: the sentence by reason."""
    found = await api.items("/apis/events.k8s.io/v1/namespaces/default/events")
    return {
        each["reason"]: each.get("note", "")
        for each in found
        if each.get("regarding", {}).get("name") == job
    }


async def gang_labels(api: Api) -> dict[str, set[str]]:
    """Nodes by label of a gang."""
    labels: dict[str, set[str]] = {}
    for node in await api.items(NODES):
        for label in node["metadata"].get("labels", {}):
            if label.startswith("gang."):
                labels.setdefault(label, set()).add(node["metadata"]["name"])
    return labels


def homes(world: World, kind: str) -> Mapping[str, str]:
    """The group of a kind that each node is in."""
    return {str(host.name): str(getattr(host, kind)) for host in world.nodes}


def are_whole(world: World, kind: str, nodes: Sequence[str], pods_per_group: int) -> bool:
    """Whether every group of so many pods, in the order of ranks, is in one group of the kind."""
    home = homes(world, kind)
    groups = [nodes[at : at + pods_per_group] for at in range(0, len(nodes), pods_per_group)]
    return all(len({home[node] for node in group}) == 1 for group in groups)


def are_as_planned(found: Sequence[Seen], pods_per_group: int) -> bool:
    """Whether every group of so many pods has the nodes that are planned for it.

    kube-scheduler binds pods one by one, and hears of pods and of labels of nodes on two streams:
    it may give a pod the node of a sibling, which the selector of their group allows.
    """
    groups = [found[at : at + pods_per_group] for at in range(0, len(found), pods_per_group)]
    return all(
        sorted(each.node for each in group) == sorted(each.planned for each in group)
        for group in groups
    )


def owner_of(pod: Any) -> str:
    """The name of the job that made a pod."""
    owners = pod["metadata"].get("ownerReferences", ())
    return next((each["name"] for each in owners if each.get("controller")), "")


def _seen(pod: Any) -> Seen:
    annotations = pod["metadata"].get("annotations", {})
    index = annotations.get("volcano.sh/task-index") or annotations.get(
        "batch.kubernetes.io/job-completion-index", "0"
    )
    note = json.loads(annotations.get(WORDS.placement, "{}"))
    gates = [each["name"] for each in pod["spec"].get("schedulingGates", ())]
    return Seen(
        name=pod["metadata"]["name"],
        rank=int(annotations.get(WORDS.rank_offset, "0")) + int(index),
        node=pod["spec"].get("nodeName", ""),
        planned=note.get("node", ""),
        gated=WORDS.gate in gates,
    )
