"""Jobs whose nodes Volcano chooses: what its PodGroup is asked for, and what its user is told."""

from dataclasses import replace
from typing import Any

import pytest

from tests.gangs.admission.patching import (
    RULES,
    SIZE,
    WORDS,
    admitted,
    batch,
    patched,
    sample,
    stamps,
    task,
    volcano,
)
from topo.gangs.admission.outcome import AdmissionOutcome, Result, Rules
from topo.gangs.admission.pod_group import admit_pod_group
from topo.gangs.native import HyperNodeTier
from topo.gangs.stamp import Stamp
from topo.gangs.terms import Way
from topo.model.ids import DRAGONFLY, SWITCHBOX

GROUP = WORDS.group
PAIRS = HyperNodeTier(1, frozenset({DRAGONFLY}), frozenset({((8, 2),), ((8, 1),)}))
BOXES = HyperNodeTier(2, frozenset({SWITCHBOX}), frozenset({((8, 8),)}))
NATIVE = replace(RULES, way=Way.NATIVE, tiers=(PAIRS, BOXES))
ASKED = {"placement_mode": "native"}


def job(pods: int, size: int, gpus: int = 8, /, **asked: str) -> dict[str, Any]:
    return volcano(task("worker", pods, gpus, gpu_group_size=str(size), **asked))


def pod_group(made: dict[str, Any], rules: Rules = NATIVE, **spec: object) -> dict[str, Any]:
    """The PodGroup that Volcano makes of an admitted job, after its own review."""
    annotations = patched(made, admitted(made, rules).patch)["metadata"].get("annotations", {})
    group: dict[str, Any] = {"metadata": {"annotations": annotations}, "spec": spec}
    return dict(patched(group, admit_pod_group(group, rules).patch))


def policies(made: dict[str, Any], rules: Rules = NATIVE) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pod_group(made, rules)["spec"]["subGroupPolicy"]
    return found


def test_the_vendors_sample_is_one_group_inside_a_switchbox() -> None:
    assert pod_group(sample())["spec"] == {
        "subGroupPolicy": [
            {
                "name": GROUP,
                "subGroupSize": 8,
                "labelSelector": {"matchExpressions": [{"key": GROUP, "operator": "Exists"}]},
                "matchLabelKeys": [GROUP],
                "networkTopology": {"mode": "hard", "highestTierAllowed": 2},
            }
        ]
    }


def test_pairs_of_pods_are_inside_dragonflies() -> None:
    (pairs,) = policies(job(8, 16))
    assert pairs["subGroupSize"] == 2
    assert pairs["networkTopology"] == {"mode": "hard", "highestTierAllowed": 1}


def test_a_smaller_last_group_has_a_policy_of_its_own_and_no_pod_has_two() -> None:
    whole, last = policies(job(11, 32))
    assert (whole["subGroupSize"], last["subGroupSize"]) == (4, 3)
    assert whole["labelSelector"]["matchExpressions"] == [
        {"key": GROUP, "operator": "Exists"},
        {"key": GROUP, "operator": "NotIn", "values": ["2"]},
    ]
    assert last["labelSelector"]["matchExpressions"] == [
        {"key": GROUP, "operator": "In", "values": ["2"]}
    ]
    assert whole["networkTopology"] == last["networkTopology"]


def test_a_job_smaller_than_a_group_needs_room_for_its_own_pods_alone() -> None:
    (only,) = policies(job(2, 64))
    assert only["subGroupSize"] == 2
    assert only["networkTopology"]["highestTierAllowed"] == 1


@pytest.mark.parametrize(
    ("gpus", "size", "tier"), [(8, 16, 1), (8, 24, 2), (4, 16, 1), (3, 12, 1), (3, 15, 2)]
)
def test_the_tier_is_the_lowest_whose_largest_group_has_room_for_the_pods(gpus, size, tier) -> None:
    (only, *_) = policies(job(16, size, gpus))
    assert only["networkTopology"]["highestTierAllowed"] == tier


def test_all_of_a_job_shares_what_it_is_within() -> None:
    spec = pod_group(job(8, 16, gpu_group_within="switchbox"))["spec"]
    assert spec["networkTopology"] == {"mode": "hard", "highestTierAllowed": 2}
    assert spec["subGroupPolicy"][0]["networkTopology"]["highestTierAllowed"] == 1


def test_preferred_groups_may_be_split() -> None:
    (pairs,) = policies(job(8, 16, gpu_group_mode="preferred"))
    assert pairs["networkTopology"] == {"mode": "soft"}


def test_what_the_pod_group_has_already_stays() -> None:
    own = [{"name": "mine"}]
    assert pod_group(job(8, 16), subGroupPolicy=own)["spec"] == {"subGroupPolicy": own}
    mine = {"mode": "soft"}
    spec = pod_group(job(8, 16, gpu_group_within="switchbox"), networkTopology=mine)["spec"]
    assert spec["networkTopology"] == mine


def test_a_pod_group_again_gives_no_patch() -> None:
    assert admit_pod_group(pod_group(job(11, 32)), NATIVE).patch == ()


@pytest.mark.parametrize(
    "left",
    [
        {"networkTopology": {"mode": "hard", "highestTierAllowed": 2}},
        {"tasks": [{**job(8, 16)["spec"]["tasks"][0], "partitionPolicy": {"totalPartitions": 4}}]},
    ],
)
def test_a_job_with_constraints_of_its_own_is_left_alone_with_a_warning(left) -> None:
    made = job(8, 16)
    made["spec"].update(left)
    outcome = admitted(made, NATIVE)
    assert outcome.result is Result.LEFT
    assert "is left alone" in outcome.warnings[0]
    assert [each["path"].rpartition("~1")[2] for each in outcome.patch] == ["gang-ungrouped"]
    assert pod_group(made)["spec"] == {}


def test_one_job_may_be_native_where_the_default_is_nomination_and_the_other_way_round() -> None:
    rules = replace(NATIVE, way=Way.NOMINATION)
    assert policies(job(8, 16, **ASKED), rules)
    assert pod_group(job(8, 16), rules)["spec"] == {}
    assert pod_group(job(8, 16, placement_mode="nomination"))["spec"] == {}


def test_a_native_job_stays_native_whatever_the_default_becomes() -> None:
    after = patched(job(8, 16), admitted(job(8, 16), NATIVE).patch)
    assert stamps(after)[0]["placement-mode"] == "native"
    assert after["metadata"]["annotations"][WORDS.way] == "native"
    assert admitted(after, replace(NATIVE, way=Way.NOMINATION)).patch == ()


def test_a_copy_that_is_no_native_job_any_more_loses_the_stamp_of_the_job() -> None:
    after = patched(job(8, 16), admitted(job(8, 16), NATIVE).patch)
    after["spec"]["networkTopology"] = {"mode": "hard"}
    again = patched(after, admitted(after, NATIVE).patch)
    assert WORDS.pods not in again["metadata"]["annotations"]


def refused(outcome: AdmissionOutcome) -> str:
    assert outcome.result is Result.INVALID
    return str(outcome.refusal)


@pytest.mark.parametrize("asked", [{}, {WORDS.way: "native"}])
def test_a_batch_job_cannot_be_native_and_is_told_what_to_do(asked) -> None:
    made = batch(8)
    made["spec"]["template"]["metadata"]["annotations"].update(asked)
    said = refused(admitted(made, NATIVE))
    assert "native placement needs a Volcano Job" in said
    assert f"write {WORDS.way}: nomination, or submit a Volcano Job" in said


def test_a_batch_job_that_names_nomination_is_placed_so() -> None:
    made = batch(8)
    made["spec"]["template"]["metadata"]["annotations"][WORDS.way] = "nomination"
    assert admitted(made, NATIVE).result is Result.STAMPED


def test_a_kind_that_no_group_is_of_is_refused_with_those_there_are() -> None:
    said = refused(admitted(job(8, 16, gpu_group_within="rack"), NATIVE))
    assert "no group of the tree is one" in said
    assert "write dragonfly or switchbox" in said


def test_a_pod_group_that_states_more_pods_of_a_group_than_gpus_is_left_as_it_is() -> None:
    """Whoever may create PodGroups may write any stamp on them."""
    stamp = Stamp(pods=8, rank_offset=0, pods_per_group=17).annotations(WORDS)
    made = {"metadata": {"annotations": {**stamp, SIZE: "16", WORDS.way: Way.NATIVE.value}}}
    assert admit_pod_group(made, NATIVE).result is Result.UNCHANGED


def test_nothing_is_decided_before_the_groups_are_known() -> None:
    unknown = replace(NATIVE, tiers=())
    assert admitted(job(8, 16), unknown).result is Result.UNDECIDED
    annotations = patched(job(8, 16), admitted(job(8, 16), NATIVE).patch)["metadata"]
    assert admit_pod_group({"metadata": annotations}, unknown).result is Result.UNDECIDED


@pytest.mark.parametrize(
    ("made", "rules", "said"),
    [
        (job(8, 16), replace(NATIVE, unheeded="Volcano is deaf"), "may be split: Volcano is deaf"),
        (job(8, 16, gpu_group_wait="10m"), NATIVE, "gpu-group-wait does nothing here"),
        (job(16, 128), NATIVE, "no group of nodes takes 16 pods of 8 GPUs"),
    ],
)
def test_the_user_is_warned_of_what_will_not_be_as_he_asked(made, rules, said) -> None:
    (warning,) = admitted(made, rules).warnings
    assert said in warning
    assert not admitted(made, replace(rules, way=Way.NOMINATION)).warnings


def test_required_groups_that_no_group_of_nodes_takes_are_asked_of_the_highest_tier() -> None:
    (only,) = policies(job(16, 128))
    assert only["networkTopology"] == {"mode": "hard", "highestTierAllowed": 2}


@pytest.mark.parametrize("found", [{}, {"metadata": {"annotations": {SIZE: "16"}}}, {"spec": []}])
def test_a_pod_group_of_no_native_gang_is_left_as_it_is(found) -> None:
    assert admit_pod_group(found, NATIVE).result is Result.UNCHANGED
