"""Gangs whose GPUs come by claims of devices alone are placed, and each GPU is counted once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from master.kube.objects import PODS
from tests.controllers.nomination.gang_world import GangWorld, gang_world, is_open, nominated
from tests.controllers.nomination.masters import FLIES, NODE_NAMES
from tests.controllers.nomination.objects import GPU, WORDS
from tests.support.devices import DRIVER, DeviceWorld, exactly, nic
from topo.model.ids import NodeName

pytestmark = pytest.mark.virtual_time
GPUS = [f"gpu-{number}" for number in range(8)]
CLAIM: Any = [{"name": "gpus", "resourceClaimTemplateName": "eight"}]


@asynccontextmanager
async def claimed_world() -> AsyncIterator[tuple[GangWorld, DeviceWorld]]:
    """Nodes whose GPUs a driver publishes; no kubelet states any."""
    async with gang_world() as world:
        made = DeviceWorld(world.api)
        made.define("gpus", f'device.driver == "{DRIVER}"', resource=GPU)
        made.template("eight", exactly("gpus", 8))
        for node in NODE_NAMES:
            status = world.api.objects["/api/v1/nodes", node].document["status"]
            status["allocatable"].pop(GPU, None)
            world.api.touch("/api/v1/nodes", node)
            made.publish(node, [nic(name) for name in GPUS])
        await asyncio.sleep(1)
        yield world, made


def add_pod(world: GangWorld, index: int, job: str = "job-1") -> Any:
    """A gated pod without a request of GPUs, with its claim and its stamp."""
    pod = world.add_pod(index, job=job, containers=[{"name": "main"}], resourceClaims=CLAIM)
    pod.document["metadata"]["annotations"][WORDS.claimed_gpus] = "8"
    world.api.touch("/api/v1/namespaces/jobs/pods", pod.document["metadata"]["name"])
    return pod


def free(world: GangWorld, node: str) -> int:
    """The free GPUs of a node, as placement counts them."""
    return world.placements.state.capacity.free(NodeName(node))


def start(world: GangWorld, made: DeviceWorld, pod: Any) -> None:
    """The scheduler allocates the GPUs of a pod's node and binds it, in one go."""
    name, node = pod.document["metadata"]["name"], nominated(pod)
    made.allocate(f"{name}-gpus", node, GPUS, name)
    pod.document["status"]["resourceClaimStatuses"] = [
        {"name": "gpus", "resourceClaimName": f"{name}-gpus"}
    ]
    world.bind(pod)


async def test_a_gang_whose_pods_only_claim_gpus_gets_a_whole_group() -> None:
    async with claimed_world() as (world, made):
        for node in map(min, FLIES[:-1]):
            made.allocate(f"other-{node}", node, GPUS[:1], "stranger")
        await asyncio.sleep(1)
        pods = [add_pod(world, index) for index in range(2)]
        await asyncio.sleep(10)
        assert {nominated(each) for each in pods} == {*FLIES[-1]}
        assert all(map(is_open, pods))


async def test_claimed_gpus_count_once_from_the_plan_to_the_end_of_the_claim() -> None:
    async with claimed_world() as (world, made):
        pods = [add_pod(world, index) for index in range(2)]
        await asyncio.sleep(10)
        node = nominated(pods[0])
        assert free(world, node) == 0
        for pod in pods:
            start(world, made, pod)
        await asyncio.sleep(1)
        assert free(world, node) == 0
        world.placements.state.room.validate()
        names = [pod.document["metadata"]["name"] for pod in pods]
        for name in names:
            world.api.remove(PODS, name, "jobs")
        await asyncio.sleep(1)
        assert free(world, node) == 0
        for name in names:
            made.deallocate(f"{name}-gpus")
        await asyncio.sleep(1)
        assert free(world, node) == 8
        world.placements.state.room.validate()


async def test_a_second_gang_waits_for_the_gpus_that_claims_have() -> None:
    async with claimed_world() as (world, made):
        jobs = [f"job-{number}" for number in range(1, 6)]
        pods = {job: [add_pod(world, index, job) for index in range(2)] for job in jobs}
        await asyncio.sleep(10)
        running = [job for job in jobs if all(map(is_open, pods[job]))]
        (waiting,) = {*jobs} - {*running}
        for job in running:
            assert {nominated(each) for each in pods[job]} in [{*fly} for fly in FLIES]
            for each in pods[job]:
                start(world, made, each)
        await asyncio.sleep(10)
        assert not any(map(is_open, pods[waiting]))
        for each in pods[running[0]]:
            name = each.document["metadata"]["name"]
            world.api.remove(PODS, name, "jobs")
            made.deallocate(f"{name}-gpus")
        await asyncio.sleep(10)
        assert all(map(is_open, pods[waiting]))
