"""Gangs on stock schedulers: whole groups, each pod on the node that was planned for it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.e2e.controlplane.client import Api, ApiError
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.scheduling.gang_master import GangMaster
from tests.e2e.scheduling.jobs import (
    JOBS,
    NODES,
    PODS,
    Seen,
    are_whole,
    bound,
    events_of,
    gang_labels,
    pods_of,
    taker,
    volcano_job,
)
from tests.e2e.scheduling.tour import half_of_first
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World

POD_GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
pytestmark = pytest.mark.usefixtures("master")


async def take(api: Api, nodes: Sequence[str]) -> None:
    """Pods of somebody else's get these nodes."""
    for node in nodes:
        await api.create(PODS, taker(f"taker-{node}", node))


def nodes_of(pods: Sequence[Seen]) -> list[str]:
    """Where the pods are, by rank; each where its note says."""
    assert [each.node for each in pods] == [each.planned for each in pods]
    return [each.node for each in pods]


@asynccontextmanager
async def no_volcano_scheduler(cluster: Cluster) -> AsyncIterator[None]:
    """Volcano's scheduler is away for a while, so that what is planned stays to be seen."""
    scheduler = cluster.volcano[1]
    scheduler.stop()
    try:
        yield
    finally:
        scheduler.start()


async def opened(api: Api, job: str, pods: int) -> bool:
    """Whether the gates of so many pods of the job are open."""
    found = await pods_of(api, job)
    return len(found) == pods and not any(each.gated for each in found)


async def let_in(api: Api, job: Any) -> None:
    """Makes the job, and lets its PodGroup in in the place of the scheduler that is away."""
    made = await api.create(JOBS, job)
    group = f"{POD_GROUPS}/{made['metadata']['name']}-{made['metadata']['uid']}"
    await eventually(lambda: _is_there(api, group))
    await api.merge(group, {"status": {"phase": "Inqueue"}})


async def _is_there(api: Api, path: str) -> bool:
    try:
        await api.get(path)
    except ApiError:
        return False
    return True


async def _has_pods(api: Api, job: str, pods: int) -> bool:
    return len(await pods_of(api, job)) == pods


async def test_the_samples_eight_pods_are_in_one_switchbox_each_where_it_was_planned(
    api: Api, world: World
) -> None:
    await take(api, [str(world.nodes[0].name)])
    await api.create(JOBS, volcano_job("sample", 8, 64))
    await eventually(lambda: bound(api, "sample", 8))
    nodes = nodes_of(await pods_of(api, "sample"))
    assert are_whole(world, "switchbox", nodes, 8)
    assert len(set(nodes)) == 8


async def test_a_gang_that_does_not_fit_says_why_and_starts_when_there_is_room(
    api: Api, world: World
) -> None:
    taken = [*half_of_first(world), str(world.nodes[-1].name)]
    await take(api, taken)
    await api.create(JOBS, volcano_job("waits", 8, 16))
    await eventually(lambda: _is_told(api, "waits", "GangDoesNotFit"))
    pods = await pods_of(api, "waits")
    assert all(each.gated and not each.node for each in pods)
    await api.delete(f"{PODS}/taker-{taken[-1]}")
    await eventually(lambda: bound(api, "waits", 8))
    assert are_whole(world, "dragonfly", nodes_of(await pods_of(api, "waits")), 2)


async def test_a_gang_whose_job_is_deleted_midway_leaves_no_label_and_no_hold(
    api: Api, cluster: Cluster
) -> None:
    async with no_volcano_scheduler(cluster):
        await let_in(api, volcano_job("gone", 16, 64))
        await eventually(lambda: opened(api, "gone", 16))
        assert [len(nodes) for nodes in (await gang_labels(api)).values()] == [16]
        await api.delete(f"{JOBS}/gone")
        await eventually(lambda: _has_pods(api, "gone", 0))
        await eventually(lambda: _no_labels(api))
    await api.create(JOBS, volcano_job("next", 16, 64))
    await eventually(lambda: bound(api, "next", 16))


async def test_a_foreign_pod_on_a_planned_node_moves_that_pod_and_leaves_the_group_whole(
    api: Api, cluster: Cluster, world: World
) -> None:
    async with no_volcano_scheduler(cluster):
        await let_in(api, volcano_job("moved", 4, 32))
        await eventually(lambda: opened(api, "moved", 4))
        lost = (await pods_of(api, "moved"))[2].planned
        await take(api, [lost])
        await eventually(lambda: _is_replanned(api, "moved", lost))
    await eventually(lambda: bound(api, "moved", 4))
    nodes = nodes_of(await pods_of(api, "moved"))
    assert lost not in nodes
    assert are_whole(world, "switchbox", nodes, 4)


async def test_a_planned_node_that_is_cordoned_is_replaced(
    api: Api, cluster: Cluster, world: World
) -> None:
    async with no_volcano_scheduler(cluster):
        await let_in(api, volcano_job("cordoned", 4, 32))
        await eventually(lambda: opened(api, "cordoned", 4))
        lost = (await pods_of(api, "cordoned"))[1].planned
        await api.merge(f"{NODES}/{lost}", {"spec": {"unschedulable": True}})
        try:
            await eventually(lambda: _is_replanned(api, "cordoned", lost))
        finally:
            await api.merge(f"{NODES}/{lost}", {"spec": {"unschedulable": None}})
    await eventually(lambda: bound(api, "cordoned", 4))
    assert are_whole(world, "switchbox", nodes_of(await pods_of(api, "cordoned")), 4)


@pytest.mark.parametrize("moment", ["labelled", "planned", "opened"])
async def test_a_master_that_is_killed_between_two_writes_is_gone_on_for_by_the_next(
    api: Api, master: GangMaster, world: World, moment: str
) -> None:
    job = f"killed-{moment}"
    await api.create(JOBS, volcano_job(job, 8, 16))
    await eventually(lambda: _is_at(api, job, moment))
    await master.kill()
    master.start()
    await eventually(lambda: bound(api, job, 8))
    assert are_whole(world, "dragonfly", nodes_of(await pods_of(api, job)), 2)


async def _is_at(api: Api, job: str, moment: str) -> bool:
    if moment == "labelled":
        return bool(await gang_labels(api))
    pods = await pods_of(api, job)
    if moment == "planned":
        return any(each.planned for each in pods)
    return bool(pods) and any(not each.gated for each in pods)


async def _is_replanned(api: Api, job: str, lost: str) -> bool:
    pods = await pods_of(api, job)
    return all(each.planned and each.planned != lost for each in pods)


async def _is_told(api: Api, job: str, reason: str) -> bool:
    return reason in await events_of(api, job)


async def _no_labels(api: Api) -> bool:
    return not await gang_labels(api)
