"""JobSet, LeaderWorkerSet and StatefulSet: size, rank and identity of their gangs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gangs.admission.patching import RULES, WORDS, patched
from tests.gangs.job_kinds import made
from topo.gangs.admission.pods import admit_pod
from topo.gangs.annotation_keys import ONE_BY_ONE
from topo.gangs.job_kinds import kinds
from topo.gangs.job_kinds.job_kind import PodFacts

JOB = {"apiVersion": "batch/v1", "kind": "Job"}
SETS = {"apiVersion": "apps/v1", "kind": "StatefulSet"}
_JOB_SET = "jobset.sigs.k8s.io"
_LWS = "leaderworkerset.sigs.k8s.io"


def rank(pod: Any) -> int | None:
    """The rank that a pod gets at its creation; None where it is not gated."""
    outcome = admit_pod(pod, RULES)
    if outcome.result != "gated":
        return None
    return int(patched(pod, outcome.patch)["metadata"]["annotations"][WORDS.rank])


def pods_of_job_set(found: Any, attempt: int = 0) -> list[Any]:
    """The pods that JobSet 0.12 makes, with the labels that place them."""
    pods = []
    for job in found["spec"]["replicatedJobs"]:
        spec = job["template"]["spec"]
        for at in range(job["replicas"]):
            for index in range(spec["completions"]):
                labels = {
                    f"{_JOB_SET}/jobset-uid": "uid-of-set",
                    f"{_JOB_SET}/jobset-name": "train",
                    f"{_JOB_SET}/job-index": str(at),
                    f"{_JOB_SET}/restart-attempt": str(attempt),
                    "batch.kubernetes.io/job-completion-index": str(index),
                }
                pods.append(
                    made.pod(spec["template"], labels, {**JOB, "uid": f"{job['name']}{at}"})
                )
    return pods


def gang_of(pod: Any, namespace: str = "default") -> str:
    """The gang that the labels of a pod name."""
    metadata = pod["metadata"]
    facts = PodFacts(
        keys=WORDS,
        namespace=namespace,
        labels=metadata["labels"],
        annotations=metadata["annotations"],
    )
    named = kinds.gang_name(metadata["annotations"].get(WORDS.kind), facts)
    return named.id if named is not None else ""


parts = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5), st.booleans()), min_size=1)


@given(parts)
def test_ranks_of_a_job_set_count_its_pods_with_gpus_in_the_order_of_its_jobs(
    jobs: list[tuple[int, int, bool]],
) -> None:
    wanted = made.job_set(
        *(
            made.replicated(f"job-{at}", replicas, pods, 8 if has_gpus else 0)
            for at, (replicas, pods, has_gpus) in enumerate(jobs)
        )
    )
    total = sum(replicas * pods for replicas, pods, has_gpus in jobs if has_gpus)
    ranks = [
        found for pod in pods_of_job_set(made.admitted(wanted)) if (found := rank(pod)) is not None
    ]
    assert ranks == list(range(total))


def test_the_jobs_of_a_set_are_one_gang_and_those_of_a_restart_another() -> None:
    found = made.admitted(made.job_set(made.replicated("a", 2, 2), made.replicated("b", 1, 4)))
    before, after = (
        {gang_of(pod) for pod in pods_of_job_set(found, attempt)} for attempt in (0, 1)
    )
    assert len(before) == len(after) == 1
    assert before != after


def test_a_label_of_another_namespace_names_no_gang_of_this_one() -> None:
    pod = pods_of_job_set(made.admitted(made.job_set(made.replicated("a", 1, 2))))[0]
    assert gang_of(pod) != gang_of(pod, "other")


def test_the_child_jobs_of_a_set_keep_its_stamps() -> None:
    found = made.admitted(made.job_set(made.replicated("a", 2, 2)))
    spec = found["spec"]["replicatedJobs"][0]["template"]["spec"]
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "controller": True}
    child = {**JOB, "metadata": {"name": "train-a-0", "ownerReferences": [owner]}, "spec": spec}
    child["spec"]["completionMode"] = "Indexed"
    assert made.admitted(child) == child


def test_a_template_that_was_copied_from_a_set_loses_what_a_job_has_not() -> None:
    found = made.admitted(made.job_set(made.replicated("a", 2, 2)))
    spec = {**found["spec"]["replicatedJobs"][0]["template"]["spec"], "completionMode": "Indexed"}
    copied = made.admitted({**JOB, "metadata": {"name": "copy"}, "spec": spec})
    annotations = copied["spec"]["template"]["metadata"]["annotations"]
    assert annotations[WORDS.pods] == "2"
    assert annotations.keys().isdisjoint(WORDS.of_some_stamps)


@pytest.mark.parametrize("place", ["set", "job", "pod"])
def test_a_set_may_ask_for_groups_at_each_place_that_reaches_its_pods_or_is_read(
    place: str,
) -> None:
    wanted = made.job_set(made.replicated("a", 1, 2))
    wanted["metadata"]["annotations"] = {}
    template = wanted["spec"]["replicatedJobs"][0]["template"]
    at = {"set": wanted, "job": template, "pod": template["spec"]["template"]}[place]
    at.setdefault("metadata", {})["annotations"] = {WORDS.size: "16"}
    assert [rank(pod) for pod in pods_of_job_set(made.admitted(wanted))] == [0, 1]


def is_late(found: Any, *path: Any) -> bool:
    """Whether the template at a path of the job is stamped as one whose pods come apart."""
    for part in path:
        found = found[part]
    return bool(found["metadata"]["annotations"].get(WORDS.is_late) == "true")


OF_FIRST = ("spec", "replicatedJobs", 0, "template", "spec", "template")


@pytest.mark.parametrize(
    ("depends", "spec"),
    [
        ({}, {"startupPolicy": {"startupPolicyOrder": "InOrder"}}),
        ({"dependsOn": [{"name": "a", "status": "Ready"}]}, {}),
    ],
)
def test_a_set_whose_jobs_wait_until_others_are_ready_is_a_gang_that_comes_apart(
    depends: dict[str, Any], spec: dict[str, Any]
) -> None:
    wanted = made.job_set(made.replicated("a", 1, 2), made.replicated("b", 1, 2, **depends), **spec)
    found = made.admitted(wanted)
    assert is_late(found, *OF_FIRST)
    assert [rank(pod) for pod in pods_of_job_set(found)] == [0, 1, 2, 3]


def test_places_are_kept_for_so_many_pods_that_come_later_and_no_more() -> None:
    in_order = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
    jobs = made.replicated("a", 1, 2), made.replicated("b", 5000, 2)
    assert "at most 10000 pods, and the job has 10002" in made.warnings(
        made.job_set(*jobs, **in_order)
    )
    assert not made.warnings(made.job_set(*jobs))


def test_a_set_whose_jobs_with_gpus_wait_for_the_end_of_each_other_is_told_the_field() -> None:
    after: dict[str, Any] = {"dependsOn": [{"name": "a", "status": "Complete"}]}
    wanted = made.job_set(made.replicated("a", 1, 2), made.replicated("b", 1, 2, **after))
    assert "spec.replicatedJobs[1].dependsOn" in made.warnings(wanted)
    assert all(rank(pod) is None for pod in pods_of_job_set(made.admitted(wanted)))


@pytest.mark.parametrize("status", ["Ready", "Complete"])
def test_jobs_that_wait_for_one_without_gpus_are_a_gang(status: str) -> None:
    """As the trainer of a TrainJob waits for its initializers."""
    after: dict[str, Any] = {"dependsOn": [{"name": "fetch", "status": status}]}
    wanted = made.job_set(made.replicated("fetch", 1, 1, 0), made.replicated("node", 1, 4, **after))
    ranks = [rank(pod) for pod in pods_of_job_set(made.admitted(wanted))]
    assert ranks == [None, 0, 1, 2, 3]


def pods_of_group(found: Any, group: int, revision: str = "5d4f") -> list[Any]:
    """The pods of one group that LeaderWorkerSet 0.9 makes."""
    template = found["spec"]["leaderWorkerTemplate"]
    leader = template.get("leaderTemplate", template["workerTemplate"])
    pods = []
    for index in range(template["size"]):
        labels = {f"{_LWS}/name": "train", f"{_LWS}/group-index": str(group)}
        labels |= {
            f"{_LWS}/worker-index": str(index),
            f"{_LWS}/template-revision-hash": revision,
            "apps.kubernetes.io/pod-index": str(index or group),
        }
        pods.append(made.pod(template["workerTemplate"] if index else leader, labels, SETS))
    return pods


@given(st.integers(2, 9), st.sampled_from([None, 0, 8]))
def test_each_group_of_a_leader_worker_set_is_a_gang_with_its_leader_first(
    size: int, leader_gpus: int | None
) -> None:
    found = made.admitted(made.leader_worker_set(size, leader_gpus=leader_gpus))
    first, second = pods_of_group(found, 0), pods_of_group(found, 1)
    ranked = [got for pod in first if (got := rank(pod)) is not None]
    assert ranked == list(range(size - (leader_gpus == 0)))
    assert gang_of(first[-1]) != gang_of(second[-1])
    assert len({gang_of(pod) for pod in first if rank(pod) is not None}) == 1


def test_a_group_of_another_revision_is_another_gang() -> None:
    """Its leader comes while workers of the one before still leave."""
    found = made.admitted(made.leader_worker_set(4))
    before, (leader, *_) = pods_of_group(found, 0), pods_of_group(found, 0, "7c9a")
    assert gang_of(leader) not in set(map(gang_of, before))


@pytest.mark.parametrize("leader_gpus", [None, 0, 8])
def test_a_leader_worker_set_that_waits_for_its_leader_with_gpus_comes_apart(
    leader_gpus: int | None,
) -> None:
    ready: dict[str, Any] = {"startupPolicy": "LeaderReady"}
    found = made.admitted(made.leader_worker_set(4, leader_gpus=leader_gpus, **ready))
    late = is_late(found, "spec", "leaderWorkerTemplate", "workerTemplate")
    assert late is (leader_gpus != 0)


@pytest.mark.parametrize("start", [0, 5])
def test_pods_of_a_stateful_set_are_ranked_by_their_ordinals(start: int) -> None:
    spec = {"podManagementPolicy": "Parallel", "ordinals": {"start": start}}
    template = made.admitted(made.stateful_set(4, **spec))["spec"]["template"]
    key = "apps.kubernetes.io/pod-index"
    pods = [made.pod(template, {key: str(start + at)}, SETS) for at in range(4)]
    assert [rank(pod) for pod in pods] == [0, 1, 2, 3]


@pytest.mark.parametrize(("policy", "word"), [("OrderedReady", ONE_BY_ONE), ("Parallel", None)])
def test_a_stateful_set_that_starts_pod_by_pod_comes_apart(policy: str, word: str | None) -> None:
    found = made.stateful_set(4, podManagementPolicy=policy)
    template = made.admitted(found)["spec"]["template"]
    assert template["metadata"]["annotations"].get(WORDS.is_late) == word
    assert not made.warnings(found)
