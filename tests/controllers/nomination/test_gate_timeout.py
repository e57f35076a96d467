"""Gates that nobody opens: a master that lives and hears the cluster opens them, leader or not."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from master.controllers.nomination.status.gate_timeout import LOOK_S, GateTimeout
from tests.controllers.nomination.masters import PODS_OF_GANG, GangCluster, Leader, Way, leader
from tests.controllers.nomination.objects import WORDS

pytestmark = pytest.mark.virtual_time
LIMIT_S = 900.0


def true() -> bool:
    return True


def false() -> bool:
    return False


@asynccontextmanager
async def replica(
    cluster: GangCluster,
    *,
    is_attended: Callable[[], bool] = false,
    is_heard: Callable[[], bool] = true,
    limit_s: float = LIMIT_S,
    leads: bool = False,
) -> AsyncIterator[GateTimeout]:
    """A master that places nothing: it follows, or leads and knows too little of its cluster."""

    def watched(made: Leader) -> GateTimeout:
        return GateTimeout(
            limit_s=limit_s,
            is_attended=is_attended,
            is_heard=is_heard,
            pods=made.pods,
            writer=made.writer,
            status_writer=made.nomination.status.writer,
            keys=WORDS,
            registry=made.registry,
            clock=asyncio.get_running_loop().time,
        )

    async with leader(cluster, Way(cluster.api), is_counted=false, leads=leads) as made:
        unattended = watched(made)
        made.writer.may_write = lambda: unattended.is_over
        task = asyncio.ensure_future(unattended.run())
        try:
            yield unattended
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_gates_open_after_the_time_and_not_before_and_it_is_told():
    cluster = GangCluster("volcano")
    async with replica(cluster) as unattended:
        cluster.submit()
        await asyncio.sleep(LIMIT_S - 3 * LOOK_S)
        assert cluster.bound == []
        assert not [call for call in cluster.api.calls if call.method != "GET"]
        await asyncio.sleep(6 * LOOK_S)
        assert cluster.is_open
        assert len(cluster.bound) == PODS_OF_GANG
        (told,) = [call for call in cluster.api.calls if "/events" in call.path]
        assert b'"GangNotPlaced"' in (told.body or b"")
        assert b"no master has placed gangs for 900 s (--gate-timeout)" in (told.body or b"")
        counted, asked = "topo_master_gang_gates_opened_total", {"how": "unplanned"}
        assert unattended.registry.get_sample_value(counted, asked) == PODS_OF_GANG


async def test_a_pod_that_comes_later_is_opened_at_once_as_long_as_nobody_places():
    cluster = GangCluster("kube-scheduler")
    async with replica(cluster):
        await asyncio.sleep(LIMIT_S + 10)
        cluster.submit()
        await asyncio.sleep(3 * LOOK_S)
        assert cluster.is_open


async def test_a_leader_that_never_knew_its_tree_opens_them_too_having_said_what_it_waits_for():
    cluster = GangCluster("kube-scheduler")
    async with replica(cluster, leads=True):
        cluster.submit()
        await asyncio.sleep(LIMIT_S + 30)
        assert len(cluster.bound) == PODS_OF_GANG
        told = [call.body or b"" for call in cluster.api.calls if "/events" in call.path]
        assert {b'"GangFindsNoGroups"' in each for each in told} == {True, False}


async def test_while_somebody_places_a_gate_may_stay_for_ever():
    cluster, loop = GangCluster("volcano"), asyncio.get_running_loop()
    async with replica(cluster, is_attended=lambda: loop.time() % 800 < 5):
        cluster.submit()
        await asyncio.sleep(20 * LIMIT_S)
        assert not cluster.is_open


async def test_time_without_the_api_server_does_not_count():
    """When it is back, somebody leads within seconds."""
    cluster, loop = GangCluster("volcano"), asyncio.get_running_loop()
    began_s = loop.time()
    async with replica(cluster, is_heard=lambda: not 10 < loop.time() - began_s < 5000):
        cluster.submit()
        await asyncio.sleep(5000 + LIMIT_S - 20)
        assert cluster.bound == []
        await asyncio.sleep(20)
        assert cluster.is_open


async def test_it_can_be_switched_off():
    cluster = GangCluster("volcano")
    async with replica(cluster, limit_s=0.0):
        cluster.submit()
        await asyncio.sleep(10 * LIMIT_S)
        assert not cluster.is_open


async def test_two_replicas_that_see_no_leader_open_each_gate_once():
    cluster = GangCluster("volcano")
    async with replica(cluster), replica(cluster):
        cluster.submit()
        await asyncio.sleep(LIMIT_S + 30)
        assert cluster.is_open
        opened = [name for what, name in cluster.api.writes if name.startswith("pod-")]
        assert sorted(opened) == [f"pod-{rank}" for rank in range(PODS_OF_GANG)]
