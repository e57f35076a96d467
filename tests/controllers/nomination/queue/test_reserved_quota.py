"""A queue's quota is reserved for pods whose gates are being opened, and for no others."""

import asyncio
from typing import Any

import pytest

from master.controllers.nomination.queues.quota import AskedGpus
from master.kube.errors import KubeError
from master.kube.objects import NODES, PODS, collection_path
from master.kube.schedulers.volcano import POD_GROUPS
from tests.controllers.nomination.gang_world import GangWorld, gang_world, is_open, nominated
from tests.controllers.nomination.masters import FLIES, kind_of
from tests.controllers.nomination.objects import GPU
from tests.support.kubernetes import node_status
from topo.gangs.annotation_keys import POD_GROUP
from topo.gangs.machine import gangs
from topo.gangs.stamp import Stamp

pytestmark = pytest.mark.virtual_time
OPENED_AT = "/api/v1/namespaces/jobs/pods"
GROUPS_AT = collection_path(POD_GROUPS, "jobs")
ONE = Stamp(pods=1, rank_offset=0, pods_per_group=2)


def take_half_of(world: GangWorld, *pairs: set[str]) -> None:
    """Somebody else has a node of each of these pairs."""
    for pair in pairs:
        world.take(min(pair))


def single(world: GangWorld, queue: str = "q1") -> Any:
    """Another job, of one pod, which goes last."""
    world.add_group("single", queue)
    return world.add_pod(0, job="job-2", group="single", stamp=ONE, created="2026-01-02T03:05:05Z")


def left(world: GangWorld, limit: int) -> str:
    """What a gang that asks for the whole queue is told; empty where it has it."""
    asked = AskedGpus(gang="another", queue="q1", resource=GPU, gpus=limit)
    missing = world.nomination.changes.queues.missing(asked)
    return missing.text if missing is not None else ""


def slow_gates(world: GangWorld, slow_s: float) -> asyncio.Event:
    """Each gate takes so long to open; return what is set once the first one is asked for."""
    api: Any = world.api
    real, sent = api.call, asyncio.Event()

    async def call(asked: Any) -> Any:
        if asked.method != "GET" and "/pods/pod-" in asked.path and kind_of(asked) == "open":
            sent.set()
            await asyncio.sleep(slow_s)
        return await real(asked)

    api.call = call
    return sent


async def two_of_a_queue_for_one(world: GangWorld) -> tuple[list[Any], list[Any]]:
    """Two jobs of 16 GPUs each, in a queue of 16."""
    take_half_of(world, *FLIES[2:])
    world.add_queue("q1", capability={GPU: "16"})
    world.add_group("group", "q1")
    world.add_group("second", "q1")
    late = "2026-01-02T03:05:05Z"
    return [world.add_pod(index, group="group") for index in range(2)], [
        world.add_pod(index, job="job-2", group="second", created=late) for index in range(2)
    ]


@pytest.mark.parametrize("why", ["its node is lost", "an error sets its gang aside"])
async def test_quota_stays_reserved_for_gates_whose_opening_is_on_its_way(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its plan is dropped by then; what is sent is opened all the same."""
    async with gang_world() as world:
        pods, others = await two_of_a_queue_for_one(world)
        await asyncio.wait_for(slow_gates(world, 0.3).wait(), 10)
        node = nominated(pods[0])
        if why == "an error sets its gang aside":
            machine: Any = gangs
            real, (gang_id, *_) = machine.placement_need, world.nomination.machine._records

            def need(record: Any) -> Any:
                if record.gang.id == gang_id:
                    raise ValueError("of this gang")
                return real(record)

            monkeypatch.setattr(gangs, "placement_need", need)
        world.api.edit(NODES, node, ("spec",), {"unschedulable": True})
        await asyncio.sleep(20)
        assert any(map(is_open, pods))
        assert not any(map(is_open, others))


async def reserve_queue(world: GangWorld) -> list[Any]:
    """Two pods that have all of their queue reserved, and whose gates cannot be opened."""
    take_half_of(world, *FLIES[1:])
    world.add_queue("q1", capability={GPU: "16"})
    world.add_group("group", "q1")
    world.api.refusals[OPENED_AT] = [KubeError("refused", status=403)] * 100
    pods = [world.add_pod(index, group="group") for index in range(2)]
    await asyncio.sleep(3)
    return pods


async def test_pods_that_do_not_start_with_the_others_take_no_quota():
    """Of four pods two start, since there is one pair; one more job has the rest of the queue."""
    async with gang_world() as world:
        take_half_of(world, *FLIES[1:])
        world.add_queue("q1", capability={GPU: "32"})
        world.add_group("group", "q1")
        stamp = Stamp(pods=4, rank_offset=0, pods_per_group=2)
        pods = [world.add_pod(index, stamp=stamp, group="group") for index in range(4)]
        await asyncio.sleep(10)
        assert [is_open(pod) for pod in pods] == [True, True, False, False]
        for pod in pods[:2]:
            world.bind(pod)
        await asyncio.sleep(10)
        assert left(world, 32) == "queue q1 has 16 of 32 GPUs left where 32 are needed"
        other = single(world)
        await asyncio.sleep(10)
        assert is_open(other)


@pytest.mark.parametrize("how", ["full", "cordoned"])
async def test_a_plan_that_is_dropped_after_its_check_gives_its_quota_back(how: str):
    """Its gates could not be opened, and its nodes are lost meanwhile."""
    async with gang_world() as world:
        pods = await reserve_queue(world)
        assert {nominated(pod) for pod in pods} == FLIES[0]
        assert left(world, 16) == "queue q1 has 0 of 16 GPUs left where 16 are needed"
        if how == "full":
            world.take(min(FLIES[0]))
        else:
            world.api.edit(NODES, min(FLIES[0]), ("spec",), {"unschedulable": True})
        await asyncio.sleep(10)
        assert left(world, 16) == ""
        world.api.refusals.clear()
        other = single(world)
        await asyncio.sleep(10)
        assert is_open(other)
        assert not any(map(is_open, pods))


async def test_a_gang_that_waits_for_a_reserved_queue_starts_once_that_is_given_back():
    """Nothing of the pods of the queue changes by then."""
    async with gang_world() as world:
        pods = await reserve_queue(world)
        other = single(world)
        await asyncio.sleep(5)
        assert not is_open(other)
        world.api.refusals.clear()
        world.api.edit(NODES, min(FLIES[0]), ("spec",), {"unschedulable": True})
        await asyncio.sleep(10)
        assert is_open(other)
        assert not any(map(is_open, pods))


async def test_while_gates_are_opened_their_gpus_are_counted_once():
    async with gang_world() as world:
        world.add_queue("q1", capability={GPU: "32"})
        world.add_group("group", "q1")
        pods = [world.add_pod(index, group="group") for index in range(2)]
        await asyncio.sleep(0.1)
        seen = set()
        for _ in range(600):
            await asyncio.sleep(0.01)
            seen.add(left(world, 32))
        assert all(map(is_open, pods))
        assert seen == {"", "queue q1 has 16 of 32 GPUs left where 32 are needed"}


async def test_a_gang_that_its_queue_lets_in_no_more_gives_its_quota_back() -> None:
    """Before its gates could be opened, as its next check says."""
    async with gang_world() as world:
        world.add_queue("q1", capability={GPU: "16"})
        world.add_group("group", "q1")
        world.api.refusals[OPENED_AT] = [KubeError("refused", status=403)] * 100
        pods = [world.add_pod(index, group="group") for index in range(2)]
        await asyncio.sleep(3)
        assert left(world, 16) == "queue q1 has 0 of 16 GPUs left where 16 are needed"
        group = world.api.objects[GROUPS_AT, "group"]
        group.document["status"]["phase"] = "Pending"
        world.api.touch(GROUPS_AT, "group")
        allocatable = {**node_status()["allocatable"], GPU: "9"}
        node = nominated(pods[0])
        world.api.edit(NODES, node, ("status", "allocatable"), allocatable)
        await asyncio.sleep(10)
        assert left(world, 16) == ""
        assert not any(map(is_open, pods))


async def started_and_blocked(world: GangWorld) -> list[Any]:
    """Of four pods two run; the others have places, and then their queue of 32 is too full."""
    take_half_of(world, *FLIES[1:])
    world.add_queue("q1", capability={GPU: "32"})
    for group in ("group", "other", "second"):
        world.add_group(group, "q1")
    stamp = Stamp(pods=4, rank_offset=0, pods_per_group=2)
    pods = [world.add_pod(index, stamp=stamp, group="group") for index in range(4)]
    await asyncio.sleep(10)
    for pod in pods[:2]:
        world.bind(pod)
    await asyncio.sleep(5)

    def fill(_at: str, name: str, _document: Any) -> None:
        if name == "pod-2" and nominated(pods[2]):
            world.api.watches.remove(fill)
            thief(world, max(FLIES[3]))

    world.api.watches.append(fill)
    world.api.remove(PODS, f"taker-{min(FLIES[1])}", "others")
    await asyncio.sleep(5)
    assert [is_open(pod) for pod in pods] == [True, True, False, False]
    return pods


def thief(world: GangWorld, node: str) -> None:
    """A pod without gates, of the same queue, runs on a node."""
    limits = {"name": "main", "resources": {"limits": {GPU: "8"}}}
    world.api.add(
        PODS,
        f"thief-{node}",
        metadata={"namespace": "jobs", "annotations": {POD_GROUP: "other"}},
        spec={"nodeName": node, "containers": [limits], "schedulerName": "volcano"},
        status={"phase": "Running"},
    )


async def test_pods_that_a_check_kept_out_of_their_queue_stay_out_while_it_has_less_room() -> None:
    async with gang_world() as world:
        pods = await started_and_blocked(world)
        thief(world, max(FLIES[2]))
        await asyncio.sleep(10)
        assert [is_open(pod) for pod in pods] == [True, True, False, False]


async def test_pods_that_a_check_kept_out_start_once_their_queue_has_room_which_is_reserved() -> (
    None
):
    async with gang_world() as world:
        pods = await started_and_blocked(world)
        sent = slow_gates(world, 0.3)
        world.api.remove(PODS, f"thief-{max(FLIES[3])}", "jobs")
        await asyncio.wait_for(sent.wait(), 10)
        assert left(world, 32) == "queue q1 has 0 of 32 GPUs left where 32 are needed"
        await asyncio.sleep(10)
        assert all(map(is_open, pods))


async def test_pods_that_a_later_check_keeps_out_of_their_queue_reserve_none_of_it() -> None:
    """Of a gang that runs in part, which keeps the places of the others."""
    async with gang_world() as world:
        take_half_of(world, *FLIES[1:])
        world.add_queue("q1", capability={GPU: "32"})
        world.add_group("group", "q1")
        stamp = Stamp(pods=4, rank_offset=0, pods_per_group=2)
        pods = [world.add_pod(index, stamp=stamp, group="group") for index in range(4)]
        await asyncio.sleep(10)
        for pod in pods[:2]:
            world.bind(pod)
        sent = slow_gates(world, 0.0)
        world.api.refusals[OPENED_AT] = [KubeError("refused", status=403)] * 100
        world.api.remove(PODS, f"taker-{min(FLIES[1])}", "others")
        await asyncio.wait_for(sent.wait(), 10)
        assert left(world, 32) == "queue q1 has 0 of 32 GPUs left where 32 are needed"
        group = world.api.objects[GROUPS_AT, "group"]
        group.document["status"]["phase"] = "Pending"
        world.api.touch(GROUPS_AT, "group")
        allocatable = {**node_status()["allocatable"], GPU: "9"}
        world.api.edit(NODES, nominated(pods[2]), ("status", "allocatable"), allocatable)
        await asyncio.sleep(60)
        assert not any(map(is_open, pods[2:]))
        assert left(world, 32) == "queue q1 has 16 of 32 GPUs left where 32 are needed"
