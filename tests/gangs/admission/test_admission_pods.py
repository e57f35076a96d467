"""A pod at its creation: its rank, its group, and who gets a gate."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gangs.admission.patching import DOMAIN, RULES, WORDS, admitted, patched, sample
from topo.gangs.admission.outcome import Result, Rules
from topo.gangs.admission.pods import admit_pod
from topo.gangs.stamp import Stamp
from topo.gangs.terms import Way

GATE = {"name": "metax-tech.com/placement"}


def pod(index: int = 3, *, offset: int = 1, **spec: object) -> dict[str, Any]:
    """A worker of a stamped job as Volcano's controller creates it."""
    stamp = Stamp(pods=8, rank_offset=offset, pods_per_group=2)
    asked = {WORDS.size: "16", "volcano.sh/task-index": str(index)}
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "controller": True}
    limits = {"limits": {f"{DOMAIN}/gpu": "8"}}
    return {
        "metadata": {
            "annotations": {**stamp.annotations(WORDS), **asked},
            "ownerReferences": [{**owner, "uid": "u", "name": "train"}],
        },
        "spec": {"containers": [{"resources": limits}], **spec},
    }


def test_a_pod_is_gated_and_knows_its_rank_and_group() -> None:
    outcome = admit_pod(pod(3), RULES)
    assert outcome.result is Result.GATED
    after = patched(pod(3), outcome.patch)
    assert after["spec"]["schedulingGates"] == [GATE]
    assert after["metadata"]["labels"] == {"metax-tech.com/gpu-group": "2"}
    assert after["metadata"]["annotations"]["metax-tech.com/gang-rank"] == "4"


def test_the_same_pod_again_gives_no_patch() -> None:
    once = patched(pod(), admit_pod(pod(), RULES).patch)
    assert admit_pod(once, RULES).patch == ()


def test_a_pod_of_an_indexed_job_has_its_completion_index_as_rank() -> None:
    made = pod(offset=0)
    del made["metadata"]["annotations"]["volcano.sh/task-index"]
    made["metadata"]["labels"] = {"batch.kubernetes.io/job-completion-index": "5"}
    made["metadata"]["ownerReferences"][0]["apiVersion"] = "batch/v1"
    after = patched(made, admit_pod(made, RULES).patch)
    assert after["metadata"]["labels"]["metax-tech.com/gpu-group"] == "2"
    assert after["spec"]["schedulingGates"] == [GATE]


def test_gates_labels_and_selectors_of_others_stay() -> None:
    others = {"name": "kueue.x-k8s.io/admission"}
    made = pod(schedulingGates=[others], nodeSelector={"kubernetes.io/hostname": "n1"})
    made["metadata"]["labels"] = {"app": "x"}
    after = patched(made, admit_pod(made, RULES).patch)
    assert after["spec"]["schedulingGates"] == [others, GATE]
    assert after["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "n1"}
    assert after["metadata"]["labels"]["app"] == "x"


def test_a_pod_beyond_the_first_gang_belongs_to_a_group_after_it() -> None:
    after = patched(pod(9), admit_pod(pod(9), RULES).patch)
    assert after["metadata"]["labels"]["metax-tech.com/gpu-group"] == "5"


def test_a_pod_that_names_its_node_is_labelled_and_not_gated() -> None:
    outcome = admit_pod(pod(nodeName="node-1"), RULES)
    assert outcome.result is Result.LABELLED
    assert "schedulingGates" not in patched(pod(nodeName="node-1"), outcome.patch)["spec"]


def test_in_native_mode_the_scheduler_chooses_and_nothing_is_gated() -> None:
    native = Rules(keys=WORDS, way=Way.NATIVE)
    assert admit_pod(pod(), native).result is Result.LABELLED
    made = pod()
    made["metadata"]["annotations"][WORDS.way] = "native"
    assert admit_pod(made, RULES).result is Result.LABELLED
    made["metadata"]["annotations"][WORDS.way] = "nomination"
    assert admit_pod(made, native).result is Result.GATED


def _without(*path: str) -> dict[str, Any]:
    made = pod()
    at: Any = made
    for part in path[:-1]:
        at = at[part]
    del at[path[-1]]
    return made


def _owned(**owner: object) -> dict[str, Any]:
    made = pod()
    made["metadata"]["ownerReferences"][0] |= owner
    return made


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (_without("metadata", "ownerReferences"), "none of these: Volcano Job, batch Job"),
        (_owned(controller=False), "none of these: Volcano Job, batch Job"),
        (_owned(kind="ReplicaSet", apiVersion="apps/v1"), "none of these: Volcano Job, batch Job"),
        (_without("metadata", "annotations", "volcano.sh/task-index"), "no index"),
        (_without("metadata", "annotations", WORDS.size), "no group size"),
        (_without("metadata", "annotations", WORDS.pods), "gang-pods is"),
    ],
)
def test_who_nobody_would_open_gets_no_gate_and_is_told_why(made, why) -> None:
    outcome = admit_pod(made, RULES)
    assert outcome.result is Result.LEFT
    assert outcome.patch == ()
    assert why in outcome.warnings[0]


@pytest.mark.parametrize("made", [pod(containers=[]), {"metadata": {}, "spec": {}}, {}])
def test_a_pod_without_gpus_or_stamp_is_no_business_of_ours(made) -> None:
    assert admit_pod(made, RULES).result is Result.UNCHANGED


def test_the_vendors_workers_follow_its_master_in_one_group() -> None:
    job = patched(sample(), admitted(sample()).patch)
    groups = []
    for task in job["spec"]["tasks"]:
        for index in range(task["replicas"]):
            made = pod(index, containers=task["template"]["spec"]["containers"])
            made["metadata"]["annotations"] |= task["template"]["metadata"]["annotations"]
            after = patched(made, admit_pod(made, RULES).patch)
            marked = after["metadata"]
            groups.append((marked["annotations"][WORDS.rank], marked["labels"][WORDS.group]))
    assert groups == [(str(rank), "0") for rank in range(8)]


values = st.recursive(
    st.none() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["annotations", WORDS.pods, "labels", "containers", "schedulingGates"]),
            inner,
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["metadata", "spec"]), values))
def test_whatever_a_pod_looks_like_it_is_judged(made) -> None:
    assert admit_pod(made, RULES).result in Result
