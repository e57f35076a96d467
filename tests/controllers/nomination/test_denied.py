"""A gang that is told there is no room although there is some is counted, after a second look."""

import asyncio
from collections.abc import Mapping

import prometheus_client as prom
import pytest

from master.controllers.nomination.denied import RECOUNT_S, DeniedRoom
from master.kube.objects import PODS
from tests.controllers.nomination.masters import FLIES, GangCluster, Leader, Way, leader
from topo.gangs.gang import Gang, GangId

pytestmark = pytest.mark.virtual_time


def recount(made: Leader, waiting: Mapping[GangId, Gang] | None = None) -> DeniedRoom:
    nomination = made.nomination
    asked = nomination.shown.without_room if waiting is None else (lambda: waiting)
    return DeniedRoom(
        asked, nomination.sources.pods, made.placements.state, prom.CollectorRegistry()
    )


async def test_a_gang_that_waits_for_room_that_there_is_not_is_none():
    cluster = GangCluster("volcano")
    for fly in FLIES[:3]:
        cluster.take(min(fly))
    async with leader(cluster, Way(cluster.api)) as made:
        cluster.submit()
        await asyncio.sleep(10)
        waiting = made.nomination.shown.without_room()
        assert [gang.name for gang in waiting.values()] == ["train"]
        looking = recount(made)
        for _ in range(3):
            await looking.look()
        assert looking.denied == frozenset()


async def test_one_that_is_denied_room_counts_from_the_second_look_on_until_it_is_not():
    cluster = GangCluster("volcano")
    for fly in FLIES[:3]:
        cluster.take(min(fly))
    async with leader(cluster, Way(cluster.api)) as made:
        cluster.submit()
        await asyncio.sleep(10)
        told = dict(made.nomination.shown.without_room())
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
