"""Gangs that Volcano places are watched: which there are, and whose groups nobody asked for."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from master.controllers.nomination.native import NativeGangs
from master.controllers.nomination.status.native_policy import LabelledNodes, NativePolicy
from master.kube.schedulers.scheduling_groups import SchedulingGroupObject
from tests.controllers.nomination.objects import (
    GANG,
    JOB,
    WORDS,
    gang_context,
    gang_of_job,
    labelled_node,
    pod,
    pod_group,
    status_store,
)
from tests.gangs.jobs import dragonflies
from topo.gangs.terms import Way
from topo.model.conditions.gang_states import GangState
from topo.model.ids import DRAGONFLY

ASKED = [
    {
        "name": WORDS.group,
        "subGroupSize": 2,
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
    }
]
KEY, GROUP_KEY = ("jobs", "train-worker-0"), ("jobs", "train-job-1")
NATIVE = {WORDS.way: "native"}


def of(*pods: Any) -> NativeGangs:
    found = NativeGangs()
    for number, each in enumerate(pods):
        found.pod(("jobs", f"train-worker-{number}"), each)
    return found


def bypassed(found: NativeGangs, *groups: Any) -> list[str]:
    known = dict(zip([GROUP_KEY], groups, strict=False))
    return [each.metadata.name for _, each in found.bypassed(known)]


@pytest.mark.parametrize(
    ("annotations", "way", "size", "known"),
    [
        (NATIVE, Way.NOMINATION, "16", 1),
        ({}, Way.NATIVE, "16", 1),
        ({WORDS.way: "nomination"}, Way.NATIVE, "16", 0),
        ({}, Way.NOMINATION, "16", 0),
        (NATIVE, Way.NATIVE, "", 0),
        ({WORDS.way: "nativ"}, Way.NATIVE, "16", 0),
    ],
)
def test_a_pod_is_of_a_native_gang_where_it_says_so_or_the_default_does(
    annotations: dict[str, str], way: Way, size: str, known: int
) -> None:
    assert len(of(pod(0, gates=(), size=size, annotations=annotations, way=way))) == known


def test_the_pods_of_a_job_are_one_gang_until_the_last_is_gone() -> None:
    other = pod(2, annotations=NATIVE, owners=({**JOB, "uid": "job-2"},))
    found = of(*(pod(number, annotations=NATIVE) for number in range(2)), other)
    assert set(found.jobs()) == {GANG, gang_of_job("job-2")}
    found.pod(KEY, None)
    assert set(found.jobs()) == {GANG, gang_of_job("job-2")}
    found.all_pods({KEY: other})
    assert set(found.jobs()) == {gang_of_job("job-2")}
    found.all_pods({})
    assert (len(found), found.jobs()) == (0, {})


def test_people_are_told_what_its_pod_group_asks_of_volcano_and_how_it_stands() -> None:
    found = of(*(pod(number, gates=(), annotations=NATIVE) for number in range(2)))
    waiting = pod_group("Inqueue", groups=ASKED, why="2/2 tasks unschedulable")
    shown = NativePolicy(
        gangs=found,
        context=gang_context(waiting, kind_of_tier={1: DRAGONFLY}.get),
        capacity=lambda: dragonflies(1),
        unheeded=lambda: "Volcano ignores them",
        store=status_store(),
        labelled=LabelledNodes(gang_context()),
    )
    ((gang, stands),) = shown.all()
    assert (gang.name, len(gang.members), stands.state) == ("train", 2, GangState.NATIVE)
    assert stands.text == (
        "Volcano chooses its nodes; asked of it: 2 pods in one dragonfly (hard, tier 1), but"
        " Volcano ignores them; none of 2 pods is bound; its PodGroup is Inqueue: 2/2 tasks"
        " unschedulable"
    )
    assert shown.get(gang.id) == (gang, stands)
    assert shown.get(gang_of_job("job-2")) is None


@pytest.mark.parametrize("key", ["metax-tech.com/dragonfly", ""])
def test_a_pod_group_of_kubernetes_without_its_constraint_names_no_groups(key: str) -> None:
    """The API server drops a constraint that its gate does not know."""
    topology = {"topology": [{"key": key}]} if key else None
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "schedulingConstraints": topology}
    document = {"metadata": {"name": "g", "namespace": "jobs"}, "spec": spec}
    group = TypeAdapter(SchedulingGroupObject).validate_python(document)
    made = [
        pod(rank, gates=(), group="", annotations=NATIVE, schedulingGroup={"podGroupName": "g"})
        for rank in range(2)
    ]
    shown = NativePolicy(
        gangs=of(*made),
        context=gang_context(
            scheduling_groups=lambda: {("jobs", "g"): group},
            kind_of_label={"metax-tech.com/dragonfly": DRAGONFLY}.get,
            tier_of_kind={DRAGONFLY: 1}.get,
            kind_of_tier={1: DRAGONFLY}.get,
        ),
        capacity=lambda: dragonflies(1),
        unheeded=lambda: "",
        store=status_store(),
        labelled=LabelledNodes(gang_context()),
    )
    ((_, stands),) = shown.all()
    assert ("one dragonfly" in stands.text) == bool(key)
    assert ("constraint" in stands.text) == (not key)


def test_gangs_that_changed_are_taken_until_enough_pods_are_reached_each_once() -> None:
    uids = [f"job-{number}" for number in range(3)]
    owners, gangs = [({**JOB, "uid": uid},) for uid in uids], [*map(gang_of_job, uids)]
    found = of(*(pod(number, annotations=NATIVE, owners=owners[number]) for number in range(3)))
    assert list(found.take(3)) == gangs[:2]
    found.pod(KEY, None)
    assert list(found.take(100)) == [gangs[2], gangs[0]]
    assert list(found.take(100)) == []
    found.mark_all()
    assert list(found.take(100)) == gangs[1:]


def test_a_pod_group_without_constraints_was_made_without_the_webhook() -> None:
    found = of(pod(0, gates=(), annotations=NATIVE))
    assert bypassed(found, pod_group("Inqueue")) == ["train-worker-0"]
    assert bypassed(found, pod_group("Inqueue", groups=[{"name": "g"}])) == []
    assert bypassed(found, pod_group("Inqueue", topology={"mode": "soft"})) == []
    assert bypassed(found) == [], "it is not known yet"


@pytest.mark.parametrize(
    ("key", "asked"),
    [
        ("metax-tech.com/dragonfly", "each group in one dragonfly (hard, tier 1)"),
        ("", "each group as near to each other as can be (soft)"),
    ],
)
def test_people_are_told_what_a_gang_of_kueue_asks_for(key: str, asked: str) -> None:
    """Kueue makes no PodGroup: the label of each group's level is stamped on the template."""
    annotations = {**NATIVE, **({WORDS.topology_key: key} if key else {})}
    made = [
        replace(pod(rank, gates=(), group="", annotations=annotations), is_of_kueue=True)
        for rank in range(2)
    ]
    shown = NativePolicy(
        gangs=of(*made),
        context=gang_context(
            kind_of_label={"metax-tech.com/dragonfly": DRAGONFLY}.get,
            tier_of_kind={DRAGONFLY: 1}.get,
            kind_of_tier={1: DRAGONFLY}.get,
        ),
        capacity=lambda: dragonflies(1),
        unheeded=lambda: "Volcano ignores them",
        store=status_store(),
        labelled=LabelledNodes(gang_context()),
    )
    ((_, stands),) = shown.all()
    assert stands.text == (
        f"Kueue chooses its nodes; asked of it: {asked}, which it heeds; none of 2 pods is bound"
    )


def test_a_gang_of_kueue_waits_for_a_label_that_no_node_has_and_goes_on_once_one_has_it() -> None:
    key, now_s = "metax-tech.com/dragonfly", 0.0
    made = replace(
        pod(0, gates=(), group="", annotations={**NATIVE, WORDS.topology_key: key}),
        is_of_kueue=True,
    )
    nodes: list[Any] = []
    context = gang_context(
        kind_of_label={key: DRAGONFLY}.get,
        tier_of_kind={DRAGONFLY: 1}.get,
        kind_of_tier={1: DRAGONFLY}.get,
        nodes=lambda: nodes,
        clock=lambda: now_s,
    )
    store = status_store()
    shown = NativePolicy(
        gangs=of(made),
        context=context,
        capacity=lambda: dragonflies(1),
        unheeded=str,
        store=store,
        labelled=LabelledNodes(context),
    )

    def stands() -> tuple[GangState, bool]:
        ((gang, status),) = shown.all()
        shown.gangs.mark_all()
        shown.report()
        return status.state, gang.id in {each for each, _, _ in store.announced()}

    assert stands() == (GangState.NATIVE, False), "no node is known yet"
    nodes, now_s = [labelled_node("n1", x="y")], 1.0
    assert stands() == (GangState.NO_LABELS, True)
    ((_, status),) = shown.all()
    assert f"but no node has the label {key}, so it can bind none" in status.text
    nodes, now_s = [*nodes, labelled_node("n2", **{key: "dragonfly-1"})], 2.0
    assert stands() == (GangState.NATIVE, False)
