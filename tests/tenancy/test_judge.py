"""The judge of shared clusters sees each fault that it is there for."""

import random
from collections.abc import Iterator

import pytest

from tests.tenancy.cluster import SharedCluster, vendor
from tests.tenancy.jobs import Document, UserJob, Wish, batch_job
from tests.tenancy.judge import (
    UNSEEN_S,
    Ledger,
    first_delayed,
    flaws,
    lost_places,
    owner_of,
    standing,
)

KEY = ("jobs", "train")


@pytest.fixture
def cluster() -> SharedCluster:
    """The vendor's nodes, and a job of two pairs whose pods have places and no node."""
    found = SharedCluster(vendor(), random.Random(1))  # noqa: S311 - a seed for a test
    found.submit(batch_job(Wish(namespace="jobs", name="train", pods=4)))
    return found


def job_of(cluster: SharedCluster) -> UserJob:
    return cluster.jobs[KEY]


def pods_of(cluster: SharedCluster) -> list[Document]:
    return [*cluster.pods_of(KEY, job_of(cluster))]


def plan(cluster: SharedCluster, *nodes: str) -> None:
    for pod, node in zip(pods_of(cluster), nodes, strict=True):
        note = f'{{"node":"{node}","hold":"h","gang":"g"}}'
        pod["metadata"]["annotations"]["metax-tech.com/placement"] = note


def run(cluster: SharedCluster, *nodes: str) -> None:
    plan(cluster, *nodes)
    for pod, node in zip(pods_of(cluster), nodes, strict=True):
        pod["spec"] |= {"nodeName": node, "schedulingGates": []}
        pod["status"]["phase"] = "Running"


def booked(cluster: SharedCluster) -> dict[str, dict[str, int]]:
    return {owner_of(pod): {pod["spec"]["nodeName"]: 8} for pod in pods_of(cluster)}


def test_pairs_that_run_in_one_dragonfly_each_are_well(cluster: SharedCluster) -> None:
    run(cluster, "node-1", "node-2", "node-5", "node-6")
    assert not [*flaws(cluster)]
    assert not [*Ledger().flaws(cluster, booked(cluster))]
    assert not first_delayed(cluster, cluster.used())


def test_a_pair_in_two_dragonflies_is_split(cluster: SharedCluster) -> None:
    run(cluster, "node-1", "node-3", "node-5", "node-6")
    assert [each for each in flaws(cluster) if "group 0 is split" in each]


def test_a_pod_whose_gate_went_without_a_plan_is_found(cluster: SharedCluster) -> None:
    pods_of(cluster)[0]["spec"]["schedulingGates"] = []
    assert [each for each in flaws(cluster) if "opened without a plan" in each]


@pytest.mark.parametrize("change", ["node", "hold", "gone"])
def test_a_place_that_goes_without_a_reason_is_found(cluster: SharedCluster, change: str) -> None:
    cluster.clock = lambda: 100.0
    plan(cluster, "node-1", "node-2", "node-5", "node-6")
    before = standing(cluster, KEY, job_of(cluster))
    annotations = pods_of(cluster)[0]["metadata"]["annotations"]
    text = annotations["metax-tech.com/placement"]
    told = {"node": text.replace("node-1", "node-8"), "hold": text.replace('"h"', '"k"')}
    annotations["metax-tech.com/placement"] = told.get(change, "{}")
    now = standing(cluster, KEY, job_of(cluster))
    assert [*lost_places(cluster, KEY, before, now)]
    cluster.touched_s["node-1"] = 99.0
    assert not [*lost_places(cluster, KEY, before, now)]


def test_a_plan_of_a_part_of_the_pods_is_no_place_until_one_of_them_is_opened(
    cluster: SharedCluster,
) -> None:
    cluster.clock = lambda: 100.0
    plan(cluster, "node-1", "node-2", "node-5", "node-6")
    first, second = (pod["metadata"]["annotations"] for pod in pods_of(cluster)[:2])
    del second["metax-tech.com/placement"]
    before = standing(cluster, KEY, job_of(cluster))
    kept, first["metax-tech.com/placement"] = first["metax-tech.com/placement"], "{}"
    assert not [*lost_places(cluster, KEY, before, standing(cluster, KEY, job_of(cluster)))]
    first["metax-tech.com/placement"] = kept
    pods_of(cluster)[2]["spec"]["schedulingGates"] = []
    before = standing(cluster, KEY, job_of(cluster))
    first["metax-tech.com/placement"] = "{}"
    assert [*lost_places(cluster, KEY, before, standing(cluster, KEY, job_of(cluster)))]


def counted_wrongly(cluster: SharedCluster) -> Iterator[dict[str, dict[str, int]]]:
    yield {}
    yield {**booked(cluster), "hold-1": {"node-1": 8}}
    yield {**booked(cluster), "pod/evil/x/uid": {"node-8": 8}}
    first, *_ = booked(cluster)
    yield {**booked(cluster), first: {"node-8": 8}}


def test_counts_that_are_not_those_of_the_nodes_are_found(cluster: SharedCluster) -> None:
    run(cluster, "node-1", "node-2", "node-5", "node-6")
    for wrong in counted_wrongly(cluster):
        assert [*Ledger().flaws(cluster, wrong)], wrong


def test_counts_of_nodes_that_no_master_can_know_yet_are_not_judged(cluster: SharedCluster) -> None:
    run(cluster, "node-1", "node-2", "node-5", "node-6")
    cluster.touched_s |= dict.fromkeys(("node-1", "node-2", "node-5", "node-6", "node-8"), 0.0)
    for wrong in counted_wrongly(cluster):
        assert not [*Ledger().flaws(cluster, wrong)], wrong
    cluster.clock = lambda: UNSEEN_S
    for wrong in counted_wrongly(cluster):
        assert [*Ledger().flaws(cluster, wrong)], wrong


def test_a_pod_that_takes_what_was_held_before_it_came_is_no_fault(cluster: SharedCluster) -> None:
    ledger = Ledger()
    ledger.look(cluster, {"hold-1": {"node-1": 8}})
    run(cluster, "node-1", "node-2", "node-5", "node-6")
    assert not [*ledger.flaws(cluster, {**booked(cluster), "hold-1": {"node-1": 8}})]


def test_a_job_that_has_room_and_waits_is_found(cluster: SharedCluster) -> None:
    assert "has room" in first_delayed(cluster, {})
    assert "has room" in first_delayed(cluster, {"node-1": 8, "node-3": 8})
    assert not first_delayed(cluster, {"node-1": 8, "node-3": 8, "node-5": 1})
