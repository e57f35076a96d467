"""PodGroups of Kubernetes at admission: which jobs get one, and which make their pods a gang."""

from dataclasses import replace
from typing import Any

import pytest

from tests.gangs.admission.patching import (
    DOMAIN,
    RULES,
    WORDS,
    admitted,
    batch,
    patched,
    task,
    volcano,
)
from topo.gangs.admission.outcome import NamedGroup, Result
from topo.gangs.admission.pods import admit_pod
from topo.gangs.group_tree import GroupTree, TreeGroup
from topo.gangs.native import HyperNodeTier
from topo.gangs.terms import Way
from topo.model.errors import Refusal
from topo.model.ids import Kind

MAKES = replace(RULES, makes_groups=True, token="0a1b2c")
PAIRS = HyperNodeTier(1, frozenset({Kind("dragonfly")}), frozenset({((8, 2),)}))
BOXES = HyperNodeTier(2, frozenset({Kind("switchbox")}), frozenset({((8, 8),)}))
NATIVE = replace(
    MAKES,
    way=Way.NATIVE,
    tiers=(PAIRS, BOXES),
    label_keys={Kind("dragonfly"): "x/dragonfly", Kind("switchbox"): "x/switchbox"},
)
GROUP = NamedGroup({WORDS.size: "16"}, min_count=4)


def template(job: Any) -> Any:
    return job["spec"]["template"]


def pod(rank: object = 3, gpus: int = 8) -> dict[str, Any]:
    """A pod of the PodGroup `own` that no job stamped."""
    limits = {"limits": {f"{DOMAIN}/gpu": gpus}}
    annotations = {} if rank is None else {WORDS.rank: str(rank)}
    return {
        "metadata": {"namespace": "jobs", "annotations": annotations},
        "spec": {
            "schedulingGroup": {"podGroupName": "own"},
            "containers": [{"resources": limits}],
        },
    }


def rules_with(group: NamedGroup | None) -> Any:
    known = {("jobs", "own"): group}
    return replace(RULES, named_group=lambda namespace, name: known.get((namespace, name)))


def test_a_job_of_kube_scheduler_names_a_pod_group_of_its_own() -> None:
    after = patched(batch(4), admitted(batch(4), MAKES).patch)
    assert template(after)["spec"]["schedulingGroup"] == {"podGroupName": "train-0a1b2c"}
    assert template(after)["metadata"]["annotations"][WORDS.pod_group] == "train-0a1b2c"


def test_a_job_without_a_name_yet_gets_a_group_named_by_its_prefix() -> None:
    job = batch(4)
    job["metadata"] = {"generateName": "train-"}
    after = patched(job, admitted(job, MAKES).patch)
    assert template(after)["spec"]["schedulingGroup"] == {"podGroupName": "train-0a1b2c"}


def other_scheduler() -> dict[str, Any]:
    job = batch(4)
    template(job)["spec"]["schedulerName"] = "other"
    return job


@pytest.mark.parametrize("job", [other_scheduler(), volcano(task("w", 4, gpu_group_size="16"))])
def test_a_job_of_another_scheduler_gets_none(job: dict[str, Any]) -> None:
    outcome = admitted(job, MAKES)
    assert outcome.result is Result.STAMPED
    assert "schedulingGroup" not in str(patched(job, outcome.patch))


def test_a_job_gets_none_where_they_are_not_made() -> None:
    assert "schedulingGroup" not in str(patched(batch(4), admitted(batch(4)).patch))


def test_the_pod_group_that_the_user_names_stays() -> None:
    job = batch(4)
    template(job)["spec"]["schedulingGroup"] = {"podGroupName": "own"}
    after = patched(job, admitted(job, MAKES).patch)
    assert template(after)["spec"]["schedulingGroup"] == {"podGroupName": "own"}
    assert WORDS.pod_group not in template(after)["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("rules", "size", "name"),
    [
        (replace(MAKES, token="ffff"), "16", "train-ffff"),
        (RULES, "16", None),
        (MAKES, "20", None),
        (replace(RULES, way=Way.NATIVE), "16", None),
    ],
)
def test_a_copy_of_a_job_never_shares_the_pod_group_of_the_first(
    rules: Any, size: str, name: str | None
) -> None:
    job = patched(batch(4), admitted(batch(4), MAKES).patch)
    template(job)["metadata"]["annotations"][WORDS.size] = size
    after = patched(job, admitted(job, rules).patch)
    assert template(after)["spec"].get("schedulingGroup", {}).get("podGroupName") == name
    assert template(after)["metadata"]["annotations"].get(WORDS.pod_group) == name


def test_a_pod_gets_its_stamp_from_a_pod_group_that_asks_for_groups() -> None:
    outcome = admit_pod(pod(), rules_with(GROUP))
    assert outcome.result is Result.GATED
    after = patched(pod(), outcome.patch)
    assert after["metadata"]["annotations"] == {
        WORDS.size: "16",
        WORDS.pods: "4",
        WORDS.rank_offset: "0",
        WORDS.pods_per_group: "2",
        WORDS.rank: "3",
        WORDS.of_pod_group: "own",
    }
    assert after["metadata"]["labels"] == {WORDS.group: "1"}
    assert after["spec"]["schedulingGates"] == [{"name": WORDS.gate}]
    assert admit_pod(after, rules_with(GROUP)).result is Result.UNCHANGED


@pytest.mark.parametrize(
    "labels",
    [{"batch.kubernetes.io/job-completion-index": "2"}, {"apps.kubernetes.io/pod-index": "2"}],
)
def test_the_index_that_its_controller_gave_a_pod_is_its_rank(labels: dict[str, str]) -> None:
    made = pod(None)
    made["metadata"]["labels"] = labels
    after = patched(made, admit_pod(made, rules_with(GROUP)).patch)
    assert after["metadata"]["annotations"][WORDS.rank] == "2"


@pytest.mark.parametrize(
    ("made", "group", "text"),
    [
        (pod(None), GROUP, f"it has no index; give it one in the annotation {WORDS.rank}"),
        (pod(), NamedGroup({WORDS.size: "x"}, 4), "gpu-group-size is 'x'"),
        (pod(gpus=6), GROUP, "a group of 16 GPUs is not a whole number of pods of 6 GPUs"),
        (pod(), NamedGroup({WORDS.size: "16"}, 0), "pods is 0"),
    ],
)
def test_a_pod_that_cannot_be_in_a_group_is_left_with_the_reason(
    made: dict[str, Any], group: NamedGroup, text: str
) -> None:
    outcome = admit_pod(made, rules_with(group))
    assert outcome.result is Result.LEFT
    annotations = patched(made, outcome.patch)["metadata"]["annotations"]
    assert text in annotations[WORDS.ungrouped]
    assert text in outcome.warnings[0]


@pytest.mark.parametrize(
    ("made", "group", "result"),
    [
        (pod(), None, Result.AWAITED),
        (pod(), NamedGroup({}, 4), Result.UNCHANGED),
        (pod(gpus=0), GROUP, Result.UNCHANGED),
        ({"metadata": {}, "spec": {}}, GROUP, Result.UNCHANGED),
    ],
)
def test_a_pod_that_asks_for_no_groups_is_left_as_it_is(
    made: dict[str, Any], group: NamedGroup | None, result: Result
) -> None:
    outcome = admit_pod(made, rules_with(group))
    assert (outcome.result, outcome.patch, outcome.warnings) == (result, (), ())


@pytest.mark.parametrize(
    ("pods", "size", "asked", "key"),
    [
        (2, "16", {}, "x/dragonfly"),
        (4, "32", {}, "x/switchbox"),
        (2, "16", {WORDS.within: "switchbox"}, "x/switchbox"),
        (2, "16", {WORDS.mode: "preferred"}, None),
    ],
)
def test_a_native_job_of_one_group_asks_kube_scheduler_for_one_value_of_a_label(
    pods: int, size: str, asked: dict[str, str], key: str | None
) -> None:
    job = batch(pods, size=size)
    template(job)["metadata"]["annotations"] |= asked
    outcome = admitted(job, NATIVE)
    assert outcome.result is Result.STAMPED
    after = template(patched(job, outcome.patch))
    assert after["spec"]["schedulingGroup"] == {"podGroupName": "train-0a1b2c"}
    assert after["metadata"]["annotations"].get(WORDS.topology_key) == key
    assert after["metadata"]["annotations"][WORDS.way] == "native"


@pytest.mark.parametrize(
    ("pods", "size", "rules", "text"),
    [
        (4, "16", NATIVE, "kube-scheduler keeps one group together, and this job has 2"),
        (2, "16", replace(NATIVE, label_keys={}), "writes no labels of groups"),
        (64, "512", NATIVE, "no label of nodes names groups of 64 pods of 8 GPUs"),
        (2, "16", replace(NATIVE, makes_groups=False), "needs a Volcano Job, a queue of Kueue"),
    ],
)
def test_a_native_job_that_kube_scheduler_cannot_keep_together_is_refused(
    pods: int, size: str, rules: Any, text: str
) -> None:
    outcome = admitted(batch(pods, size=size), rules)
    assert outcome.refusal is not None
    assert text in str(outcome.refusal)
    assert "nomination" in outcome.refusal.fix


LEAVES = tuple(TreeGroup(name=name, is_leaf=True, least=4) for name in ("first", "own"))
TREE = GroupTree(root=TreeGroup(name="train", is_leaf=False, least=2), leaves=LEAVES)
BELOW = NamedGroup({WORDS.size: "16"}, min_count=4, tree=TREE)


def test_a_pod_below_a_composite_pod_group_gets_its_place_in_the_whole_tree() -> None:
    made = pod(3)
    after = patched(made, admit_pod(made, rules_with(BELOW)).patch)
    annotations = after["metadata"]["annotations"]
    assert (annotations[WORDS.pods], annotations[WORDS.rank]) == ("8", "7")
    assert annotations[WORDS.of_composite] == "train"
    assert after["metadata"]["labels"][WORDS.group] == "3"
    again = admit_pod(after, rules_with(BELOW))
    assert (again.result, again.patch) == (Result.UNCHANGED, ())


@pytest.mark.parametrize(
    ("made", "group", "text"),
    [
        (pod(4), BELOW, "its index 4 is none of the 4 pods (minCount) of its PodGroup"),
        (pod(), replace(BELOW, annotations={WORDS.size: "24"}), "groups of 3 pods do not fill"),
        (pod(), replace(BELOW, tree=Refusal("no tree", "spec", "mend it")), "no tree"),
    ],
)
def test_a_pod_that_has_no_place_in_the_tree_is_left_with_the_reason(
    made: dict[str, Any], group: NamedGroup, text: str
) -> None:
    outcome = admit_pod(made, rules_with(group))
    assert outcome.result is Result.LEFT
    assert text in outcome.warnings[0]
