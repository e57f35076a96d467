"""Annotations of nodes on a model of the API server: they follow the facts, and nothing else."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import prometheus_client as prom
import pytest

from master.controllers.annotations import FRESH_AT_ONCE, MANAGER, AnnotationComparer
from master.controllers.controller import Controller
from master.kube.objects import NODES, NodeObject
from master.kube.writing.writer import Writer, WriterMetrics
from tests import builders
from tests.kube.api_model import ApiModel
from tests.kube.model_store import ModelStore
from tests.publish.test_gpu_annotations import host, islands
from topo.model.machine import NodeFacts

pytestmark = pytest.mark.virtual_time
SCORES, LOSSES, DIGEST = (
    f"metax-tech.com/gpu.topology.{n}" for n in ("scores", "losses", "digest")
)


@dataclass
class World:
    """A cluster, and what the workers of its nodes said."""

    api: ApiModel = field(default_factory=ApiModel)
    facts: dict[str, NodeFacts] = field(default_factory=dict)
    registry: prom.CollectorRegistry = field(default_factory=prom.CollectorRegistry)
    controller: Controller[NodeObject] | None = None

    def add(self, name: str, facts: NodeFacts | None, **annotations: str) -> None:
        self.api.add(NODES, name, metadata={"annotations": annotations})
        self.say(name, facts)

    def say(self, name: str, facts: NodeFacts | None) -> None:
        if facts is not None:
            self.facts[name] = facts

    def annotations(self, name: str) -> dict[str, str]:
        at = next(key for key in self.api.objects if key[1] == name)
        found: dict[str, str] = self.api.objects[at].document["metadata"].get("annotations", {})
        return dict(found)

    def edit(self, name: str, key: str, value: str | None) -> None:
        self.api.edit(NODES, name, ("metadata", "annotations", key), value)

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """A master that leads for a while; another one after it knows nothing of what it did."""
        loop, self.registry = asyncio.get_running_loop(), prom.CollectorRegistry()
        rng = random.Random(1)  # noqa: S311
        writer = Writer(self.api, WriterMetrics(self.registry), clock=loop.time, rng=rng)
        store = ModelStore(self.api, NODES, delay_s=0.02)
        comparer = AnnotationComparer(
            store,
            writer,
            self.facts.get,
            domain="metax-tech.com",
            registry=self.registry,
            wake=lambda *names: controller.wake(*names),  # noqa: PLW0108 - it comes after
        )
        controller = Controller[NodeObject](comparer.compare, is_settled=lambda: True)
        self.controller = controller
        writer.listen(MANAGER, lambda _: None)
        writer.follow(store)
        store.subscribe(controller.on_object)
        tasks = [asyncio.ensure_future(work()) for work in (writer.run, controller.run)]
        try:
            yield
            assert not [task for task in tasks if task.done()]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def deliver(self, seconds: float = 60.0) -> None:
        """Everything is looked at again, and what follows from it happens."""
        assert self.controller is not None
        self.controller.wake()
        await asyncio.sleep(seconds)


async def test_a_node_gets_both_annotations_in_one_write_and_then_none():
    world = World()
    world.add("node-1", host("node-1"))
    async with world.leading():
        await world.deliver()
        found = world.annotations("node-1")
        assert found[LOSSES].startswith('{"1":56,"2":96,"3":120,"4":128,')
        assert set(found) == {SCORES, LOSSES, DIGEST}
        await world.deliver()
    async with world.leading():
        await world.deliver()
    assert world.api.writes == [("PATCH", "node-1")]


async def test_a_gpu_that_falls_ill_changes_them():
    world = World()
    world.add("node-1", host("node-1"))
    async with world.leading():
        await world.deliver()
        before = world.annotations("node-1")
        world.say("node-1", host("node-1", sick=[3]))
        await world.deliver()
        after = world.annotations("node-1")
    assert before[LOSSES] != after[LOSSES]
    assert '"8":2000' in after[LOSSES]


async def test_a_node_whose_worker_is_not_heard_keeps_what_an_earlier_master_wrote():
    world = World()
    world.add("node-1", host("node-1"))
    async with world.leading():
        await world.deliver()
    before = world.annotations("node-1")
    world.facts.clear()
    async with world.leading():
        await world.deliver()
        world.say("node-1", builders.facts("node-1"))  # without a matrix: its probe fails
        await world.deliver()
    assert world.annotations("node-1") == before


async def test_what_somebody_else_writes_stays_and_is_counted():
    """MetaX's own extension writes the same two, and knows which GPUs are free."""
    world = World()
    world.add("node-1", host("node-1"), **{SCORES: '{"1":1}', LOSSES: '{"1":2}'})
    world.add("node-2", host("node-2"))
    async with world.leading():
        await world.deliver()
        world.edit("node-2", LOSSES, '{"1":3}')
        await world.deliver()
        assert world.annotations("node-1") == {SCORES: '{"1":1}', LOSSES: '{"1":2}'}
        assert world.annotations("node-2")[LOSSES] == '{"1":3}'
        assert world.registry.get_sample_value("topo_master_foreign_gpu_annotations") == 2
        for key in (SCORES, LOSSES):
            world.edit("node-1", key, None)
        await world.deliver()
        assert world.annotations("node-1")[LOSSES].startswith('{"1":56,')
        assert world.registry.get_sample_value("topo_master_foreign_gpu_annotations") == 1


async def test_a_node_of_the_forest_that_the_cluster_lacks_is_not_made():
    world = World()
    world.say("node-9", host("node-9"))
    async with world.leading():
        await world.deliver()
    assert world.api.calls == []


async def test_nodes_beyond_one_go_get_theirs_in_the_next():
    """So that nobody waits while the tables of a whole cluster are worked out."""
    world, matrix = World(), islands()
    names = [f"node-{n}" for n in range(FRESH_AT_ONCE + 50)]
    for name in names:
        world.add(name, replace(builders.facts(name), matrix=matrix))
    async with world.leading():
        await world.deliver(600)
    assert len(world.api.writes) == len(names)
