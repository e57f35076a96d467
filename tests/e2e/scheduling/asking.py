"""Jobs as a user writes them: nothing of ours on them but what he asks for."""

from typing import Any

from tests.e2e.controlplane.client import Api
from tests.e2e.scheduling.jobs import GPU, PODS, WORDS, owner_of


def volcano_job(
    name: str, pods: int, size: int | None = None, *, gpus: int = 8, **annotations: str
) -> Any:
    """A master and workers as in the vendor's sample, in groups of `size` GPUs if there is one."""
    tasks = [{"name": "master", "replicas": 1, "template": _template(size, gpus, annotations)}]
    if pods > 1:
        tasks.append({"name": "worker", "replicas": pods - 1, "template": _template(None, gpus)})
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"schedulerName": "volcano", "minAvailable": pods, "tasks": tasks},
    }


def batch_job(
    name: str, pods: int, size: int | None = None, *, gpus: int = 8, **annotations: str
) -> Any:
    """An Indexed Job of kube-scheduler, in groups of `size` GPUs if there is one."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completions": pods,
            "parallelism": pods,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "template": _template(size, gpus, annotations),
        },
    }


def _template(size: int | None, gpus: int, annotations: dict[str, str] | None = None) -> Any:
    asked = {} if size is None else {WORDS.size: str(size), **(annotations or {})}
    resources = {"limits": {GPU: gpus}}
    container = {"name": "main", "image": "alpine:3.19", "resources": resources}
    return {
        "metadata": {"annotations": asked},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


def rank_of(pod: Any) -> int:
    """The rank of a pod of such a job, read without anything that is ours."""
    annotations = pod["metadata"].get("annotations", {})
    index = annotations.get("batch.kubernetes.io/job-completion-index")
    if index is not None:
        return int(index)
    offset = 0 if annotations.get("volcano.sh/task-spec") == "master" else 1
    return offset + int(annotations.get("volcano.sh/task-index", "0"))


async def nodes_of(api: Api, job: str) -> list[str]:
    """Where the pods of a job are bound, by rank; empty for one that is not."""
    pods = [pod for pod in await api.items(PODS) if owner_of(pod) == job]
    return [pod["spec"].get("nodeName", "") for pod in sorted(pods, key=rank_of)]
