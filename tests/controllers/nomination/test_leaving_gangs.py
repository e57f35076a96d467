"""A gang that goes pod by pod: its place is given away as a whole, and nobody waits for it long."""

import asyncio
from itertools import groupby, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from master.controllers.leaving_gangs import MOST_S, QUIET_S, REST_S, LeavingGangs
from master.kube.objects import PODS
from master.kube.reflector import Changed, Listed, Removed
from tests.controllers.nomination.gang_world import GangWorld, gang_world, nominated
from tests.controllers.nomination.masters import FLIES, NODE_NAMES
from tests.controllers.nomination.objects import JOB, WORDS, gated_pod, pod
from topo.gangs.stamp import Stamp

STEP_S = 0.0625
"""A power of two, so that sums of it are exact."""


class Gangs:
    """Gangs of pods that have a node, and a clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.leaving = LeavingGangs(lambda: self.now_s)

    def run(self, job: str, *numbers: int) -> None:
        for number in numbers:
            made = pod(number, owners=({**JOB, "uid": job},), nodeName=f"node-{number}")
            self.leaving.follow(Changed(("jobs", f"{job}-{number}"), made))

    def lose(self, job: str, number: int) -> None:
        self.leaving.follow(Removed(("jobs", f"{job}-{number}"), pod(number)))


def test_a_gang_is_going_from_its_first_pod_until_its_last() -> None:
    gangs = Gangs()
    gangs.run("a", 1, 2, 3)
    assert not gangs.leaving.is_any()
    for number in (1, 2):
        gangs.lose("a", number)
        assert gangs.leaving.is_any()
    gangs.lose("a", 3)
    assert not gangs.leaving.is_any()


def test_one_that_keeps_the_rest_of_its_pods_goes_no_more_after_a_while() -> None:
    gangs = Gangs()
    gangs.run("a", 1, 2)
    gangs.lose("a", 1)
    gangs.now_s = QUIET_S - STEP_S
    assert gangs.leaving.is_any()
    gangs.now_s = QUIET_S
    assert not gangs.leaving.is_any()


def test_pods_that_a_list_lacks_and_those_that_ended_are_lost() -> None:
    gangs = Gangs()
    gangs.run("a", 1, 2)
    gangs.run("b", 1, 2)
    key = ("jobs", "a-1")
    ended = pod(1, owners=({**JOB, "uid": "a"},), status={"phase": "Succeeded"}, nodeName="node-1")
    gangs.leaving.follow(Changed(key, ended))
    assert gangs.leaving.is_any()
    gangs.leaving.follow(Listed({}))
    assert not gangs.leaving.is_any()


@settings(max_examples=30)
@given(st.lists(st.booleans(), min_size=100, max_size=200))
def test_whoever_waits_does_so_for_two_seconds_at_most_and_then_has_a_rest(
    losses: list[bool],
) -> None:
    """However many pods of a large gang are lost one after the other."""
    gangs = Gangs()
    gangs.run("a", *range(len(losses) + 1))
    seen = []
    for number, is_lost in enumerate(losses):
        gangs.now_s = number * STEP_S
        if is_lost:
            gangs.lose("a", number)
        seen.append(gangs.leaving.is_any())
    runs = [(is_going, len(list(found))) for is_going, found in groupby(seen)]
    assert max((n for is_going, n in runs if is_going), default=0) * STEP_S <= MOST_S
    for (is_going, long), (_, rest) in pairwise(runs[:-1]):
        if is_going and long * STEP_S == MOST_S:
            assert rest * STEP_S >= REST_S


def wait_for_two_nodes(world: GangWorld) -> list[Any]:
    """A job of two pods that may be anywhere in one switchbox."""
    stamp, pods = Stamp(pods=2, rank_offset=0, pods_per_group=4), []
    for rank in range(2):
        made = gated_pod(rank, stamp, uid="late", **{WORDS.size: "32"})
        status = {"phase": "Pending"}
        pods.append(world.api.add(PODS, f"late-{rank}", **made, status=status))
    return pods


@pytest.mark.virtual_time
@pytest.mark.parametrize("is_early", [False, True])
async def test_the_place_of_a_gang_that_goes_pod_by_pod_is_not_given_away_in_halves(
    *,
    is_early: bool,
) -> None:
    """Whether the next job waits already, or comes while the first one goes."""
    async with gang_world() as world:
        for node in NODE_NAMES[4:]:
            world.take(node)
        stamp = Stamp(pods=4, rank_offset=0, pods_per_group=2)
        first = [world.add_pod(rank, stamp=stamp) for rank in range(4)]
        await asyncio.sleep(10)
        for each in first:
            world.bind(each)
        await asyncio.sleep(1)
        late = wait_for_two_nodes(world) if is_early else []
        await asyncio.sleep(5)
        for rank in (0, 2, 1, 3):  # one node of each dragonfly, then the others
            world.api.remove(PODS, f"pod-{rank}", "jobs")
            await asyncio.sleep(0.1)
            late = late or wait_for_two_nodes(world)
        await asyncio.sleep(2)
        assert {nominated(each) for each in late} in FLIES
