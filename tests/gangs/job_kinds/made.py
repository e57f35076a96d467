"""Jobs of many kinds, and the pods that their controllers would make of them."""

from collections.abc import Mapping
from typing import Any

from master.admission.reviews import review
from tests.admission.asking import asked, response
from tests.gangs.admission.patching import DOMAIN, RULES, patched
from topo.gangs.job_kinds.job_kind import JobKind
from topo.gangs.job_kinds.job_set import JOB_SET
from topo.gangs.job_kinds.leader_worker_set import LEADER_WORKER_SET
from topo.gangs.job_kinds.ray_cluster import RAY_CLUSTER
from topo.gangs.job_kinds.stateful_set import STATEFUL_SET


def pod_template(gpus: int = 8, **annotations: str) -> dict[str, Any]:
    """A template of pods with so many GPUs each."""
    marked = {f"{DOMAIN}/{key.replace('_', '-')}": value for key, value in annotations.items()}
    limits = {f"{DOMAIN}/gpu": str(gpus)} if gpus else {}
    container = {"name": "main", "image": "alpine:3.19", "resources": {"limits": limits}}
    return {"metadata": {"annotations": marked}, "spec": {"containers": [container]}}


def job(kind: JobKind, spec: Mapping[str, Any], **annotations: str) -> dict[str, Any]:
    """A job of a kind."""
    marked = {f"{DOMAIN}/{key.replace('_', '-')}": value for key, value in annotations.items()}
    metadata = {"name": "train", "namespace": "default", "annotations": marked}
    found = {"apiVersion": kind.api_version, "kind": kind.kind}
    return {**found, "metadata": metadata, "spec": dict(spec)}


def replicated(name: str, replicas: int, pods: int, gpus: int = 8, **more: Any) -> dict[str, Any]:
    """A replicated job of a JobSet."""
    spec = {"parallelism": pods, "completions": pods, "template": pod_template(gpus)}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


def job_set(*jobs: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    """A JobSet that asks for pairs of nodes of 8 GPUs."""
    return job(JOB_SET, {"replicatedJobs": list(jobs), **spec}, gpu_group_size="16")


def leader_worker_set(size: int, *, leader_gpus: int | None = None, **spec: Any) -> dict[str, Any]:
    """A LeaderWorkerSet that asks for pairs, with a template for its leader if that has GPUs."""
    template: dict[str, Any] = {"size": size, "workerTemplate": pod_template()}
    if leader_gpus is not None:
        template["leaderTemplate"] = pod_template(leader_gpus)
    spec = {"replicas": 2, "leaderWorkerTemplate": template, **spec}
    return job(LEADER_WORKER_SET, spec, gpu_group_size="16")


def stateful_set(replicas: int, **spec: Any) -> dict[str, Any]:
    """A StatefulSet that asks for pairs."""
    spec = {"replicas": replicas, "template": pod_template(), **spec}
    return job(STATEFUL_SET, spec, gpu_group_size="16")


def admitted(found: Mapping[str, Any]) -> dict[str, Any]:
    """The job as its admission leaves it."""
    answer = response(review(asked(found), RULES, "warn").answer)
    return patched(found, answer.get("patch", ()))


def warnings(found: Mapping[str, Any]) -> str:
    """What its user is told at admission."""
    answer = response(review(asked(found), RULES, "warn").answer)
    return "\n".join(answer.get("warnings", ()))


def pod(template: Mapping[str, Any], labels: Mapping[str, str], owner: Any) -> dict[str, Any]:
    """A pod of a template, with the labels and the owner that its controller gives it."""
    metadata = {
        "name": "pod",
        "namespace": "default",
        "annotations": dict(template["metadata"]["annotations"]),
        "labels": dict(labels),
        "ownerReferences": [{"controller": True, "uid": "u", "name": "n", **owner}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def ray_cluster(*workers: tuple[int, int], head_gpus: int = 0, **group: Any) -> dict[str, Any]:
    """A RayCluster with groups of (replicas, hosts of each) that asks for pairs."""
    groups = [
        {"groupName": f"g{at}", "replicas": replicas, "numOfHosts": hosts} | group
        for at, (replicas, hosts) in enumerate(workers)
    ]
    head = {"template": pod_template(head_gpus)}
    found = [{**each, "template": pod_template()} for each in groups]
    spec = {"headGroupSpec": head, "workerGroupSpecs": found}
    return job(RAY_CLUSTER, spec, gpu_group_size="16")


def roles(kind: JobKind, specs: str, **replicas: int) -> dict[str, Any]:
    """A job of the Training Operator with so many replicas of each role, all of 8 GPUs."""
    found = {
        name: {"replicas": each, "template": pod_template()} for name, each in replicas.items()
    }
    return job(kind, {specs: found}, gpu_group_size="16")


def plain_pod(labels: Mapping[str, str] | None = None, **annotations: str) -> dict[str, Any]:
    """A pod without an owner."""
    template = pod_template(8, **annotations)
    metadata = {"name": "pod", "namespace": "default", "labels": dict(labels or {})}
    metadata |= template["metadata"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
