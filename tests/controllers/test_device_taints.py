"""Rules for devices of broken GPUs: which devices they are about, and when they go."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import prometheus_client as prom
import pytest

from master.controllers.controller import Controller
from master.controllers.device_taints import MANAGER, DeviceTaintComparer
from master.kube.dra.slices import RESOURCE_SLICES, device_slice
from master.kube.dra.taint_rules import DEVICE_TAINT_RULES
from master.kube.objects import NODES, NodeObject, parsed
from master.kube.writing.writer import Writer, WriterMetrics
from tests.controllers.nomination.masters import until
from tests.kube.api_model import ApiModel
from tests.kube.model_store import ModelStore
from topo.discovery.node.record import JudgedGpu
from topo.model.ids import GpuUuid
from topo.model.machine import Gpu

pytestmark = pytest.mark.virtual_time
AT = "/apis/resource.k8s.io/v1/devicetaintrules"


def gpu(index: int, *, broken: bool = True, bdf: str = "", uuid: str = "") -> JudgedGpu:
    found = Gpu(index, uuid=GpuUuid(uuid or f"GPU-{index}"), bdf=bdf or None)  # type: ignore[arg-type]
    return JudgedGpu(found, broken)


class Cluster:
    """Nodes n1 and n2, what drivers publish, and what is judged of the GPUs."""

    def __init__(self) -> None:
        self.api = ApiModel()
        self.judged: dict[str, tuple[JudgedGpu, ...]] = {}
        for name in ("n1", "n2"):
            self.api.add(NODES, name)

    def publish(
        self,
        name: str,
        node: str,
        generation: int = 1,
        slices: int = 1,
        **devices: dict[str, str],
    ) -> None:
        """One of the slices of the driver's pool of the node."""
        named = [
            {"name": name, "attributes": {key: {"string": value} for key, value in each.items()}}
            for name, each in devices.items()
        ]
        pool = {"name": node, "generation": generation, "resourceSliceCount": slices}
        spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": node, "devices": named}
        self.api.add(RESOURCE_SLICES, name, spec=spec)

    def rules(self) -> dict[str, str]:
        """The effect of the taint by device, of all rules."""
        found = [each.document["spec"] for (at, _), each in self.api.objects.items() if at == AT]
        return {each["deviceSelector"]["device"]: each["taint"]["effect"] for each in found}

    @asynccontextmanager
    async def leading(self, effect: str = "NoSchedule") -> AsyncIterator[Controller[NodeObject]]:
        """A master that leads for a while."""
        clock = asyncio.get_running_loop().time
        registry = prom.CollectorRegistry()
        writer = Writer(self.api, WriterMetrics(registry), clock=clock)
        slices: Any = ModelStore(self.api, parsed(RESOURCE_SLICES, device_slice))
        rules, nodes = ModelStore(self.api, DEVICE_TAINT_RULES), ModelStore(self.api, NODES)
        comparer = DeviceTaintComparer(
            slices,
            rules,
            nodes,
            writer,
            judged=self.judged.get,
            effect=effect,
            domain="metax-tech.com",
            registry=registry,
        )
        controller = Controller[NodeObject](comparer.compare, is_settled=lambda: True)
        writer.follow(rules)
        writer.listen(MANAGER, lambda _: None)
        for store in (slices, rules, nodes):
            store.subscribe(lambda _: controller.wake())
        tasks = [asyncio.ensure_future(work()) for work in (writer.run, controller.run)]
        try:
            yield controller
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def settled(controller: Controller[NodeObject]) -> None:
    """After whatever is to be written."""
    controller.wake()
    await asyncio.sleep(5)


async def test_devices_that_are_a_broken_gpu_or_a_part_of_one_are_tainted() -> None:
    cluster = Cluster()
    cluster.publish(
        "s1",
        "n1",
        whole={"uuid": "GPU-0"},
        part={"uuid": "MIG-1", "parentUUID": "GPU-0"},
        other={"uuid": "GPU-1"},
        address={"resource.kubernetes.io/pciBusID": "0000:3B:00.0"},
        unnamed={"model": "x"},
    )
    cluster.publish("s2", "n2", elsewhere={"uuid": "GPU-0"})
    bad = gpu(2, bdf="0000:3b:00.0", uuid="GPU-2")
    cluster.judged["n1"] = (gpu(0), gpu(1, broken=False), bad)
    async with cluster.leading() as controller:
        await settled(controller)
        assert cluster.rules() == dict.fromkeys(("whole", "part", "address"), "NoSchedule")
        cluster.judged["n1"] = tuple(
            each._replace(is_broken=False) for each in cluster.judged["n1"]
        )
        await settled(controller)
        assert cluster.rules() == {}


async def test_slices_of_an_older_generation_of_a_pool_do_not_count() -> None:
    cluster = Cluster()
    cluster.publish("old", "n1", 1, before={"uuid": "GPU-0"})
    cluster.publish("new", "n1", 2, now={"uuid": "GPU-0"})
    cluster.judged["n1"] = (gpu(0),)
    async with cluster.leading() as controller:
        await settled(controller)
        assert set(cluster.rules()) == {"now"}


async def test_the_next_leader_keeps_a_rule_until_it_knows_better_and_sets_its_effect() -> None:
    cluster = Cluster()
    cluster.publish("s1", "n1", one={"uuid": "GPU-0"})
    cluster.judged["n1"] = (gpu(0),)
    async with cluster.leading("None") as controller:
        await settled(controller)
    cluster.judged.clear()
    async with cluster.leading() as controller:
        await settled(controller)
        assert cluster.rules() == {"one": "None"}, "nothing is known yet"
        cluster.judged["n1"] = (gpu(0),)
        await settled(controller)
        assert cluster.rules() == {"one": "NoSchedule"}
        cluster.judged["n1"] = (gpu(1, broken=False),)
        await settled(controller)
        assert set(cluster.rules()) == {"one"}, "the worker sees the GPU no more"


async def test_a_rule_goes_with_its_node_and_with_its_device() -> None:
    cluster = Cluster()
    cluster.publish("s1", "n1", one={"uuid": "GPU-0"}, two={"uuid": "GPU-1"})
    cluster.publish("s2", "n2", three={"uuid": "GPU-3"})
    cluster.judged |= {"n1": (gpu(0), gpu(1)), "n2": (gpu(3),)}
    async with cluster.leading() as controller:
        await settled(controller)
        assert set(cluster.rules()) == {"one", "two", "three"}
        cluster.api.remove(RESOURCE_SLICES, "s1")
        cluster.publish("s1", "n1", 2, two={"uuid": "GPU-1"})
        cluster.api.remove(RESOURCE_SLICES, "s2")
        await settled(controller)
        assert set(cluster.rules()) == {"two", "three"}, "a driver restarts on n2"
        cluster.api.remove(NODES, "n2")
        cluster.judged.pop("n2")
        await settled(controller)
        assert set(cluster.rules()) == {"two"}


async def test_a_rule_stays_while_a_driver_renews_the_slices_of_a_pool_one_by_one() -> None:
    cluster = Cluster()
    cluster.publish("s1", "n1", 1, 2, one={"uuid": "GPU-0"})
    cluster.publish("s2", "n1", 1, 2, two={"uuid": "GPU-1"})
    cluster.judged["n1"] = (gpu(0), gpu(1))
    async with cluster.leading() as controller:
        await settled(controller)
        cluster.publish("s1", "n1", 2, 2, one={"uuid": "GPU-0"})
        await settled(controller)
        assert set(cluster.rules()) == {"one", "two"}
        cluster.publish("s2", "n1", 2, 2, three={"uuid": "GPU-3"})
        await settled(controller)
        assert set(cluster.rules()) == {"one"}


async def test_a_broken_gpu_keeps_its_rule_where_there_are_more_than_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    cluster.publish("s2", "n2", one={"uuid": "GPU-0"})
    cluster.judged["n2"] = (gpu(0),)
    async with cluster.leading() as controller:
        await settled(controller)
        monkeypatch.setattr("master.controllers.device_taints.MOST_RULES", 0)
        await settled(controller)
        assert set(cluster.rules()) == {"one"}


async def test_rules_of_others_stay_as_they_are() -> None:
    cluster = Cluster()
    selector = {"driver": "gpu.example.com", "pool": "n1", "device": "one"}
    taint = {"key": "somebody/else", "effect": "NoExecute"}
    cluster.api.add(DEVICE_TAINT_RULES, "own", spec={"deviceSelector": selector, "taint": taint})
    cluster.publish("s1", "n1", one={"uuid": "GPU-0"})
    cluster.judged["n1"] = (gpu(0, broken=False),)
    async with cluster.leading() as controller:
        await settled(controller)
        await until(lambda: cluster.rules() == {"one": "NoExecute"})
