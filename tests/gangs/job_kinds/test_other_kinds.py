"""Kinds whose pods have other numbers, or none: Ray, Kubeflow, Deployments and plain pods."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gangs.admission.patching import RULES, WORDS, patched
from tests.gangs.job_kinds import made
from topo.gangs.admission.outcome import Result
from topo.gangs.admission.pods import admit_pod
from topo.gangs.job_kinds import kinds
from topo.gangs.job_kinds.deployment import DEPLOYMENT
from topo.gangs.job_kinds.job_kind import PodFacts
from topo.gangs.job_kinds.plain_pods import PLAIN_PODS
from topo.gangs.job_kinds.ray_job import RAY_JOB
from topo.gangs.job_kinds.train_job import TRAIN_JOB
from topo.gangs.job_kinds.training_operator import MPI_JOB, PYTORCH_JOB

REPLICA = "training.kubeflow.org/replica-index"
KUEUE = "kueue.x-k8s.io"


def stamp_of(template: Any) -> dict[str, str]:
    """The stamps of a template, without the domain."""
    found = template["metadata"]["annotations"]
    return {
        key.removeprefix("metax-tech.com/gang-"): text
        for key, text in found.items()
        if key.startswith("metax-tech.com/gang-")
    }


def admitted(pod: Any) -> tuple[Result, dict[str, str]]:
    """What becomes of a pod, and its annotations."""
    outcome = admit_pod(pod, RULES)
    after = patched(pod, outcome.patch)
    assert (outcome.result is Result.GATED) == ("schedulingGates" in after["spec"])
    return outcome.result, after["metadata"]["annotations"]


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3)), min_size=1), st.sampled_from([0, 8])
)
def test_a_ray_cluster_counts_its_head_only_with_gpus_and_its_replicas_by_their_hosts(
    workers: list[tuple[int, int]], head_gpus: int
) -> None:
    found = made.admitted(made.ray_cluster(*workers, head_gpus=head_gpus))
    total = sum(replicas * hosts for replicas, hosts in workers) + (head_gpus > 0)
    stamps = [stamp_of(group["template"]) for group in found["spec"]["workerGroupSpecs"]]
    assert [int(each.get("pods", 0)) for each in stamps] == [total] * len(workers)
    offset = int(head_gpus > 0)
    for each, (replicas, hosts) in zip(stamps, workers, strict=True):
        if total:
            assert int(each["rank-offset"]) == offset
        offset += replicas * hosts


@pytest.mark.parametrize(
    ("group", "pods"),
    [({"maxReplicas": 2}, 2), ({"minReplicas": 6}, 6), ({"suspend": True}, 0)],
)
def test_replicas_of_a_group_are_those_that_ray_makes(group: dict[str, Any], pods: int) -> None:
    found = made.admitted(made.ray_cluster((4, 1), **group))
    stamp = stamp_of(found["spec"]["workerGroupSpecs"][0]["template"])
    assert stamp.get("pods", "0") == str(pods)


def ray_job(**annotations: str) -> dict[str, Any]:
    """A RayJob with the cluster in it that `made.ray_cluster` makes of four workers."""
    cluster = made.ray_cluster((4, 1))["spec"]
    return made.job(RAY_JOB, {"entrypoint": "train", "rayClusterSpec": cluster}, **annotations)


def test_the_author_of_a_ray_job_is_warned_about_an_impossible_size() -> None:
    """Its RayCluster is refused the same, but to KubeRay."""
    assert made.admitted(ray_job(gpu_group_size="16")) == ray_job(gpu_group_size="16")
    assert made.warnings(ray_job(gpu_group_size="16")) == ""
    told = made.warnings(ray_job(gpu_group_size="12"))
    assert "12 is not a multiple of the 8 GPUs of a pod" in told
    assert "give 8 or 16" in told
    assert "is 'many'" in made.warnings(ray_job(gpu_group_size="many"))
    misspelt = ray_job(gpu_group_sise="16")
    assert "gpu-group-sise" in made.warnings(misspelt)
    paths = [each.path for each in RAY_JOB.parts(ray_job()).templates]
    assert paths[1] == ("spec", "rayClusterSpec", "workerGroupSpecs", 0, "template")


def test_a_ray_job_on_a_cluster_that_is_there_asks_for_nothing() -> None:
    found = made.job(RAY_JOB, {"clusterSelector": {"a": "b"}}, gpu_group_size="12")
    assert made.warnings(found) == ""


def test_a_worker_of_ray_is_gated_without_a_rank() -> None:
    template = made.admitted(made.ray_cluster((4, 1)))["spec"]["workerGroupSpecs"][0]["template"]
    pod = made.pod(template, {}, {"apiVersion": "ray.io/v1", "kind": "RayCluster"})
    result, annotations = admitted(pod)
    assert result is Result.GATED
    assert WORDS.rank not in annotations


def test_a_replica_of_a_deployment_is_gated_for_its_replica_set() -> None:
    wanted = made.job(
        DEPLOYMENT, {"replicas": 4, "template": made.pod_template()}, gpu_group_size="16"
    )
    template = made.admitted(wanted)["spec"]["template"]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "train-5d4"}
    assert admitted(made.pod(template, {"pod-template-hash": "5d4"}, owner))[0] is Result.GATED
    assert admitted(made.pod(template, {}, owner))[0] is Result.LEFT


def test_the_master_of_a_pytorch_job_is_rank_0_and_its_workers_follow() -> None:
    found = made.admitted(made.roles(PYTORCH_JOB, "pytorchReplicaSpecs", Worker=3, Master=1))
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}
    roles = found["spec"]["pytorchReplicaSpecs"]
    master = made.pod(roles["Master"]["template"], {REPLICA: "0"}, owner)
    workers = [made.pod(roles["Worker"]["template"], {REPLICA: str(at)}, owner) for at in range(3)]
    assert [admitted(pod)[1][WORDS.rank] for pod in (master, *workers)] == ["0", "1", "2", "3"]


def test_a_launcher_with_gpus_is_told_to_whoever_makes_the_mpi_job() -> None:
    wanted = made.roles(MPI_JOB, "mpiReplicaSpecs", Launcher=1, Worker=4)
    assert "give GPUs to the workers alone" in made.warnings(wanted)
    wanted["spec"]["mpiReplicaSpecs"]["Launcher"]["template"] = made.pod_template(0)
    workers = made.admitted(wanted)["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    assert stamp_of(workers)["pods"] == "4"
    wanted["spec"]["runLauncherAsWorker"] = True  # its workers are numbered from 1
    assert "spec.runLauncherAsWorker" in made.warnings(wanted)


def test_a_train_job_hands_what_it_asks_for_to_its_job_set_once() -> None:
    wanted = made.job(TRAIN_JOB, {"runtimeRef": {"name": "torch"}}, gpu_group_size="16")
    found = made.admitted(wanted)
    (patch,) = found["spec"]["runtimePatches"]
    metadata = patch["trainingRuntimeSpec"]["template"]["metadata"]
    assert metadata["annotations"] == {WORDS.size: "16"}
    assert made.admitted(found) == found
    others = made.job(TRAIN_JOB, {"runtimePatches": [{"manager": "other"}]}, gpu_group_size="16")
    assert len(made.admitted(others)["spec"]["runtimePatches"]) == 2


def test_a_train_job_that_asks_for_what_cannot_be_is_told_so() -> None:
    assert "gpu-group-size is 'many'" in made.warnings(
        made.job(TRAIN_JOB, {"runtimeRef": {"name": "torch"}}, gpu_group_size="many")
    )


@pytest.mark.parametrize("rank", ["", "3"])
def test_a_plain_pod_that_names_its_gang_is_stamped_itself(rank: str) -> None:
    more = {"gang_rank": rank} if rank else {}
    pod = made.plain_pod(None, gpu_group_size="16", gang_name="train", gang_pods="4", **more)
    result, annotations = admitted(pod)
    assert result is Result.GATED
    assert annotations[WORDS.pods_per_group] == "2"
    assert annotations.get(WORDS.rank, "") == rank
    again = patched(pod, admit_pod(pod, RULES).patch)
    assert admit_pod(again, RULES).patch == ()


def test_plain_pods_of_names_that_differ_are_of_gangs_that_differ() -> None:
    names = ("a/b", "a.b", "a%2Fb", "a")
    ids = set()
    for name in names:
        annotations = {WORDS.gang_name: name}
        pod = PodFacts(keys=WORDS, namespace="default", labels={}, annotations=annotations)
        found = kinds.gang_name(PLAIN_PODS.name, pod)
        assert found is not None
        ids.add(found.id)
    assert len(ids) == len(names)


def test_a_pod_of_a_plain_group_of_kueue_needs_no_name_of_ours() -> None:
    labels = {f"{KUEUE}/pod-group-name": "train", f"{KUEUE}/pod-group-pod-index": "2"}
    pod = made.plain_pod(labels, gpu_group_size="16")
    pod["metadata"]["annotations"][f"{KUEUE}/pod-group-total-count"] = "4"
    result, annotations = admitted(pod)
    assert (result, annotations[WORDS.rank], annotations[WORDS.pods]) == (Result.GATED, "2", "4")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({}, "gang-pods is missing (at metadata.annotations[metax-tech.com/gang-pods])"),
        ({"gang_pods": "0"}, "gang-pods is '0'"),
        ({"gang_pods": "many"}, "gang-pods is 'many'"),
        ({"gang_pods": "4", "gang_rank": "4"}, "write a number from 0 to 3"),
        ({"gang_pods": "4", "gang_name": ""}, "gang-name is ''"),
        ({"gang_pods": "4", "gpu_group_size": "12"}, "12"),
        ({"gang_pods": "4", "gpu_group_size": "x"}, "gpu-group-size is 'x'"),
    ],
)
def test_a_plain_pod_of_a_gang_that_cannot_be_is_left_alone_and_told(
    wrong: dict[str, str], why: str
) -> None:
    pod = made.plain_pod(None, **{"gpu_group_size": "16", "gang_name": "train", **wrong})
    outcome = admit_pod(pod, RULES)
    assert (outcome.result, outcome.patch) == (Result.LEFT, ())
    assert why in outcome.warnings[0]


@pytest.mark.parametrize("lacking", ["gpu_group_size", "gang_name"])
def test_a_plain_pod_that_lacks_a_word_of_its_gang_is_told_which(lacking: str) -> None:
    words = {"gpu_group_size": "16", "gang_name": "train", "gang_pods": "4"}
    del words[lacking]
    outcome = admit_pod(made.plain_pod(None, **words), RULES)
    assert (outcome.result, outcome.patch) == (Result.LEFT, ())
    key = f"metax-tech.com/{lacking.replace('_', '-')}"
    assert f"{key} is missing (at metadata.annotations[{key}]); write" in outcome.warnings[0]


def test_a_pod_of_a_plain_group_of_kueue_without_its_number_is_told_the_words_of_kueue() -> None:
    labels = {f"{KUEUE}/pod-group-name": "train"}
    outcome = admit_pod(made.plain_pod(labels, gpu_group_size="16"), RULES)
    assert f"{KUEUE}/pod-group-total-count is missing" in outcome.warnings[0]
