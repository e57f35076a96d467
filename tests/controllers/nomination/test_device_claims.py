"""A gang goes where devices are left for the claims of its pods, and no device is planned twice."""

import asyncio
from typing import Any

import pytest

from master.kube.objects import PODS
from tests.controllers.nomination.gang_world import GangWorld, gang_world, is_open, nominated
from tests.controllers.nomination.masters import FLIES, NODE_NAMES
from tests.support.devices import DRIVER, DeviceWorld, exactly, nic
from topo.model.ids import NodeName
from topo.model.pod_requests import DEVICE_CLASS

pytestmark = pytest.mark.virtual_time
NICS = f"{DEVICE_CLASS}nics"
TWO: Any = [{"name": "nic", "resourceClaimTemplateName": "two"}]


def devices_of(world: GangWorld, nics: int = 2) -> DeviceWorld:
    """Each node has NICs of one class; a template asks for two of them."""
    made = DeviceWorld(world.api)
    made.define("nics", f'device.driver == "{DRIVER}"')
    made.template("two", exactly("nics", 2))
    for node in NODE_NAMES:
        made.publish(node, [nic(f"nic-{number}") for number in range(nics)])
    return made


def left(world: GangWorld, node: str) -> int:
    """How many more pods with one NIC the master thinks that the idle GPUs of a node could take."""
    tight = world.placements.state.room.tight(((NICS, 1000),), 1)
    found = tight.get(NodeName(node))
    return found.pods if found is not None else 8


async def test_a_gang_goes_where_its_pods_can_have_their_devices() -> None:
    async with gang_world() as world:
        made = devices_of(world)
        free = NODE_NAMES[-2:]
        for node in NODE_NAMES[:-2]:
            made.allocate(f"other-{node}", node, ["nic-0"])
        await asyncio.sleep(1)
        pods = [world.add_pod(index, resourceClaims=TWO) for index in range(2)]
        await asyncio.sleep(10)
        assert {*free} in [{*fly} for fly in FLIES]
        assert {nominated(each) for each in pods} == {*free}


async def test_a_gang_without_devices_waits_is_told_the_class_and_goes_on_when_a_claim_ends() -> (
    None
):
    async with gang_world() as world:
        made = devices_of(world)
        for node in NODE_NAMES:
            made.allocate(f"other-{node}", node, ["nic-0"])
        await asyncio.sleep(1)
        pods = [world.add_pod(index, resourceClaims=TWO) for index in range(2)]
        await asyncio.sleep(10)
        ((_, status),) = world.nomination.view.all()
        assert "8 lack devices of class nics (a pod takes 2)" in status.text
        assert not any(map(is_open, pods))
        for node in FLIES[0]:
            made.deallocate(f"other-{node}")
        await asyncio.sleep(10)
        assert {nominated(each) for each in pods} == {*FLIES[0]}


async def test_devices_count_from_the_plan_on_and_once_when_the_claims_have_them() -> None:
    async with gang_world() as world:
        made = devices_of(world, nics=3)
        await asyncio.sleep(1)
        pods = [world.add_pod(index, resourceClaims=TWO) for index in range(2)]
        await asyncio.sleep(10)
        node = nominated(pods[0])
        assert is_open(pods[0])
        assert left(world, node) == 1
        name = pods[0].document["metadata"]["name"]
        made.allocate("claim-0", node, ["nic-0", "nic-2"], name)
        pods[0].document["status"]["resourceClaimStatuses"] = [
            {"name": "nic", "resourceClaimName": "claim-0"}
        ]
        world.bind(pods[0])
        await asyncio.sleep(1)
        assert left(world, node) == 1
        world.api.remove(PODS, name, "jobs")
        made.deallocate("claim-0")
        await asyncio.sleep(1)
        assert left(world, node) == 3
        world.placements.state.room.validate()


async def test_a_class_that_names_the_gpu_resource_gives_nodes_their_gpus() -> None:
    """No device plugin: allocatable names no GPU; pods ask for GPUs as ever."""
    async with gang_world() as world:
        made = DeviceWorld(world.api)
        for node in NODE_NAMES:
            status = world.api.objects["/api/v1/nodes", node].document["status"]
            status["allocatable"].pop("metax-tech.com/gpu", None)
            world.api.touch("/api/v1/nodes", node)
        await asyncio.sleep(1)
        pods = [world.add_pod(index) for index in range(2)]
        await asyncio.sleep(10)
        assert not any(map(nominated, pods))
        made.define("gpus", f'device.driver == "{DRIVER}"', resource="metax-tech.com/gpu")
        made.template("unused", exactly("gpus"))
        for node in FLIES[1]:
            made.publish(node, [nic(f"gpu-{number}") for number in range(8)])
        await asyncio.sleep(10)
        assert {nominated(each) for each in pods} == {*FLIES[1]}


async def test_a_class_that_is_defined_late_is_heeded_by_the_gang_that_waits() -> None:
    async with gang_world() as world:
        made = devices_of(world, nics=1)
        await asyncio.sleep(1)
        pods = [world.add_pod(index, resourceClaims=TWO) for index in range(2)]
        await asyncio.sleep(10)
        assert not any(map(is_open, pods))
        made.define("nics", "device.driver.startsWith('nic')")
        await asyncio.sleep(10)
        assert all(map(is_open, pods))
