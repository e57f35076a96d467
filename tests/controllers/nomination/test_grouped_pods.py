"""Gangs of PodGroups of Kubernetes: how they are bound, which pods they are, what they wait for."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from master.controllers.nomination.gangs.builder import build_gang
from master.controllers.nomination.index import GangIndex
from master.kube.gang_pod import EndedPod, GangPod
from master.kube.objects import ObjectIdentity
from master.kube.schedulers.composite_groups import CompositeGroupObject
from master.kube.schedulers.scheduling_groups import SchedulingGroupObject
from tests.controllers.nomination.objects import (
    CREATED,
    CREATED_S,
    GANG,
    JOB,
    WORDS,
    gang_context,
    gang_of_job,
    pod,
)
from topo.gangs.machine.gang import Binding, Gang, gang_of_group
from topo.gangs.stamp import Stamp
from topo.model.ids import Kind

OF_GROUP = {WORDS.of_pod_group: "own", WORDS.rank: "1"}
UNFIT = "pod group is unschedulable, 0/1 placements are available, first placement status: …"
_READ = TypeAdapter(SchedulingGroupObject)


def group(
    name: str = "own", key: str = "", policy: Any = None, created: str = ""
) -> SchedulingGroupObject:
    constraints = {"topology": [{"key": key}]} if key else None
    return _READ.validate_python(
        {
            "metadata": {"name": name, "namespace": "jobs", "creationTimestamp": created},
            "spec": {
                "schedulingPolicy": policy or {"gang": {"minCount": 2}},
                "schedulingConstraints": constraints,
            },
        }
    )


def grouped(index: int, **more: Any) -> Any:
    """A pod of kube-scheduler in the PodGroup `own`."""
    return pod(index, group="", schedulingGroup={"podGroupName": "own"}, **more)


def built(found: SchedulingGroupObject | None, **pods: Any) -> Gang:
    known = {("jobs", "own"): found} if found is not None else {}
    context = gang_context(
        scheduling_groups=lambda: known,
        kind_of_label={"metax-tech.com/switchbox": Kind("switchbox")}.get,
    )
    return build_gang(GANG, [grouped(0, **pods), grouped(1, **pods)], context)


def test_a_gang_with_a_pod_group_is_bound_all_or_none() -> None:
    gang = built(group())
    assert (gang.binding, gang.at_least, gang.awaits) == (Binding.POD_GROUP, 2, "")


def test_a_basic_pod_group_binds_its_pods_one_by_one() -> None:
    assert built(group(policy={"basic": {}})).binding is Binding.PIECEMEAL


def test_a_gang_waits_for_its_pod_group_without_which_no_pod_is_tried() -> None:
    gang = built(None)
    assert (gang.binding, gang.awaits) == (Binding.POD_GROUP, "its PodGroup own is not there yet")


def test_a_topology_key_that_is_a_label_of_groups_is_the_group_that_all_pods_share() -> None:
    assert built(group(key="metax-tech.com/switchbox")).request.within == "switchbox"


def test_a_gang_with_another_topology_key_is_left_to_kube_scheduler() -> None:
    assert (
        "its PodGroup wants one zone, which is not a label of a group"
        in built(group(key="zone")).ungated
    )


@pytest.mark.parametrize(
    ("key", "within", "ungated"),
    [("switchbox", "pod", ""), ("pod", "switchbox", ""), ("zone", None, "wants one")],
)
def test_a_topology_key_counts_beside_an_annotation_that_names_a_kind(
    key: str, within: str | None, ungated: str
) -> None:
    """Of a pod and a switchbox, which is inside it, all pods share the switchbox."""
    annotations = {WORDS.within: within} if within else {WORDS.within: "switchbox"}
    known = {("jobs", "own"): group(key=f"metax-tech.com/{key}")}
    context = gang_context(
        scheduling_groups=lambda: known,
        kind_of_label={f"metax-tech.com/{k}": Kind(k) for k in ("switchbox", "pod")}.get,
        tier_of_kind={"switchbox": 2, "pod": 3}.get,
    )
    pods = [grouped(rank, annotations=annotations) for rank in (0, 1)]
    gang = build_gang(GANG, pods, context)
    assert ungated in gang.ungated
    assert gang.request.within == (None if ungated else "switchbox")


def test_pods_that_succeeded_before_their_pod_group_was_made_are_of_another_run() -> None:
    ended = [
        EndedPod(
            metadata=ObjectIdentity(name=f"old-{at}", namespace="jobs", uid=f"old-{at}"),
            gang_id=gang_of_group("jobs", "own"),
            rank=rank,
            created_s=CREATED_S + at,
        )
        for rank, at in enumerate((-60.0, 0.0))
    ]
    made = group(created=CREATED)
    pods = [grouped(0, annotations=OF_GROUP, owners=())]
    context = gang_context(scheduling_groups=lambda: {("jobs", "own"): made}, ended=lambda _: ended)
    gang = build_gang(pods[0].gang_id, pods, context)
    assert [each.rank for each in gang.members if each.succeeded] == [1]


def test_both_gangs_that_name_a_pod_group_are_read_when_it_comes() -> None:
    index = GangIndex(WORDS)
    other = {**JOB, "uid": "job-2", "name": "more"}
    for number, owner in enumerate((JOB, other)):
        index.pod(("jobs", f"p{number}"), grouped(number, owners=(owner,)))
    index.take()
    index.named(("jobs", "own"))
    assert {*index.take()} == {GANG, gang_of_job("job-2")}
    index.pod(("jobs", "p0"), None)
    index.take()
    index.named(("jobs", "own"))
    assert index.take() == (gang_of_job("job-2"),)


def test_the_pods_of_a_pod_group_are_one_gang_whoever_owns_them() -> None:
    other = {**JOB, "uid": "job-2", "name": "more"}
    pods = [
        grouped(0, annotations=OF_GROUP, owners=()),
        grouped(1, annotations=OF_GROUP, owners=(other,)),
    ]
    assert {each.gang_id for each in pods} == {gang_of_group("jobs", "own")}
    assert all(each.is_placed_here for each in pods)
    context = gang_context(scheduling_groups=lambda: {("jobs", "own"): group()})
    gang = build_gang(pods[0].gang_id, pods, context)
    assert (gang.kind, gang.name, gang.ungated) == ("PodGroup", "own", "")


def test_a_stamp_that_names_another_pod_group_than_the_pod_is_of_joins_no_gang() -> None:
    stray = grouped(0, annotations={WORDS.of_pod_group: "foreign"})
    assert stray.gang_id == GANG


@pytest.mark.parametrize(
    ("message", "told"), [(UNFIT, ""), ("0/16 nodes are available", "0/16 nodes are available")]
)
def test_a_pod_that_would_fit_gives_no_reason_for_its_node(message: str, told: str) -> None:
    condition = {"type": "PodScheduled", "reason": "Unschedulable", "message": message}
    found = grouped(0, gates=(), status={"conditions": [condition]})
    assert isinstance(found, GangPod)
    assert found.unscheduled == told
    assert found.is_tried


@pytest.mark.parametrize(
    ("condition", "is_tried"),
    [
        (None, False),
        ({"status": "False", "reason": "SchedulingGated"}, False),
        ({"status": "False", "reason": "Unschedulable", "message": "0/8"}, True),
        # Of a pod for which it evicts others, Volcano says that it has a node.
        ({"status": "False", "reason": "Schedulable", "message": "can be assigned to n1"}, True),
        ({"status": "True"}, False),
        ({"type": "Ready", "status": "False", "reason": "ContainersNotReady"}, False),
    ],
)
def test_a_scheduler_has_tried_a_pod_once_it_has_said_so(
    *, condition: dict[str, str] | None, is_tried: bool
) -> None:
    conditions = [] if condition is None else [{"type": "PodScheduled", **condition}]
    found = grouped(0, gates=(), status={"conditions": conditions})
    assert isinstance(found, GangPod)
    assert found.is_tried is is_tried


_COMPOSITE = TypeAdapter(CompositeGroupObject)
BOX = "metax-tech.com/switchbox"


def composite(key: str = "", policy: Any = None) -> CompositeGroupObject:
    return _COMPOSITE.validate_python(
        {
            "metadata": {"name": "train", "namespace": "jobs", "creationTimestamp": CREATED},
            "spec": {
                "schedulingPolicy": policy or {"gang": {"minGroupCount": 2}},
                "schedulingConstraints": {"topology": [{"key": key}]} if key else None,
            },
        }
    )


def below(rank: int, leaf: str) -> Any:
    """A pod of a PodGroup of two pods, the third or fourth one of a tree where rank is over 1."""
    more = {WORDS.of_pod_group: leaf, WORDS.of_composite: "train", WORDS.rank: str(rank)}
    stamp = Stamp(pods=4, rank_offset=2 * (rank // 2), pods_per_group=2)
    named = {"podGroupName": leaf}
    return pod(rank, stamp=stamp, annotations=more, group="", owners=(), schedulingGroup=named)


def built_below(root: CompositeGroupObject | None, leaf_key: str = "") -> Gang:
    pods = [below(rank, "a" if rank < 2 else "b") for rank in range(4)]
    assert len({each.gang_id for each in pods}) == 1
    context = gang_context(
        scheduling_groups=lambda: {("jobs", name): group(name, leaf_key) for name in ("a", "b")},
        composite_groups=lambda: {("jobs", "train"): root} if root is not None else {("", ""): 0},
        kind_of_label={BOX: Kind("switchbox"), "x/fly": Kind("dragonfly")}.get,
    )
    return build_gang(pods[0].gang_id, pods, context)


def test_all_pods_below_a_composite_pod_group_are_one_gang_bound_all_or_none() -> None:
    gang = built_below(composite(key=BOX), "x/fly")
    assert (gang.kind, gang.name, gang.ungated) == ("CompositePodGroup", "train", "")
    assert (gang.binding, gang.at_least, gang.awaits) == (Binding.POD_GROUP, 4, "")
    assert (gang.request.pods, gang.request.within) == (4, "switchbox")


def test_a_basic_composite_pod_group_binds_its_groups_each_for_itself() -> None:
    assert built_below(composite(policy={"basic": {}})).binding is Binding.PIECEMEAL


def test_a_tree_without_its_root_waits_and_one_with_an_unknown_label_is_left_alone() -> None:
    assert built_below(None).awaits == "its CompositePodGroup train is not there"
    assert "its PodGroup wants one rack" in built_below(composite(), "rack").ungated
