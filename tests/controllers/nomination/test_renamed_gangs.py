"""After an upgrade that gives gangs other ids no gang owns the old notes, labels and holds."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from master.kube.objects import PODS
from master.sources.kubernetes import pod_gangs
from tests.controllers.nomination.masters import (
    FLIES,
    NODE_NAMES,
    PODS_OF_GANG,
    GangCluster,
    Leader,
    Scheduler,
    Way,
    leader,
)
from tests.controllers.nomination.objects import GANG, WORDS
from topo.gangs.machine.gang import GangId
from topo.model.conditions.gang_states import GangState

pytestmark = pytest.mark.virtual_time

SOON_S = 15.0
OLD = GangId("job-1")
every_scheduler = pytest.mark.parametrize("scheduler", ["volcano", "kube-scheduler"])


@asynccontextmanager
async def upgraded(cluster: GangCluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Leader]:
    """The leader after one that knew the gang by another id, and placed it."""
    with monkeypatch.context() as patched:
        patched.setattr(pod_gangs, "gang_of_owner", lambda *_: OLD)
        async with leader(cluster, Way(cluster.api)) as before:
            cluster.submit()
            await asyncio.sleep(SOON_S)
            kept = before.placements.state.persistent_state()
    async with leader(cluster, Way(cluster.api), kept) as after:
        await asyncio.sleep(SOON_S)
        yield after


def state(made: Leader) -> GangState:
    found: Any = made.nomination.view.get(GANG)
    return GangState(found[1].state)


def must_be_whole(cluster: GangCluster) -> None:
    home = dict(cluster.bound)
    assert len(home) == PODS_OF_GANG
    for pair in (("pod-0", "pod-1"), ("pod-2", "pod-3")):
        assert {home[name] for name in pair} in FLIES


@every_scheduler
async def test_a_job_that_runs_goes_on_and_its_nodes_keep_what_its_pods_select_until_they_end(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = GangCluster(scheduler)
    async with upgraded(cluster, monkeypatch) as made:
        assert len(cluster.bound) == PODS_OF_GANG
        assert state(made) is GangState.BOUND
        assert made.holds == 0
        old = WORDS.node_label_prefix + OLD
        assert {name for name, labels in cluster.api.labels().items() if old in labels} == {
            *dict(cluster.bound).values()
        }
        home = dict(cluster.bound)["pod-1"]
        cluster.api.remove(PODS, "pod-1", "jobs")
        await asyncio.sleep(SOON_S)
        cluster.create(1)
        await asyncio.sleep(SOON_S)
        assert cluster.bound[PODS_OF_GANG:] == [("pod-1", home)]
        cluster.end()
        await asyncio.sleep(SOON_S)
        assert not any(cluster.api.labels().values())


@every_scheduler
async def test_a_job_that_waits_is_planned_again(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = GangCluster(scheduler)
    for node in NODE_NAMES:
        cluster.take(node)
    async with upgraded(cluster, monkeypatch) as made:
        assert state(made) is GangState.NO_ROOM
        for node in NODE_NAMES:
            cluster.api.remove(PODS, f"taker-{node}", "others")
        await asyncio.sleep(SOON_S)
        must_be_whole(cluster)


@every_scheduler
async def test_a_job_that_is_opened_and_not_bound_is_planned_again_once_its_pods_are_deleted(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = GangCluster(scheduler, binds=False)
    async with upgraded(cluster, monkeypatch) as made:
        assert state(made) is GangState.OPENED
        cluster.binds = True
        cluster.schedule()
        await asyncio.sleep(SOON_S)
        assert not cluster.bound
        cluster.end()
        for rank in range(PODS_OF_GANG):
            cluster.create(rank)
        await asyncio.sleep(SOON_S)
        must_be_whole(cluster)
        assert state(made) is GangState.BOUND
