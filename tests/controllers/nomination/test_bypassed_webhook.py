"""A pod that was made without our gate is counted and told, whatever becomes of it."""

import asyncio
from typing import Any

import pytest

from master.kube.objects import PODS
from tests.controllers.nomination.masters import (
    FLIES,
    PODS_OF_GANG,
    GangCluster,
    Leader,
    Scheduler,
    Way,
    leader,
    until,
)
from tests.controllers.nomination.objects import GPU, JOB, WORDS

pytestmark = pytest.mark.virtual_time


def counted(made: Leader) -> float | None:
    return made.registry.get_sample_value("topo_master_gang_pods_slipped_total")


@pytest.mark.parametrize("scheduler", ["volcano", "kube-scheduler"])
async def test_one_that_is_planned_with_its_gated_siblings_within_moments_is_counted_and_told(
    scheduler: Scheduler,
):
    cluster = GangCluster(scheduler, slipped=2)
    async with leader(cluster, Way(cluster.api)) as made:
        cluster.submit()
        await until(lambda: len(cluster.bound) == PODS_OF_GANG)
        await asyncio.sleep(10)
        assert counted(made) == 1
        told = [call.body or b"" for call in cluster.api.calls if "/events" in call.path]
        (passed,) = [body for body in told if b'"GangPassedBy"' in body]
        assert b"unless topo why says that it is placed or bound" in passed
        where = dict(cluster.bound)
        for pair in (("pod-0", "pod-1"), ("pod-2", "pod-3")):
            assert {where[name] for name in pair} in FLIES


async def test_a_job_that_can_have_no_groups_is_told_why_once_and_passed_nobody_by():
    cluster, why = GangCluster("kube-scheduler"), "gpu-group-size 12 is not a multiple of 8"
    async with leader(cluster, Way(cluster.api)) as made:
        for rank in range(2):
            annotations = {WORDS.size: "12", WORDS.ungrouped: why}
            metadata = {"namespace": "jobs", "annotations": annotations, "ownerReferences": [JOB]}
            container = {"name": "main", "resources": {"limits": {GPU: "8"}}}
            spec, status = {"containers": [container]}, {"phase": "Pending"}
            cluster.api.add(PODS, f"odd-{rank}", metadata=metadata, spec=spec, status=status)
        await asyncio.sleep(10)
        bodies = [call.body or b"" for call in cluster.api.calls if "/events" in call.path]
        (told,) = bodies
        assert b'"GangUngrouped"' in told
        assert f"no groups are planned: {why}".encode() in told
        assert counted(made) == 0
        assert made.nomination.warnings() == ()


async def test_one_that_waits_for_ever_is_counted_once_and_none_after_its_job_is_gone():
    cluster = GangCluster("volcano", slipped=0)
    async with leader(cluster, Way(cluster.api)) as made:
        for fly in FLIES:
            cluster.take(min(fly))
        cluster.submit()
        await asyncio.sleep(120)
        assert counted(made) == 1
        assert [each.code for each in made.nomination.warnings()] == ["gang-passed-by"]
        cluster.end()
        await asyncio.sleep(120)
        assert counted(made) == 1
        assert made.nomination.warnings() == ()


@pytest.mark.parametrize(
    ("owner", "why"),
    [
        (("apps/v1", "ReplicaSet"), "pods of a ReplicaSet get none"),
        (("example.com/v1", "Job"), "pods of a Job get none"),
        (None, "pods without a job get none"),
    ],
)
async def test_pods_of_another_kind_are_told_which_kinds_get_groups(
    owner: tuple[str, str] | None, why: str
):
    cluster = GangCluster("kube-scheduler")
    async with leader(cluster, Way(cluster.api)) as made:
        metadata: dict[str, Any] = {"namespace": "jobs", "annotations": {WORDS.size: "16"}}
        if owner is not None:
            metadata["ownerReferences"] = [{**JOB, "apiVersion": owner[0], "kind": owner[1]}]
        container = {"name": "main", "resources": {"limits": {GPU: "8"}}}
        spec, status = {"containers": [container]}, {"phase": "Pending"}
        cluster.api.add(PODS, "serve-0", metadata=metadata, spec=spec, status=status)
        await asyncio.sleep(10)
        (told,) = [call.body or b"" for call in cluster.api.calls if "/events" in call.path]
        assert b'"GangUngrouped"' in told
        assert f"{why}, these do: Volcano Job, batch Job".encode() in told
        assert counted(made) == 0
