"""A list of no node removes none, whatever else changes before the nodes are listed again."""

import asyncio
from collections.abc import Callable
from typing import Any

import prometheus_client as prom
import pytest

from master.booking.metrics import PlacementMetrics
from master.booking.state import BookingState
from master.kube.objects import NODES, PODS, parsed
from master.sources.kubernetes.capacity import ClusterCapacity
from master.sources.kubernetes.device_config import SharingModes
from master.sources.kubernetes.pods import PodParser
from tests.kube.model_store import ModelStore
from tests.support.devices import DeviceWorld, counts, exactly, nic
from tests.support.kubernetes import GPU, node_manifest
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.terms import Way
from topo.placement.booking.holds import Limits
from topo.placement.job.policy import Policy

pytestmark = pytest.mark.virtual_time
NAMES = [f"n{number}" for number in range(8)]
GPUS = [nic(f"gpu-{number}") for number in range(4)]
PARSER = PodParser(Policy(), AnnotationKeys("metax-tech.com"), Way.NOMINATION)


class World:
    """Eight nodes with four GPUs each, which are devices."""

    def __init__(self) -> None:
        self.devices = DeviceWorld()
        api = self.api = self.devices.api
        nodes: Any = ModelStore(api, NODES)
        pods: Any = ModelStore(api, parsed(PODS, PARSER.parse))
        metrics = PlacementMetrics(prom.CollectorRegistry())
        self.state = BookingState(Policy(), Limits(), metrics, lambda: 0.0)
        self.capacity = ClusterCapacity(self.state, nodes, pods, counts(api))
        self.nodes = nodes
        self.devices.define("gpus", f'device.driver == "{DRIVER}"', resource=GPU)
        self.devices.template("four", exactly("gpus", 4))
        for name in NAMES:
            status = {"allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110"}}
            api.add(NODES, name, **node_manifest(name, status=status))
            self.devices.publish(name, GPUS)

    def gpus(self) -> dict[str, int]:
        return {str(host.name): host.gpus for host in self.state.capacity.hosts()}

    def publish_all(self) -> None:
        for name in NAMES:
            self.devices.publish(name, GPUS[:2], generation=2)

    def lose(self) -> None:
        """A server that has lost its nodes lists none."""
        self.kept, self.nodes._objects = self.nodes._objects, {}
        self.nodes.list_anew()

    def find_again(self) -> None:
        self.nodes._objects = self.kept
        self.nodes.list_anew()


DRIVER = "nic.example.com"
CHANGES: dict[str, Callable[[World], None]] = {
    "a driver publishes": lambda w: w.devices.publish("n3", GPUS[:2], generation=2),
    "all drivers publish": lambda w: w.publish_all(),
    "a claim gets devices": lambda w: w.devices.allocate("c", "n1", ["gpu-0"], pod="p"),
    "a class comes": lambda w: w.devices.define("more"),
    "cards are shared": lambda w: w.capacity.share(SharingModes(nodes={"n1": "sgpu"})),
}


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("change", CHANGES)
async def test_devices_that_change_meanwhile_remove_no_node(world: World, change: str) -> None:
    task = asyncio.create_task(world.capacity.run())
    await asyncio.sleep(1)
    assert world.gpus() == dict.fromkeys(NAMES, 4)
    world.lose()
    CHANGES[change](world)
    await asyncio.sleep(1)
    assert world.gpus() == dict.fromkeys(NAMES, 4)
    world.find_again()
    await asyncio.sleep(1)
    after = world.gpus()
    assert after.keys() == {*NAMES}
    assert after["n3"] == (2 if "publish" in change else 4), "it is read again"
    task.cancel()


async def test_changes_that_were_told_before_the_list_remove_no_node(world: World) -> None:
    task = asyncio.create_task(world.capacity.run())
    await asyncio.sleep(1)
    world.api.edit(NODES, "n2", ("spec",), {"unschedulable": True})
    world.lose()
    await asyncio.sleep(1)
    assert world.gpus() == dict.fromkeys(NAMES, 4)
    task.cancel()
