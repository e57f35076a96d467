"""The table of kinds of jobs as their users write them: a job of eight pairs, and how it is judged.

Ranks are read from what the controllers themselves write on their pods, so that a pair is judged by
nothing that is ours. Kinds without ranks are judged by the groups of our notes.
"""

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.scheduling.asking import rank_of
from tests.e2e.scheduling.jobs import GPU, PODS, WORDS, homes
from topo.sim.worlds.presets import World

FOLDER = Path(__file__).parents[3] / "examples" / "jobs"
ALL = 16
"""Pods of a job: it takes all nodes."""
NAME = "train"
SWITCHBOX_LABEL = "metax-tech.com/switchbox"
Pod = Any


def example(name: str) -> Any:
    """The job of an example."""
    return yaml.safe_load(Path(FOLDER / f"{name}.yaml").read_text())


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: where its jobs are, what one is, how it is scaled, and the rank of a pod.

    `program` is the name of its controller's, empty where the test makes the pods itself. `scaled`
    returns the merge patch of the job as its user wrote it for so many pods, at least `least`; None
    where the kind does not scale while it runs. A `job` that is a list is of pods that nobody makes
    again. `made_at`: where the objects are that its controller makes of it and the webhook patches.
    `part`: the part of the job that a pod is of, each in a switchbox of its own.
    """

    name: str
    path: str
    job: Callable[[], Any]
    program: str
    scaled: Callable[[Any, int], Any] | None = None
    rank: Callable[[Pod], int] | None = None
    least: int = 12
    made_at: str = ""
    part: Callable[[Pod], int] | None = None


def _label(name: str) -> Callable[[Pod], int]:
    return lambda pod: int(pod["metadata"]["labels"][name])


def _job() -> Any:
    job = example("kube-indexed-job")
    job["metadata"]["name"] = NAME
    job["spec"] |= {"completions": ALL, "parallelism": ALL}
    return job


def _volcano_job() -> Any:
    job = example("volcano-pytorch")
    job["metadata"]["name"] = NAME
    job["spec"].pop("minAvailable", None)
    job["spec"]["tasks"][1]["replicas"] = ALL - 1
    for task in job["spec"]["tasks"]:
        task["maxRetry"] = 3  # filled in by Volcano, which lets it not be taken away
    return job


def _scaled_tasks(job: Any, pods: int) -> Any:
    master, workers = job["spec"]["tasks"]
    workers |= {"replicas": pods - 1, "minAvailable": pods - 1}
    return {"spec": {"minAvailable": pods, "tasks": [master, workers]}}


def _rank_in_set(pod: Pod) -> int:
    labels = pod["metadata"]["labels"]
    index = labels["batch.kubernetes.io/job-completion-index"]
    of_driver = 1  # the first of its Jobs, without GPUs
    return 8 * (int(labels["jobset.sigs.k8s.io/job-global-index"]) - of_driver) + int(index)


def _rank_in_groups(pod: Pod) -> int:
    labels, prefix = pod["metadata"]["labels"], "leaderworkerset.sigs.k8s.io"
    return 8 * int(labels[f"{prefix}/group-index"]) + int(labels[f"{prefix}/worker-index"])


def _led() -> Any:
    """Exclusive groups of eight workers whose leader takes no GPUs."""
    job = example("leaderworkerset-exclusive")
    of_group = job["spec"]["leaderWorkerTemplate"]
    of_group["size"] = 9
    of_group["leaderTemplate"] = copy.deepcopy(of_group["workerTemplate"])
    del of_group["leaderTemplate"]["spec"]["containers"][0]["resources"]
    return job


def _in_subgroups() -> Any:
    """A group of two exclusive subgroups of eight pods."""
    job = example("leaderworkerset-exclusive")
    annotations, prefix = job["metadata"]["annotations"], "leaderworkerset.sigs.k8s.io"
    label = annotations.pop(f"{prefix}/exclusive-topology")
    annotations[f"{prefix}/subgroup-exclusive-topology"] = label
    job["spec"]["replicas"] = 1
    job["spec"]["leaderWorkerTemplate"] |= {"size": ALL, "subGroupPolicy": {"subGroupSize": 8}}
    return job


def _rank_by_role(pod: Pod) -> int:
    labels, prefix = pod["metadata"]["labels"], "training.kubeflow.org"
    offset = 0 if labels[f"{prefix}/replica-type"] == "master" else 1
    return offset + int(labels[f"{prefix}/replica-index"])


def _pytorch_workers() -> Any:
    job = example("pytorchjob")
    roles = job["spec"]["pytorchReplicaSpecs"]
    del roles["Master"]
    roles["Worker"]["replicas"] = ALL
    return job


def _scaled_workers(job: Any, pods: int) -> Any:
    (group,) = job["spec"]["workerGroupSpecs"]
    return {"spec": {"workerGroupSpecs": [{**group, "replicas": pods}]}}


def _pods() -> list[Any]:
    made = []
    for rank in range(ALL):
        pod = copy.deepcopy(next(yaml.safe_load_all((FOLDER / "plain-pods.yaml").read_text())))
        pod["metadata"]["name"] = f"{NAME}-{rank}"
        words = {WORDS.gang_name: NAME, WORDS.pods: str(ALL), WORDS.rank: str(rank)}
        pod["metadata"]["annotations"] |= words
        made.append(pod)
    return made


_CORE = "kube-controller-manager"
KINDS: Mapping[str, Kind] = {
    each.name: each
    for each in (
        Kind(
            name="volcano-job",
            path="/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs",
            job=_volcano_job,
            program="volcano-controllers",
            scaled=_scaled_tasks,
            rank=rank_of,
        ),
        Kind(
            name="job",
            path="/apis/batch/v1/namespaces/default/jobs",
            job=_job,
            program=_CORE,
            scaled=lambda _, pods: {"spec": {"completions": pods, "parallelism": pods}},
            rank=_label("batch.kubernetes.io/job-completion-index"),
        ),
        Kind(
            name="jobset",
            path="/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets",
            job=lambda: example("jobset"),
            program="jobset",
            rank=_rank_in_set,
        ),
        Kind(
            name="trainjob",
            path="/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs",
            job=lambda: example("trainjob"),
            program="trainer",
            rank=_label("batch.kubernetes.io/job-completion-index"),
        ),
        Kind(
            name="leaderworkerset",
            path="/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets",
            job=lambda: example("leaderworkerset"),
            program="lws",
            scaled=lambda _, pods: {"spec": {"replicas": pods // 8}},
            rank=_rank_in_groups,
            least=8,
        ),
        Kind(
            name="jobset-exclusive",
            path="/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets",
            job=lambda: example("jobset-exclusive"),
            program="jobset",
            rank=lambda pod: _rank_in_set(pod) + 8,
            part=_label("jobset.sigs.k8s.io/job-index"),
        ),
        Kind(
            name="leaderworkerset-exclusive",
            path="/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets",
            job=lambda: example("leaderworkerset-exclusive"),
            program="lws",
            scaled=lambda _, pods: {"spec": {"replicas": pods // 8}},
            rank=_rank_in_groups,
            least=8,
            part=_label("leaderworkerset.sigs.k8s.io/group-index"),
        ),
        Kind(
            name="leaderworkerset-led",
            path="/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets",
            job=_led,
            program="lws",
            scaled=lambda _, pods: {"spec": {"replicas": pods // 8}},
            rank=lambda pod: _rank_in_groups(pod) - 1,
            least=8,
            part=_label("leaderworkerset.sigs.k8s.io/group-index"),
        ),
        Kind(
            name="leaderworkerset-subgroups",
            path="/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets",
            job=_in_subgroups,
            program="lws",
            rank=_label("leaderworkerset.sigs.k8s.io/worker-index"),
            part=_label("leaderworkerset.sigs.k8s.io/subgroup-index"),
        ),
        Kind(
            name="statefulset",
            path="/apis/apps/v1/namespaces/default/statefulsets",
            job=lambda: example("statefulset"),
            program=_CORE,
            scaled=lambda _, pods: {"spec": {"replicas": pods}},
            rank=_label("apps.kubernetes.io/pod-index"),
        ),
        Kind(
            name="deployment",
            path="/apis/apps/v1/namespaces/default/deployments",
            job=lambda: example("deployment"),
            program=_CORE,
            scaled=lambda _, pods: {"spec": {"replicas": pods}},
        ),
        Kind(
            name="raycluster",
            path="/apis/ray.io/v1/namespaces/default/rayclusters",
            job=lambda: example("raycluster"),
            program="kuberay",
            scaled=_scaled_workers,
        ),
        Kind(
            name="rayjob",
            path="/apis/ray.io/v1/namespaces/default/rayjobs",
            job=lambda: example("rayjob"),
            program="kuberay",
            made_at="/apis/ray.io/v1/namespaces/default/rayclusters",
        ),
        Kind(
            name="pytorchjob",
            path="/apis/kubeflow.org/v1/namespaces/default/pytorchjobs",
            job=lambda: example("pytorchjob"),
            program="training-operator",
            scaled=lambda _, pods: {
                "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": pods - 1}}}
            },
            rank=_rank_by_role,
        ),
        Kind(
            name="pytorchworkers",  # a master would be a pod set of one pod
            path="/apis/kubeflow.org/v1/namespaces/default/pytorchjobs",
            job=_pytorch_workers,
            program="training-operator",
            scaled=lambda _, pods: {
                "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": pods}}}
            },
            rank=_label("training.kubeflow.org/replica-index"),
        ),
        Kind(
            name="mpijob",
            path="/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs",
            job=lambda: example("mpijob"),
            program="mpi-operator",
            scaled=lambda _, pods: {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": pods}}}},
            rank=_label("training.kubeflow.org/replica-index"),
        ),
        Kind(
            name="pods",
            path=PODS,
            job=_pods,
            program="",
            rank=lambda pod: int(pod["metadata"]["name"].rpartition("-")[2]),
        ),
    )
}


def pod_specs(found: Any) -> Iterator[Any]:
    """Yield the specs of pods in an object, wherever they are."""
    if isinstance(found, list):
        for each in found:
            yield from pod_specs(each)
    elif isinstance(found, dict):
        if "containers" in found:
            yield found
        else:
            for each in found.values():
                yield from pod_specs(each)


def has_gpus(pod: Pod) -> bool:
    """Whether a pod takes GPUs."""
    limits = (each.get("resources", {}).get("limits", {}) for each in pod["spec"]["containers"])
    return any(GPU in each for each in limits)


def mixed_parts(world: World, kind: Kind, pods: Sequence[Pod]) -> list[str]:
    """The parts that are in several switchboxes, or share one."""
    if kind.part is None:
        return []
    home = homes(world, "switchbox")
    parts: dict[int, set[object]] = {}
    for pod in pods:
        parts.setdefault(kind.part(pod), set()).add(home[pod["spec"]["nodeName"]])
    used = [box for boxes in parts.values() for box in boxes]
    return [str(parts)] if len(used) != len(parts) or len({*used}) != len(used) else []


def split_pairs(world: World, kind: Kind, pods: Sequence[Pod]) -> list[str]:
    """The pairs that are not in one dragonfly, or not of two pods.

    A kind without ranks that was scaled in may have lost any pods, so its pairs may lack one.
    """
    least = 1 if kind.rank is None and len(pods) < ALL else 2
    home = homes(world, "dragonfly")
    pairs: dict[object, list[Pod]] = {}
    for pod in pods:
        if kind.rank is not None:
            pairs.setdefault(kind.rank(pod) // 2, []).append(pod)
        else:
            note = json.loads(pod["metadata"]["annotations"][WORDS.placement])
            pairs.setdefault((note["gang"], note["group"]), []).append(pod)
    nodes = {key: [each["spec"]["nodeName"] for each in pair] for key, pair in pairs.items()}
    return mixed_parts(world, kind, pods) + [
        f"{key}: {found}"
        for key, found in nodes.items()
        if not least <= len({*found}) == len(found) <= 2 or len({home[node] for node in found}) != 1
    ]
