"""A job that is changed keeps the stamps of its templates."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.admission.reviews import Reviewed, review
from tests.admission.asking import asked, response
from tests.gangs.admission.patching import RULES, WORDS, batch, patched, task, volcano
from tests.gangs.job_kinds.made import admitted, job, job_set, pod_template, replicated
from topo.gangs.job_kinds.ray_cluster import RAY_CLUSTER


def workers(*names: str, **annotations: str) -> dict[str, Any]:
    """A RayCluster of four workers in each group, as its user writes it."""
    groups = [{"groupName": each, "replicas": 4, "template": pod_template()} for each in names]
    spec = {"headGroupSpec": {"template": pod_template(0)}, "workerGroupSpecs": groups}
    return job(RAY_CLUSTER, spec, **{"gpu_group_size": "16", **annotations})


def changed(before: dict[str, Any], to: dict[str, Any]) -> tuple[Reviewed, dict[str, Any]]:
    """The review of a job that is changed, and the job that becomes of it."""
    found = review(asked(to, operation="UPDATE", oldObject=before), RULES, "warn")
    return found, patched(to, response(found.answer).get("patch", ()))


def stamps(cluster: dict[str, Any]) -> dict[str, dict[str, str]]:
    groups = cluster["spec"]["workerGroupSpecs"]
    return {each["groupName"]: each["template"]["metadata"]["annotations"] for each in groups}


@pytest.mark.parametrize(
    "written",
    [
        workers("a", "b"),
        volcano(task("master", 1, gpu_group_size="16"), task("worker", 7)),
        job_set(replicated("driver", 1, 1, 0), replicated("workers", 2, 4)),
    ],
    ids=["raycluster", "volcano-job", "jobset"],
)
def test_a_job_that_is_applied_again_keeps_its_stamps(written: dict[str, Any]) -> None:
    """Its list of templates comes as its user wrote it, all else as it was."""
    made = admitted(written)
    found, kept = changed(made, {**copy.deepcopy(made), "spec": written["spec"] | {}})
    assert found.result == "stamped"
    for before, after in zip(_lists(made), _lists(kept), strict=True):
        assert before == after
    assert changed(made, made)[0].result == "unchanged"


def _lists(found: dict[str, Any]) -> list[Any]:
    return [each for each in found["spec"].values() if isinstance(each, list)]


NAMES = st.lists(st.sampled_from("abcdef"), unique=True, min_size=1)


@given(before=NAMES, after=NAMES)
def test_a_template_has_the_stamp_of_its_name_wherever_it_stands_and_a_new_one_has_none(
    before: list[str], after: list[str]
) -> None:
    made = admitted(workers(*before))
    _, kept = changed(made, workers(*after))
    was = stamps(made)
    assert stamps(kept) == {name: was.get(name, {}) for name in after}


def test_words_that_differ_from_those_of_the_creation_are_not_heeded_which_is_said() -> None:
    made = admitted(workers("a"))
    found, kept = changed(made, workers("a", gpu_group_size="32", gpu_group_mode="preferred"))
    assert stamps(kept) == stamps(made)
    size, mode = response(found.answer)["warnings"]
    assert size.startswith(f"{WORDS.size} is not heeded now: the job was made with 16;")
    assert mode.startswith(f"{WORDS.mode} is not heeded now: the job was made without it;")


def test_a_job_that_asks_no_more_loses_its_stamps() -> None:
    made = admitted(workers("a"))
    written = workers("a")
    del written["metadata"]["annotations"][WORDS.size]
    found, kept = changed(made, written)
    assert (found.result, stamps(kept)) == ("unchanged", {"a": {}})


def test_a_job_without_stamps_gets_none_by_a_change() -> None:
    """It was made while no master answered; its pods run where they are."""
    found, kept = changed(workers("a"), workers("a"))
    assert (found.result, stamps(kept)) == ("unchanged", {"a": {}})


def test_changes_of_what_is_no_job_are_not_judged() -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {}, "spec": {}}
    assert changed(claim, claim)[0].kind == "other"
    ended = review(asked(batch(2), operation="DELETE"), RULES, "warn")
    assert ended.kind == "other"
