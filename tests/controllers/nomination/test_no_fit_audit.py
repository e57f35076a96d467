"""A gang that is told there is no room although there is some is counted, after a second look."""

import asyncio
from collections.abc import Mapping

import prometheus_client as prom
import pytest

from master.controllers.nomination.status.no_fit_audit import RECOUNT_S, NoFitAudit
from master.kube.objects import PODS
from tests.controllers.nomination.masters import (
    FLIES,
    GangCluster,
    Leader,
    Scheduler,
    Way,
    leader,
    leading,
)
from topo.gangs.machine.gang import Gang, GangId
from topo.gangs.machine.settings import GangSettings
from topo.model.conditions.gang_states import GangState

pytestmark = pytest.mark.virtual_time


def cluster_without_room(scheduler: Scheduler) -> GangCluster:
    """Of each of the first three dragonflies one node is taken by somebody else's pod."""
    cluster = GangCluster(scheduler)
    for fly in FLIES[:3]:
        cluster.take(min(fly))
    return cluster


def recount(made: Leader, waiting: Mapping[GangId, Gang] | None = None) -> NoFitAudit:
    nomination = made.nomination
    asked = nomination.view.without_room if waiting is None else (lambda: waiting)
    return NoFitAudit(asked, made.pods, made.placements.state, prom.CollectorRegistry())


async def test_a_gang_that_waits_for_room_that_there_is_not_is_none():
    cluster = cluster_without_room("volcano")
    async with leader(cluster, Way(cluster.api)) as made:
        cluster.submit()
        await asyncio.sleep(10)
        waiting = made.nomination.view.without_room()
        assert [gang.name for gang in waiting.values()] == ["train"]
        looking = recount(made)
        for _ in range(3):
            await looking.look()
        assert looking.denied == frozenset()


@pytest.mark.parametrize(
    ("in_volcano", "preempt_s", "told"),
    [(True, 600.0, 1), (True, None, 0), (False, 600.0, 0)],
)
async def test_one_of_several_groups_says_when_volcano_would_be_let_evict_for_it(
    *, in_volcano: bool, preempt_s: float | None, told: int
):
    cluster = cluster_without_room("volcano" if in_volcano else "kube-scheduler")
    settings = GangSettings(preempt_s=preempt_s)
    way = Way(cluster.api)
    async with leading(cluster.api, way, in_volcano=in_volcano, settings=settings) as made:
        cluster.submit()
        await asyncio.sleep(10)
        ((_, stands),) = made.nomination.view.all()
        assert stands.state is GangState.NO_ROOM
        assert stands.text.count("only where one domain holds all of its groups") == told
        step = "submit it as an Indexed batch Job, with gpu-group-mode: preferred, or end such pods"
        assert stands.text.count(step) == told


async def test_one_that_is_denied_room_counts_from_the_second_look_on_until_it_is_not():
    cluster = cluster_without_room("volcano")
    async with leader(cluster, Way(cluster.api)) as made:
        cluster.submit()
        await asyncio.sleep(10)
        told = dict(made.nomination.view.without_room())
        for fly in FLIES[:3]:  # it is placed now; say that nobody told it
            cluster.api.remove(PODS, f"taker-{min(fly)}", "others")
        cluster.end()
        await asyncio.sleep(RECOUNT_S)
        looking = recount(made, told)
        await looking.look()
        assert looking.denied == frozenset()
        await looking.look()
        assert looking.denied == told.keys()
        told.clear()
        await looking.look()
        assert looking.denied == frozenset()
