"""A native job of Kueue starts, and changes its size, only where Kueue keeps its groups whole."""

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.admission.reviews import Reviewed, review
from tests.admission.asking import asked, response
from tests.gangs.job_kinds.made import job, pod_template
from tests.gangs.native.test_kueue_slices import KUEUE, NATIVE, SLICE
from topo.gangs.admission.outcome import Rules
from topo.gangs.job_kinds import kinds
from topo.gangs.job_kinds.batch_job import BATCH_JOB
from topo.gangs.job_kinds.job_kind import JobKind, PodFacts
from topo.gangs.job_kinds.job_set import JOB_SET
from topo.gangs.job_kinds.kinds import JOB_KINDS
from topo.gangs.job_kinds.training_operator import MPI_JOB, PYTORCH_JOB
from topo.gangs.machine.gang import gang_of_owner

RESTARTED = [each for each in JOB_KINDS if each.suspended_at]
SCALED = [each for each in RESTARTED if each.size_key]
SPECS = {PYTORCH_JOB: "pytorchReplicaSpecs", MPI_JOB: "mpiReplicaSpecs"}
UID = "0f2a"
OF_SET = {
    f"jobset.sigs.k8s.io/{key}": value
    for key, value in {"jobset-uid": UID, "jobset-name": "train", "restart-attempt": "1"}.items()
}
"""The labels of a pod of a JobSet that was restarted once."""


def made(kind: JobKind, pods: int, *, suspend: bool | None, slices: str = "2") -> dict[str, Any]:
    """A job in a queue of Kueue as the webhook stamped it, in slices of pods."""
    template = pod_template(gang_pods="16", gpu_group_size="16")
    template["metadata"]["annotations"] |= (
        {f"{KUEUE}/podset-slice-required-topology": "metax-tech.com/dragonfly", SLICE: slices}
        if slices
        else {f"{KUEUE}/podset-preferred-topology": "metax-tech.com/dragonfly"}
    )
    stopped = {} if suspend is None else {"suspend": suspend}
    if kind is BATCH_JOB:
        sizes = {"completions": pods, "parallelism": pods, "completionMode": "Indexed"}
        spec = {**stopped, **sizes, "template": template}
    elif kind is JOB_SET:
        of_job = {"completions": 4, "parallelism": 4, "completionMode": "Indexed"}
        template["metadata"]["annotations"]["metax-tech.com/gang-kind"] = kind.name
        workers = {"name": "workers", "replicas": pods // 4}
        workers["template"] = {"spec": {**of_job, "template": template}}
        spec = {**stopped, "replicatedJobs": [workers]}
    else:
        workers = {"Worker": {"replicas": pods, "template": template}}
        spec = {"runPolicy": stopped, SPECS[kind]: workers}
    found = job(kind, spec, gpu_group_size="16")
    found["metadata"]["uid"] = UID
    return found | ({"status": {"restarts": 1}} if kind is JOB_SET else {})


def started(before: dict[str, Any], *, suspend: bool = False) -> dict[str, Any]:
    after = copy.deepcopy(before)
    after["spec"].get("runPolicy", after["spec"])["suspend"] = suspend
    return after


def resized(before: dict[str, Any], pods: int) -> dict[str, Any]:
    after = copy.deepcopy(before)
    if "completions" in after["spec"]:
        after["spec"] |= {"completions": pods, "parallelism": pods}
    for key in SPECS.values():
        if key in after["spec"]:
            after["spec"][key]["Worker"]["replicas"] = pods
    return after


def knowing(group: int | None) -> Rules:
    """The rules of a master that knows how many pods a group of the job has; 0 without pods."""
    of_set = PodFacts(keys=NATIVE.keys, namespace="default", labels=OF_SET, annotations={})
    named = kinds.gang_name(JOB_SET.name, of_set)
    assert named is not None
    owners = (gang_of_owner("default", each.api_version, each.kind, UID) for each in RESTARTED)
    gangs = {named.id, *owners}
    return replace(NATIVE, native_group=lambda gang: group if gang in gangs else 0)


def changed(before: dict[str, Any], after: dict[str, Any], rules: Rules) -> Reviewed:
    return review(asked(after, operation="UPDATE", oldObject=before), rules, "warn")


def scaled(kind: JobKind, before: int, after: int, rules: Rules) -> Reviewed:
    def scale(pods: int) -> dict[str, Any]:
        named = {"name": "train", "namespace": "default", "uid": UID}
        spec = {"replicas": pods}
        return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": named, "spec": spec}

    resource = {"group": kind.group, "version": kind.version, "resource": kind.resource}
    more = {"resource": resource, "subResource": "scale", "oldObject": scale(before)}
    return review(asked(scale(after), operation="UPDATE", **more), rules, "warn")


def refusal(found: Reviewed) -> str:
    """The words of a refusal, which is one whatever `--admission-invalid` says."""
    said = response(found.answer)
    assert (found.result, said["allowed"]) == ("denied", False)
    assert said["status"]["code"] == 422
    return str(said["status"]["message"])


def is_taken(found: Reviewed) -> bool:
    return found.result == "unchanged" and bool(response(found.answer)["allowed"])


@pytest.mark.parametrize("kind", RESTARTED, ids=lambda each: each.name)
def test_a_job_starts_again_once_the_last_of_its_old_pods_is_gone(kind: JobKind) -> None:
    before = made(kind, 16, suspend=True)
    text = refusal(changed(before, started(before), knowing(2)))
    assert ".".join(map(str, kind.suspended_at)) in text
    assert "Kueue starts this one once they are gone" in text
    without_status = {key: each for key, each in started(before).items() if key != "status"}
    assert refusal(changed(before, without_status, knowing(2))) == text
    assert is_taken(changed(before, started(before), knowing(0)))
    assert is_taken(changed(started(before), before, knowing(2))), "it is stopped at any time"


@pytest.mark.parametrize("kind", [BATCH_JOB, PYTORCH_JOB], ids=lambda each: each.name)
@pytest.mark.parametrize("pods", [12, 18])
def test_a_job_whose_controller_deletes_all_of_its_pods_is_scaled_as_it_runs(
    kind: JobKind, pods: int
) -> None:
    before = made(kind, 16, suspend=False)
    assert is_taken(changed(before, resized(before, pods), knowing(2)))


def test_a_job_that_runs_gets_no_smaller_size_where_pods_beyond_it_would_be_left() -> None:
    """They may not be made yet, or not be deleted yet once it is stopped."""
    ways: list[tuple[bool | None, int]] = [(False, 0), (None, 0), (False, 2), (True, 2)]
    for suspend, group in ways:
        before = made(MPI_JOB, 16, suspend=suspend)
        text = refusal(changed(before, resized(before, 12), knowing(group)))
        assert "spec.mpiReplicaSpecs.Worker.replicas" in text
        assert "set spec.active: false in the job's Workload" in text
        assert f"kubectl get workloads -l kueue.x-k8s.io/job-uid={UID}" in text
        assert is_taken(changed(before, resized(before, 18), knowing(group)))
    before = made(MPI_JOB, 16, suspend=True)
    assert is_taken(changed(before, resized(before, 12), knowing(0)))


@pytest.mark.parametrize("kind", SCALED, ids=lambda each: each.name)
def test_a_size_that_is_not_whole_groups_is_refused_with_those_that_are(kind: JobKind) -> None:
    before = made(kind, 16, suspend=True)
    odd = resized(before, 13)
    for found in (
        changed(before, odd, knowing(0)),
        changed(odd, started(odd), knowing(0)),
        scaled(kind, 16, 13, knowing(2)),
    ):
        text = refusal(found)
        assert "13 pods are not whole groups of 2" in text
        assert kind.size_key in text or "spec.replicas" in text
        assert "give 12 or 14" in text


def test_the_subresource_scale_of_anything_else_is_taken() -> None:
    assert is_taken(scaled(PYTORCH_JOB, 16, 12, knowing(2)))
    assert is_taken(scaled(PYTORCH_JOB, 13, 13, knowing(2)))
    assert is_taken(scaled(PYTORCH_JOB, 16, 13, knowing(0))), "none of our native jobs"
    other = scaled(replace(PYTORCH_JOB, resource="tfjobs"), 16, 13, knowing(2))
    assert (other.kind, other.result) == ("other", "unchanged")


def test_while_the_pods_are_not_known_the_failure_policy_decides() -> None:
    before = made(MPI_JOB, 16, suspend=True)
    for found in (
        changed(before, started(before), knowing(None)),
        changed(before, resized(before, 12), knowing(None)),
        scaled(PYTORCH_JOB, 16, 12, knowing(None)),
    ):
        assert (found.result, found.answer) == ("undecided", b"")


def _of_job_set() -> dict[str, Any]:
    """A Job of one pod whose group is of two Jobs."""
    before = made(BATCH_JOB, 1, suspend=True)
    annotations = before["spec"]["template"]["metadata"]["annotations"]
    annotations["metax-tech.com/gang-kind"] = "jobset"
    return before


def test_a_job_of_a_job_set_starts_with_the_set() -> None:
    before = _of_job_set()
    assert is_taken(changed(before, started(before), knowing(2)))


def _unstamped(before: dict[str, Any]) -> dict[str, Any]:
    del before["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"]["annotations"][
        "metax-tech.com/gang-pods"
    ]
    return before


@pytest.mark.parametrize(
    "before",
    [made(MPI_JOB, 16, suspend=True, slices=""), _unstamped(made(MPI_JOB, 16, suspend=True))],
    ids=["groups are only preferred", "not ours"],
)
def test_a_job_whose_groups_kueue_does_not_keep_for_us_is_left_alone(
    before: dict[str, Any],
) -> None:
    found = changed(before, started(resized(before, 13)), knowing(2))
    assert response(found.answer)["allowed"] is True


def opened(gate: str, *, old_pods: bool | None) -> Reviewed:
    """A pod of a StatefulSet loses this one of its gates."""

    def pod(*gates: str) -> dict[str, Any]:
        workload = {"kueue.x-k8s.io/workload": "statefulset-train"}
        metadata = {"name": "train-0", "namespace": "default", "annotations": workload}
        spec = {"schedulingGates": [{"name": each} for each in gates]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    named, other = ("default", "statefulset-train"), "example.com/other"
    rules = replace(NATIVE, has_old_pods=lambda *key: old_pods if key == named else False)
    return changed(pod(other, gate), pod(other), rules)


def test_a_pod_of_a_set_is_admitted_once_the_last_of_its_old_pods_is_gone() -> None:
    gate = "kueue.x-k8s.io/admission"
    text = refusal(opened(gate, old_pods=True))
    assert "spec.schedulingGates" in text
    assert "Kueue admits this one once they are gone" in text
    assert is_taken(opened(gate, old_pods=False))
    assert is_taken(opened("example.com/third", old_pods=True)), "of another gate nothing is asked"
    assert opened(gate, old_pods=None).result == "undecided"


@given(
    kind=st.sampled_from(SCALED),
    was_stopped=st.booleans(),
    is_stopped=st.booleans(),
    size=st.integers(1, 40),
    group=st.sampled_from([0, 2]),
)
def test_no_job_starts_in_a_way_in_which_kueue_ignores_ranks(
    *, kind: JobKind, was_stopped: bool, is_stopped: bool, size: int, group: int
) -> None:
    """Neither beside old pods, nor in a size that is not whole groups."""
    before = made(kind, 16, suspend=was_stopped)
    after = started(resized(before, size), suspend=is_stopped)
    if is_taken(changed(before, after, knowing(group))):
        assert size % 2 == 0
        assert not (was_stopped and not is_stopped and group)
    else:
        starts = was_stopped and not is_stopped
        assert size % 2 or (starts and group) or (kind.leaves_pods_beyond and size < 16)
