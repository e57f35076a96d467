"""A rank whose pod has succeeded does not count as missing, under a new leader either."""

import asyncio
from typing import Any

import pytest

from master.kube.objects import PODS
from tests.controllers.nomination.gang_world import GangWorld, gang_world, nominated
from tests.controllers.nomination.objects import GANG, WORDS
from topo.model.conditions.gang_states import GangState

pytestmark = pytest.mark.virtual_time
AT = "/api/v1/namespaces/jobs/pods"


def ends(world: GangWorld, pod: Any) -> None:
    """A bound pod finishes its work well."""
    pod.document["metadata"].setdefault("labels", {})[WORDS.group] = "0"
    pod.document["status"]["phase"] = "Succeeded"
    world.api.touch(AT, pod.document["metadata"]["name"])


def state(world: GangWorld) -> GangState:
    (found,) = [status.state for _, status in world.nomination.status.nomination.all()]
    return found


async def test_a_rank_that_has_ended_is_not_missing_and_its_sibling_may_come_again():
    async with gang_world() as world:
        pods = [world.add_pod(index) for index in range(2)]
        await asyncio.sleep(10)
        for pod in pods:
            world.bind(pod)
        await asyncio.sleep(10)
        ends(world, pods[0])
        await asyncio.sleep(10)
        assert state(world) is GangState.BOUND
        history = world.nomination.status.store.history(GANG)
        assert GangState.PODS_MISSING not in [each.state for each in history[1:]]
        world.api.remove(PODS, "pod-1", "jobs")
        again = world.add_pod(1)
        await asyncio.sleep(20)
        assert nominated(again), "it is placed although rank 0 is gone"


async def test_a_leader_that_comes_when_a_rank_has_ended_does_not_miss_it():
    async with gang_world() as world:
        pods = [world.add_pod(index) for index in range(2)]
        ends(world, pods[0])
        await asyncio.sleep(20)
        assert state(world) is not GangState.PODS_MISSING
        assert nominated(pods[1])
        world.api.remove(PODS, "pod-0", "jobs")
        await asyncio.sleep(10)
        assert nominated(pods[1]), "what is placed stays"
