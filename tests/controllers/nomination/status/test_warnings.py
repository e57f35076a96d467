"""What the doctor tells of gangs: a warning for each cause that does not pass by itself."""

from dataclasses import replace

import pytest

from master.controllers.nomination.gangs.builder import build_gang
from master.controllers.nomination.status.nomination_policy import with_doubts, with_limit_of_kueue
from master.controllers.nomination.status.warnings import NOT_BOUND_S, gang_warnings
from master.kube.gang_pod import GangPod
from tests.controllers.nomination.objects import (
    gang_context,
    gang_of_job,
    gated_pod,
    parse,
    pod,
    pod_group,
)
from topo.gangs.machine.gang import Binding
from topo.gangs.stamp import Stamp
from topo.gangs.status import GangStatus
from topo.model.conditions.gang_states import GangState

GANG = build_gang(gang_of_job(), [pod(0), pod(1)], gang_context())
CODES = {
    GangState.SPLIT: "gang-split",
    GangState.NEVER_FITS: "gang-hopeless",
    GangState.NEVER_LET_IN: "gang-hopeless",
    GangState.NO_GROUPS: "gang-no-groups",
    GangState.NO_LABELS: "gang-no-labels",
    GangState.HALF_BOUND: "gang-stuck",
    GangState.DISPLACED: "gang-stuck",
    GangState.OPENED: "gang-not-bound",
    GangState.PREEMPTS: "gang-not-bound",
    GangState.WRITE_REFUSED: "gang-write-refused",
    GangState.UNREADABLE: "gang-unreadable",
}


@pytest.mark.parametrize("reason", list(GangState))
def test_each_cause_is_told_with_the_job_and_a_step_and_what_passes_is_not(reason: GangState):
    found = gang_warnings([("jobs/train", GangStatus(state=reason, text="why"))], {}, NOT_BOUND_S)
    expected = [CODES[reason]] if reason in CODES else []
    assert [each.code for each in found] == expected
    assert all("jobs/train" in each.text and each.fix for each in found)


@pytest.mark.parametrize(
    ("reason", "binding", "why", "doubt"),
    [
        (
            GangState.PREEMPTS,
            Binding.WHOLE,
            "Volcano evicts nobody",
            "; but Volcano evicts nobody: topo doctor has the patch",
        ),
        (GangState.PREEMPTS, Binding.PIECEMEAL, "Volcano evicts nobody", ""),
        (GangState.PREEMPTS, Binding.WHOLE, "", ""),
        (GangState.NO_ROOM, Binding.WHOLE, "Volcano evicts nobody", ""),
    ],
)
def test_a_gang_of_volcano_that_is_opened_over_others_says_where_nobody_would_be_evicted(
    reason: GangState, binding: Binding, why: str, doubt: str
):
    text = with_doubts(replace(GANG, binding=binding), reason, "it may evict 2 pods", why)
    assert text == f"it may evict 2 pods{doubt}"


@pytest.mark.parametrize(
    ("of_pods", "of_job", "told"),
    [("urgent", "", True), ("urgent", "urgent", False), ("", "", False)],
)
def test_a_gang_whose_class_is_on_its_pods_alone_says_what_volcano_goes_by(
    of_pods: str, of_job: str, *, told: bool
):
    group = pod_group("Inqueue", priorityClassName=of_job)
    pods = [pod(rank, priorityClassName=of_pods) for rank in range(2)]
    gang = build_gang(gang_of_job(), pods, gang_context(group))
    text = with_doubts(gang, GangState.PREEMPTS, "it may evict 2 pods", "")
    assert ("set spec.priorityClassName of the job" in text) is told
    assert with_doubts(gang, GangState.NO_ROOM, "no room", "") == "no room"


@pytest.mark.parametrize(
    ("label", "state", "told"),
    [
        ("kueue.x-k8s.io/podset", GangState.NO_ROOM, True),
        ("kueue.x-k8s.io/queue-name", GangState.BEHIND, True),
        ("kueue.x-k8s.io/podset", GangState.OPENED, False),
        ("app", GangState.NO_ROOM, False),
    ],
)
def test_a_gang_of_kueue_that_waits_for_room_is_told_how_long_kueue_bears_that(
    label: str, state: GangState, *, told: bool
):
    document = gated_pod(0, Stamp(1, 0, 1), group="train-job-1")
    document["metadata"] |= {"name": "train-0", "uid": "u", "labels": {label: "x"}}
    found = parse(document)
    assert isinstance(found, GangPod)
    gang = build_gang(gang_of_job(), [found], gang_context(pod_group("Inqueue")))
    text = with_limit_of_kueue(gang, state, "no room")
    assert ("30 minutes" in text) is told


def test_many_gangs_of_one_cause_are_one_warning():
    told = [("jobs/train", GangStatus(state=GangState.SPLIT, text="why"))] * 30
    (warning,) = gang_warnings(told, {}, 0.0)
    assert warning.text.startswith("gangs that run with a group in several domains")
    assert " (30): " in warning.text
    assert len(warning.text) < 300


@pytest.mark.parametrize("stamp", [None, Stamp(2, 0, 2)], ids=["job", "pod"])
def test_what_bypassed_the_webhook_is_told_with_its_cause_and_how_it_gets_its_groups(
    stamp: Stamp | None,
):
    """A job from before the webhook carries no stamp, which only a new job gets."""
    made = pod(0, stamp=stamp, gates=())
    assert made.bypassed_webhook
    (found,) = gang_warnings([], {("jobs", "train-0"): made}, 0.0)
    assert found.code == "gang-passed-by"
    assert made.metadata.name in found.text
    assert "does the webhook answer" in found.fix
    assert "deleted and created again" in found.fix
