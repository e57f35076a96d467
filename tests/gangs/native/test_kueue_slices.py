"""Jobs that Kueue admits and whose nodes it chooses: the slices of their pod sets."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gangs.admission.patching import RULES, SIZE, WORDS, admitted, batch, patched
from tests.gangs.native.test_native import BOXES, PAIRS
from topo.gangs.admission.jobs import admit_job
from topo.gangs.admission.outcome import Result
from topo.gangs.job_kinds.job_set import job_set
from topo.gangs.terms import Way
from topo.model.ids import DRAGONFLY, SWITCHBOX

FLY, BOX = "metax-tech.com/dragonfly", "metax-tech.com/switchbox"
KUEUE = "kueue.x-k8s.io"
LEVEL, SLICE = f"{KUEUE}/podset-slice-required-topology", f"{KUEUE}/podset-slice-size"
REQUIRED, PREFERRED = f"{KUEUE}/podset-required-topology", f"{KUEUE}/podset-preferred-topology"
NATIVE = replace(
    RULES, way=Way.NATIVE, tiers=(PAIRS, BOXES), label_keys={DRAGONFLY: FLY, SWITCHBOX: BOX}
)


def queued(pods: int, size: str, **annotations: str) -> dict[str, Any]:
    """A batch Job in a queue of Kueue; a name such as gpu_group_mode is of our domain."""
    made = batch(pods, size=size)
    made["metadata"]["labels"] = {f"{KUEUE}/queue-name": "training"}
    of_pods = made["spec"]["template"]["metadata"]["annotations"]
    of_pods |= {
        key if "/" in key else f"metax-tech.com/{key.replace('_', '-')}": value
        for key, value in annotations.items()
    }
    return made


def asked(made: dict[str, Any], rules: Any = NATIVE) -> dict[str, str]:
    """What the pods of the admitted job ask of Kueue."""
    outcome = admitted(made, rules)
    assert outcome.result is Result.STAMPED, outcome.refusal
    after = patched(made, outcome.patch)
    assert admitted(after, rules).result is Result.UNCHANGED, "a second review changes nothing"
    annotations = after["spec"]["template"]["metadata"]["annotations"]
    assert annotations.get(WORDS.topology_key) == annotations.get(LEVEL), "for our own status"
    return {key: value for key, value in annotations.items() if key.startswith(KUEUE)}


def test_a_group_is_a_slice_of_as_many_pods_inside_the_lowest_tier_that_holds_it() -> None:
    assert asked(queued(8, "16")) == {LEVEL: FLY, SLICE: "2"}
    assert asked(queued(8, "64")) == {LEVEL: BOX, SLICE: "8"}


def test_a_job_smaller_than_a_group_is_one_slice() -> None:
    assert asked(queued(3, "64")) == {LEVEL: BOX, SLICE: "3"}


def test_all_pods_share_one_group_of_the_kind_within() -> None:
    found = asked(queued(8, "16", gpu_group_within="switchbox"))
    assert found == {LEVEL: FLY, SLICE: "2", REQUIRED: BOX}


def test_preferred_groups_are_no_slices() -> None:
    assert asked(queued(7, "16", gpu_group_mode="preferred")) == {PREFERRED: FLY}


def test_pods_that_make_no_whole_slices_are_refused_with_the_numbers_that_do() -> None:
    outcome = admitted(queued(7, "16"), NATIVE)
    assert outcome.refusal is not None
    assert "7 is no multiple of 2" in outcome.refusal.what
    assert outcome.refusal.fix == (f"give it 6 or 8 pods, or write {WORDS.way}: nomination")
    assert outcome.refusal.where == f"spec.template.metadata.annotations[{SIZE}]"


def test_a_kind_that_no_group_is_and_one_without_a_label_are_refused() -> None:
    none = admitted(queued(8, "16", gpu_group_within="leaf"), NATIVE).refusal
    assert none is not None
    assert "no group is one" in none.what
    unnamed = admitted(queued(8, "16"), replace(NATIVE, label_keys={SWITCHBOX: BOX})).refusal
    assert unnamed is not None
    assert "no label of nodes" in unnamed.what


@pytest.mark.parametrize("way", [Way.NATIVE, Way.NOMINATION])
@pytest.mark.parametrize("key", [LEVEL, f"{KUEUE}/podset-unconstrained-topology", REQUIRED])
def test_a_job_that_asks_kueue_itself_is_left_alone_and_its_user_told(way: Way, key: str) -> None:
    """With both, the two that choose its nodes would contradict each other."""
    outcome = admitted(queued(8, "16", **{key: "example.com/rack"}), replace(NATIVE, way=way))
    assert outcome.result is Result.LEFT
    assert key in outcome.warnings[0]
    assert "remove one of the two" in outcome.warnings[0]


def test_while_no_group_is_known_nothing_is_decided() -> None:
    assert admitted(queued(8, "16"), replace(NATIVE, tiers=())).result is Result.UNDECIDED


def test_a_job_without_a_queue_of_kueue_is_none_of_these() -> None:
    assert admitted(batch(8), NATIVE).refusal is not None
    made = queued(8, "16")
    assert not [
        key
        for key in patched(made, admitted(made).patch)["spec"]["template"]["metadata"][
            "annotations"
        ]
        if key.startswith(KUEUE)
    ], "nominated: Kueue gives quota, and this program the nodes"


def test_each_replicated_job_of_a_job_set_is_a_pod_set_of_whole_slices() -> None:
    """Two Jobs of four pods are eight pods in the order of ranks."""
    worker = {"name": "worker", "replicas": 2, "template": {"spec": batch(4)["spec"]}}
    made = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "labels": {f"{KUEUE}/queue-name": "training"}},
        "spec": {"replicatedJobs": [worker]},
    }
    outcome = admit_job(made, job_set(made), NATIVE)
    assert outcome.refusal is None
    (after,) = patched(made, outcome.patch)["spec"]["replicatedJobs"]
    annotations = after["template"]["spec"]["template"]["metadata"]["annotations"]
    assert (annotations[LEVEL], annotations[SLICE]) == (FLY, "2")
    other = {**made, "kind": "Other"}
    assert admit_job(other, job_set(other), NATIVE).refusal is not None, "cut in other ways"


@given(pods=st.integers(1, 64), per_group=st.integers(1, 8))
def test_a_job_is_taken_just_where_its_pods_are_whole_slices(pods: int, per_group: int) -> None:
    outcome = admitted(queued(pods, str(8 * per_group)), NATIVE)
    is_whole = pods % per_group == 0 or pods < per_group
    assert (outcome.refusal is None) == is_whole


HELD_BY = f"{KUEUE}/admission-gated-by"
HOLDS = replace(RULES, holds_jobs=True)


@pytest.mark.parametrize(
    ("others", "wanted"),
    [
        ("", WORDS.whole_groups),
        ("example.com/a", f"example.com/a,{WORDS.whole_groups}"),
        (WORDS.whole_groups, WORDS.whole_groups),
    ],
)
def test_a_nominated_job_in_a_queue_is_held_before_its_quota_beside_others(
    others: str, wanted: str
) -> None:
    made = queued(8, "16")
    if others:
        made["metadata"]["annotations"] = {HELD_BY: others}
    after = patched(made, admitted(made, HOLDS).patch)
    assert after["metadata"]["annotations"][HELD_BY] == wanted
    assert admitted(after, HOLDS).result is Result.UNCHANGED, "a second review changes nothing"


def test_no_other_job_is_held() -> None:
    outside, native = batch(8, size="16"), queued(8, "16", placement_mode="native")
    rules = replace(NATIVE, holds_jobs=True, way=Way.NOMINATION)
    for made, by in ((outside, rules), (native, rules), (queued(8, "16"), RULES)):
        after = patched(made, admitted(made, by).patch)
        assert HELD_BY not in after["metadata"].get("annotations", {})
