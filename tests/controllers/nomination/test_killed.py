"""A leader that dies after any one of its writes, and the next one, which ends what was begun."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import pytest

from master.kube.objects import PODS
from tests.controllers.nomination.masters import (
    FLIES,
    PODS_OF_GANG,
    GangCluster,
    InFlight,
    Leader,
    Scheduler,
    Way,
    leader,
    until,
)
from tests.controllers.nomination.objects import GANG

pytestmark = pytest.mark.virtual_time

SOON_S = 15.0
"""A course is over by then, if nobody dies."""
Holds = Literal["kept", "gone"]
every_death = pytest.mark.parametrize(
    ("scheduler", "in_flight", "holds"),
    [
        ("volcano", "lost", "kept"),
        ("volcano", "landed", "gone"),
        ("kube-scheduler", "landed", "kept"),
        ("kube-scheduler", "lost", "gone"),
    ],
)
"""Requests that were sent are lost or take effect; the state with the holds is there or is not."""


async def dies(way: Way) -> bool:
    """Whether the leader dies in its course; one that does not has more deaths than writes."""
    try:
        await asyncio.wait_for(way.died.wait(), SOON_S)
    except TimeoutError:
        return False
    return True


@asynccontextmanager
async def next_leader(cluster: GangCluster, dead: Leader, *, holds: Holds) -> AsyncIterator[Leader]:
    """The one that takes over, from what is in the cluster and maybe the holds that were kept."""
    kept = dead.placements.state.persistent_state() if holds == "kept" else None
    async with leader(cluster, Way(cluster.api), kept) as running:
        yield running


async def must_end_whole_and_leave_nothing(cluster: GangCluster, running: Leader) -> None:
    """Each pod is bound once, each pair in one dragonfly; then the job ends."""
    await until(lambda: len(cluster.bound) == PODS_OF_GANG)
    await asyncio.sleep(SOON_S)
    home = dict(cluster.bound)
    assert len(cluster.bound) == len(home) == len(set(home.values()))
    for pair in (("pod-0", "pod-1"), ("pod-2", "pod-3")):
        assert {home[name] for name in pair} in FLIES
    assert cluster.labelled() == set(home.values())
    cluster.end()
    await until(lambda: not cluster.labelled())
    await until(lambda: running.holds == 0)


@every_death
async def test_after_any_write_of_a_placement_the_next_leader_ends_it_whole_and_once(
    scheduler: Scheduler, in_flight: InFlight, holds: Holds
) -> None:
    for number in itertools.count(1):
        cluster = GangCluster(scheduler)
        way = Way(cluster.api, number, in_flight)
        async with leader(cluster, way) as first:
            cluster.submit()
            has_died = await dies(way)
        if not has_died:
            kinds = {kind: way.written.count(kind) for kind in ("label", "nominate", "open")}
            assert kinds == dict.fromkeys(kinds, PODS_OF_GANG), "each of them was the last once"
            assert "event" in way.written
            return
        async with next_leader(cluster, first, holds=holds) as running:
            await must_end_whole_and_leave_nothing(cluster, running)


@every_death
async def test_after_any_write_of_a_move_the_next_leader_ends_it_whole_and_once(
    scheduler: Scheduler, in_flight: InFlight, holds: Holds
) -> None:
    """All gates are open, nothing is bound, and somebody else takes a planned node."""
    for number in itertools.count(1):
        cluster = GangCluster(scheduler, binds=False)
        way = Way(cluster.api, in_flight=in_flight)
        async with leader(cluster, way) as first:
            cluster.submit()
            await until(lambda: cluster.is_open)  # noqa: B023 - at once
            await asyncio.sleep(SOON_S)
            lost, began = cluster.nominated[1], len(way.written)
            way.dies_after = began + number
            cluster.take(lost)
            has_died = await dies(way)
        if not has_died:
            assert {"label", "nominate"} <= set(way.written[began:])
            return
        async with next_leader(cluster, first, holds=holds) as running:
            if scheduler == "kube-scheduler":
                await asyncio.sleep(SOON_S)  # it would bind the half of a pair that has its node
            cluster.binds = True
            cluster.schedule()
            await must_end_whole_and_leave_nothing(cluster, running)


@every_death
async def test_after_any_write_of_its_end_the_next_leader_leaves_nothing_of_a_gang(
    scheduler: Scheduler, in_flight: InFlight, holds: Holds
) -> None:
    for number in itertools.count(1):
        cluster = GangCluster(scheduler)
        way = Way(cluster.api, in_flight=in_flight)
        async with leader(cluster, way) as first:
            cluster.submit()
            await until(lambda: len(cluster.bound) == PODS_OF_GANG)  # noqa: B023 - at once
            await asyncio.sleep(SOON_S)
            began = len(way.written)
            way.dies_after = began + number
            cluster.end()
            has_died = await dies(way)
        if not has_died:
            assert way.written[began:].count("label") == PODS_OF_GANG
            return
        async with next_leader(cluster, first, holds=holds) as running:
            await until(lambda: not cluster.labelled())  # noqa: B023 - at once
            assert running.holds == 0


@every_death
async def test_after_any_write_of_an_order_to_open_the_next_leader_opens_the_rest(
    scheduler: Scheduler, in_flight: InFlight, holds: Holds
) -> None:
    """There is no room: the order alone opens gates, and it was given to the one that died."""
    for number in itertools.count(1):
        cluster = GangCluster(scheduler)
        way = Way(cluster.api, in_flight=in_flight)
        for fly in FLIES:
            cluster.take(min(fly))
        async with leader(cluster, way) as first:
            cluster.submit()
            await asyncio.sleep(SOON_S)
            began = len(way.written)
            way.dies_after = began + number
            first.nomination.ungate((GANG,), "kim wants it")
            has_died = await dies(way)
        if not has_died:
            assert way.written[began:].count("open") == PODS_OF_GANG
            return
        if "open" not in way.written[began:]:
            continue  # the order was not begun
        async with next_leader(cluster, first, holds=holds):
            await until(lambda: cluster.is_open)  # noqa: B023 - at once
            await asyncio.sleep(SOON_S)
            cluster.api.remove(PODS, "pod-0", "jobs")
            cluster.create(0)
            await until(lambda: cluster.is_open)  # noqa: B023 - at once
            assert not cluster.labelled()
