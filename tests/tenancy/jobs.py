"""Jobs of each kind as their users write them, and their pods as controllers and webhook make them.

The webhook is the real one: what it stamps is not written down here a second time.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from master.admission.reviews import review
from tests.admission.asking import asked, response
from tests.gangs.admission.patching import RULES, WORDS, batch, patched, task, volcano
from topo.gangs.admission.outcome import Rules
from topo.gangs.annotation_keys import COMPLETION_INDEX, POD_GROUP, TASK_INDEX

Document = dict[str, Any]
_LWS = "leaderworkerset.sigs.k8s.io"
_JOB_SET = "jobset.sigs.k8s.io"


@dataclass(kw_only=True)
class UserJob:
    """A job, and its pods by name: rank, and the document that its controller creates.

    `group_pods` is 0 for a job that asks for no groups. `objects`: what is there beside the pods,
    as (apiVersion, plural, name, document).
    """

    namespace: str
    name: str
    uid: str
    gpus: int
    group_pods: int
    is_elastic: bool = False
    is_required: bool = True
    is_admitted: bool = True
    """Whether the webhook sees its pods; without one its scheduler asks the extender."""
    pods: dict[str, tuple[int, Document]] = field(default_factory=dict)
    objects: list[tuple[str, str, str, Document]] = field(default_factory=list)
    make: Callable[[Document, int], Document] | None = None
    """Makes the pod of a rank as the job's object says now; None for one of a fixed size."""


def reviewed(document: Mapping[str, Any], rules: Rules = RULES) -> Document:
    """The object as the webhook leaves it."""
    found = response(review(asked(document), rules, "warn").answer)
    return patched(document, found.get("patch", ()))


def admitted_pod(pod: Mapping[str, Any]) -> Document:
    """The pod as the API server stores it."""
    return reviewed({"apiVersion": "v1", "kind": "Pod", **pod})


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What a user asks for: pods of so many GPUs, in groups of `group_pods` pods, 0 for none."""

    namespace: str
    name: str
    pods: int
    gpus: int = 8
    group_pods: int = 2
    mode: str = "required"

    @property
    def size(self) -> str | None:
        return str(self.group_pods * self.gpus) if self.group_pods else None

    @property
    def uid(self) -> str:
        return f"uid-of-{self.namespace}-{self.name}"

    def job(self, **more: Any) -> UserJob:
        return UserJob(
            namespace=self.namespace,
            name=self.name,
            uid=self.uid,
            gpus=self.gpus,
            group_pods=self.group_pods,
            is_required=self.mode == "required",
            **more,
        )


def batch_job(wish: Wish) -> UserJob:
    """An Indexed Job."""
    made = wish.job()
    document = _named(batch(wish.pods, wish.gpus, wish.size), wish)
    made.objects.append(("batch/v1", "jobs", wish.name, document))
    owner = _owner(document)

    def make(job: Document, rank: int) -> Document:
        index = {COMPLETION_INDEX: str(rank)}
        return _pod(job["spec"]["template"], wish, rank, owner, labels=index, annotations=index)

    made.make = make
    for rank in range(wish.pods):
        _add(made, rank, make(document, rank))
    return made


def unstamped_job(wish: Wish) -> UserJob:
    """An Indexed Job where no webhook is: its pods say what their templates say."""
    made = wish.job(is_admitted=False)
    document = batch(wish.pods, wish.gpus, wish.size)
    document["metadata"] |= {"name": wish.name, "namespace": wish.namespace, "uid": wish.uid}
    made.objects.append(("batch/v1", "jobs", wish.name, document))
    for rank in range(wish.pods):
        index = {COMPLETION_INDEX: str(rank)}
        template = document["spec"]["template"]
        pod = _pod(template, wish, rank, _owner(document), labels=index, annotations=index)
        _add(made, rank, pod)
    return made


def volcano_job(wish: Wish) -> UserJob:
    """A job of Volcano with a driver without GPUs, and its PodGroup, which Volcano has let in."""
    made = wish.job()
    workers = task("worker", wish.pods, wish.gpus, **_size(wish))
    document = _named(volcano(task("driver", 1, None), workers, schedulerName="volcano"), wish)
    group = f"{wish.name}-{wish.uid}"
    spec = {"minMember": wish.pods, "queue": "default"}
    made.objects += [
        ("batch.volcano.sh/v1alpha1", "jobs", wish.name, document),
        (
            "scheduling.volcano.sh/v1beta1",
            "podgroups",
            group,
            {"spec": spec, "status": {"phase": "Inqueue"}},
        ),
    ]

    def make(job: Document, rank: int) -> Document:
        template = job["spec"]["tasks"][1]["template"]
        annotations = {TASK_INDEX: str(rank), POD_GROUP: group, "volcano.sh/task-spec": "worker"}
        pod = _pod(template, wish, rank, _owner(document), annotations=annotations)
        pod["spec"]["schedulerName"] = "volcano"
        return pod

    made.make = make
    for rank in range(wish.pods):
        _add(made, rank, make(document, rank))
    return made


def unlike_job(wish: Wish) -> UserJob:
    """A job of Volcano whose two tasks select nodes of different disks, a pair of each group."""
    made = wish.job()
    half = wish.pods // 2
    tasks = []
    for name, disk in (("big", "large"), ("rest", "")):
        each = task(name, half if name == "big" else wish.pods - half, wish.gpus, **_size(wish))
        if disk:
            each["template"]["spec"]["nodeSelector"] = {"disk": disk}
        tasks.append(each)
    document = _named(volcano(*tasks, schedulerName="volcano"), wish)
    group = f"{wish.name}-{wish.uid}"
    spec = {"minMember": wish.pods, "queue": "default"}
    made.objects += [
        ("batch.volcano.sh/v1alpha1", "jobs", wish.name, document),
        (
            "scheduling.volcano.sh/v1beta1",
            "podgroups",
            group,
            {"spec": spec, "status": {"phase": "Inqueue"}},
        ),
    ]
    rank = 0
    for each in document["spec"]["tasks"]:
        for index in range(each["replicas"]):
            annotations = {TASK_INDEX: str(index), POD_GROUP: group}
            annotations["volcano.sh/task-spec"] = each["name"]
            pod = _pod(each["template"], wish, rank, _owner(document), annotations=annotations)
            pod["spec"]["schedulerName"] = "volcano"
            _add(made, rank, pod)
            rank += 1
    return made


def job_set(wish: Wish) -> UserJob:
    """A JobSet of one Job; the Job controls the pods."""
    made = wish.job()
    spec = batch(wish.pods, wish.gpus, None)["spec"]
    document = _named(
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": wish.name, "annotations": _asked(wish)},
            "spec": {
                "replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": spec}}]
            },
        },
        wish,
    )
    template = document["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    name = f"{wish.name}-workers-0"
    job = {"apiVersion": "batch/v1", "kind": "Job"}
    job["metadata"] = {"name": name, "uid": f"{wish.uid}-job"}  # type: ignore[assignment]
    made.objects += [
        ("jobset.x-k8s.io/v1alpha2", "jobsets", wish.name, document),
        ("batch/v1", "jobs", name, job),
    ]

    def make(_job_set: Document, rank: int) -> Document:
        index = {COMPLETION_INDEX: str(rank)}
        labels = {
            **index,
            f"{_JOB_SET}/jobset-name": wish.name,
            f"{_JOB_SET}/jobset-uid": wish.uid,
            f"{_JOB_SET}/restart-attempt": "0",
            f"{_JOB_SET}/job-index": "0",
        }
        return _pod(template, wish, rank, _owner(job), labels=labels, annotations=index)

    made.make = make
    for rank in range(wish.pods):
        _add(made, rank, make(document, rank))
    return made


def leader_worker_set(wish: Wish) -> UserJob:
    """A LeaderWorkerSet of one group, whose pods StatefulSets control."""
    made = wish.job()
    template = task("", 0, wish.gpus)["template"]
    document = _named(
        {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": wish.name, "annotations": _asked(wish)},
            "spec": {
                "replicas": 1,
                "leaderWorkerTemplate": {"size": wish.pods, "workerTemplate": template},
            },
        },
        wish,
    )
    template = document["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    sets = {"apiVersion": "apps/v1", "kind": "StatefulSet"}
    sets["metadata"] = {"name": wish.name, "uid": f"{wish.uid}-set"}  # type: ignore[assignment]
    made.objects += [
        ("leaderworkerset.x-k8s.io/v1", "leaderworkersets", wish.name, document),
        ("apps/v1", "statefulsets", wish.name, sets),
    ]
    for rank in range(wish.pods):
        labels = {
            f"{_LWS}/name": wish.name,
            f"{_LWS}/group-index": "0",
            f"{_LWS}/template-revision-hash": "r1",
            f"{_LWS}/worker-index": str(rank),
            f"{_LWS}/group-key": f"key-{wish.name}",
        }
        _add(made, rank, _pod(template, wish, rank, _owner(sets), labels=labels))
    return made


def plain_pods(wish: Wish) -> UserJob:
    """Pods without a job that name their gang."""
    made = wish.job()
    template = task("", 0, wish.gpus)["template"]
    for rank in range(wish.pods):
        annotations = {
            **_asked(wish),
            WORDS.gang_name: wish.name,
            WORDS.pods: str(wish.pods),
            WORDS.rank: str(rank),
        }
        _add(made, rank, _pod(template, wish, rank, None, annotations=annotations))
    return made


def deployment(wish: Wish) -> UserJob:
    """A Deployment; its ReplicaSet controls the pods, which have no ranks."""
    made = wish.job(is_elastic=True)
    template = task("", 0, wish.gpus)["template"]
    document = _named(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": wish.name, "annotations": _asked(wish)},
            "spec": {"replicas": wish.pods, "template": template},
        },
        wish,
    )
    sets = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
    sets["metadata"] = {"name": f"{wish.name}-5d8f", "uid": f"{wish.uid}-rs"}  # type: ignore[assignment]
    made.objects += [
        ("apps/v1", "deployments", wish.name, document),
        ("apps/v1", "replicasets", f"{wish.name}-5d8f", sets),
    ]
    for rank in range(wish.pods):
        labels = {"pod-template-hash": "5d8f"}
        pod = _pod(document["spec"]["template"], wish, rank, _owner(sets), labels=labels)
        _add(made, rank, pod)
    return made


KINDS: Mapping[str, Callable[[Wish], UserJob]] = {
    "batch": batch_job,
    "volcano": volcano_job,
    "unlike": unlike_job,
    "jobset": job_set,
    "leaderworkerset": leader_worker_set,
    "plain": plain_pods,
    "deployment": deployment,
}


def _asked(wish: Wish) -> dict[str, str]:
    if wish.size is None:
        return {}
    return {WORDS.size: wish.size, WORDS.mode: wish.mode}


def _size(wish: Wish) -> dict[str, str]:
    found = {"gpu_group_size": wish.size, "gpu_group_mode": wish.mode}
    return {key: value for key, value in found.items() if value is not None and wish.size}


def _named(document: Document, wish: Wish) -> Document:
    """The job as the webhook stamps it and the API server stores it."""
    metadata = document["metadata"]
    metadata |= {"name": wish.name, "namespace": wish.namespace}
    found = reviewed(document)
    found["metadata"]["uid"] = wish.uid
    return found


def _owner(document: Mapping[str, Any]) -> Document:
    metadata = document["metadata"]
    return {
        "apiVersion": document["apiVersion"],
        "kind": document["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }


def _pod(
    template: Mapping[str, Any],
    wish: Wish,
    rank: int,
    owner: Document | None,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Document:
    """A pod as a controller asks for it."""
    made: Document = copy.deepcopy(dict(template))
    metadata = made.setdefault("metadata", {})
    metadata |= {"name": f"{wish.name}-{rank}", "namespace": wish.namespace}
    metadata["labels"] = {**metadata.get("labels", {}), **(labels or {})}
    metadata["annotations"] = {**metadata.get("annotations", {}), **(annotations or {})}
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    made["spec"]["containers"][0]["name"] = "main"
    return made


def _add(made: UserJob, rank: int, pod: Document) -> None:
    made.pods[pod["metadata"]["name"]] = (rank, pod)
