"""Pods without a group get nodes by the annotations of nodes, and their gate never outlives us."""

import asyncio
import json
from typing import Any

import pytest

from master.kube.objects import NODES, PODS
from tests.controllers.nomination.gang_world import GangWorld, gang_world, is_open, nominated
from tests.controllers.nomination.masters import NODE_NAMES
from tests.controllers.nomination.objects import GPU, WORDS
from topo.gangs.annotation_keys import POD_GROUP
from topo.gangs.machine.instructions import Place
from topo.gangs.stamp import Stamp
from topo.publish import gpu_annotations

pytestmark = pytest.mark.virtual_time
SCORES, LOSSES, _ = gpu_annotations.keys("metax-tech.com")
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web"}


def states(world: GangWorld, node: str, score: int, loss: int) -> None:
    """Somebody writes what two GPUs of a node are worth."""
    for key, number in ((SCORES, score), (LOSSES, loss)):
        world.api.edit(NODES, node, ("metadata", "annotations", key), json.dumps({"2": number}))


def lone(world: GangWorld, name: str, *, gpus: int = 2, group: str = "", priority: int = 0) -> Any:
    """A pod of a Deployment as the webhook leaves it."""
    annotations = {
        **Stamp(1, 0, 1).annotations(WORDS),
        WORDS.kind: "pods",
        WORDS.gang_name: f"pod-{name}",
        WORDS.rank: "0",
        WORDS.size: str(gpus),
        WORDS.way: "nomination",
        WORDS.by_links: "true",
        **({POD_GROUP: group} if group else {}),
    }
    container = {"name": "main", "resources": {"limits": {GPU: str(gpus)}}}
    return world.api.add(
        PODS,
        name,
        metadata={
            "namespace": "jobs",
            "annotations": annotations,
            "ownerReferences": [{**OWNER, "controller": True}],
        },
        spec={
            "schedulingGates": [{"name": WORDS.gate}],
            "containers": [container],
            "priority": priority,
        },
        status={"phase": "Pending"},
    )


async def test_each_pod_gets_the_node_of_the_best_score_less_half_the_loss() -> None:
    async with gang_world() as world:
        second, best = NODE_NAMES[2], NODE_NAMES[5]
        for node in NODE_NAMES:
            states(world, node, 16, 96)  # 16 - 48
        states(world, best, 16, 20)  # 16 - 10, though its dragonfly is not the fullest
        states(world, second, 20, 40)  # 20 - 20
        pods = [lone(world, f"web-{number}") for number in range(5)]
        await asyncio.sleep(3)
        assert all(is_open(pod) for pod in pods)
        # Four pods of two GPUs fill the best node; the fifth gets the next one.
        assert sorted(map(nominated, pods)) == sorted([*[best] * 4, second])


async def test_a_pod_that_goes_first_waits_for_no_long_row_of_others() -> None:
    async with gang_world() as world:
        many = [lone(world, f"web-{number:02}", gpus=1) for number in range(60)]
        first: list[Any] = []
        place, placed = world.nomination.answers.place, list[str]()

        def noted(asked: Place, evictable: Any) -> Any:
            if not first:
                first.append(lone(world, "first", gpus=1, priority=10))
            placed.append(asked.wanted[0].name)
            return place(asked, evictable)

        world.nomination.answers.place = noted  # type: ignore[method-assign]
        await asyncio.sleep(3)
        assert all(map(is_open, (*many, *first)))
        assert 0 < placed.index("first") < 50


async def test_without_room_it_waits_and_one_that_is_deleted_keeps_nothing() -> None:
    async with gang_world() as world:
        for node in NODE_NAMES:
            world.take(node)
        first, second = lone(world, "first"), lone(world, "second")
        await asyncio.sleep(3)
        assert not any(map(is_open, (first, second)))
        assert world.metric("gangs", reason="no-room") == 2
        world.api.remove(PODS, "first", "jobs")
        world.api.remove(PODS, f"taker-{NODE_NAMES[0]}", "others")
        await asyncio.sleep(10)
        assert nominated(second) == NODE_NAMES[0]
        world.api.remove(PODS, "second", "jobs")
        await asyncio.sleep(10)
        assert world.holds() == 0
        assert not any(world.api.labels().values())


async def test_a_pod_that_its_podgroup_starts_with_others_is_left_to_its_scheduler() -> None:
    """One by one they would keep GPUs from each other while their gang waits."""
    async with gang_world() as world:
        world.add_group("several", "default")
        pod = lone(world, "worker", group="several")
        await asyncio.sleep(3)
        assert is_open(pod)
        assert not nominated(pod)
