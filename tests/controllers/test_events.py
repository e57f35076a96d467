"""Events on a model of the API server: told once, on the right object, whatever the server does."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import prometheus_client as prom
import pytest

from master.controllers.events import (
    AT_ONCE,
    MOST_UNWRITTEN,
    EventController,
    service_object,
)
from master.kube.errors import KubeError
from master.kube.objects import NODES
from master.kube.writing.writer import Writer, WriterMetrics
from tests.kube.api_model import ApiModel
from tests.kube.model_store import ModelStore
from topo.model.forest import (
    Forest,
    Group,
    LinkState,
    Node,
    Snapshot,
    SourceState,
    Status,
    Wire,
)
from topo.model.ids import Generation, GroupName, Kind, NodeName, ServerUuid, SourceName
from topo.publish.event_series import BURST, REFILL_S, Regarding, Reporter

pytestmark = pytest.mark.virtual_time
MASTER = Regarding("apps/v1", "Deployment", "topo-master", "uid-m", "metax")
POD = "topo-master-68b7f7c6d4-x2k9z"


def pair(state: LinkState, number: int = 1) -> Group:
    """A dragonfly of two nodes with one cable between them, in this state."""
    names = [NodeName(f"node-{2 * number - 1}"), NodeName(f"node-{2 * number}")]
    nodes = tuple(
        Node(name, Status.READY, wires=(Wire(1, ServerUuid(f"server-{other}"), other, state),))
        for name, other in zip(names, reversed(names), strict=True)
    )
    return Group(GroupName(f"dragonfly-{number}"), Kind("dragonfly"), 1, Status.READY, nodes)


UP, DOWN = Forest((pair(LinkState.UP),)), Forest((pair(LinkState.DOWN),))


@dataclass
class World:
    """A cluster with nodes, and what its leader sees."""

    nodes: int = 2
    api: ApiModel = field(default_factory=ApiModel)
    snapshot: Snapshot = field(default_factory=lambda: Snapshot(Generation(1), UP))
    is_settled: bool = True
    about: Regarding | None = MASTER
    registry: prom.CollectorRegistry = field(default_factory=prom.CollectorRegistry)

    def __post_init__(self) -> None:
        for number in range(1, self.nodes + 1):
            self.api.add(NODES, f"node-{number}")

    def publish(self, forest: Forest) -> None:
        self.snapshot = replace(self.snapshot, forest=forest)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The Events that the server has."""
        at = [key for key in self.api.objects if key[0].endswith("/events")]
        return [self.api.objects[key].document for key in at]

    @property
    def told(self) -> Counter[tuple[str, str]]:
        return Counter((e["regarding"]["name"], e["reason"]) for e in self.events)

    @property
    def event_calls(self) -> int:
        return sum("/events/" in call.path for call in self.api.calls)

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        loop, rng = asyncio.get_running_loop(), random.Random(1)  # noqa: S311
        self.registry = prom.CollectorRegistry()
        writer = Writer(self.api, WriterMetrics(self.registry), clock=loop.time, rng=rng)

        async def about() -> Regarding | None:
            return self.about

        telling = EventController(
            nodes=ModelStore(self.api, NODES),
            writer=writer,
            snapshot=lambda: self.snapshot,
            reporter=Reporter("topo-master", "topo-master-0"),
            about_service=about,
            is_settled=lambda: self.is_settled,
            registry=self.registry,
            now=lambda: 1_800_000_000.0 + loop.time(),
        )
        tasks = [asyncio.ensure_future(work()) for work in (writer.run, telling.run)]
        await asyncio.sleep(2)
        try:
            yield
            assert not [task for task in tasks if task.done()]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_cut_cable_is_an_event_on_both_nodes_within_two_seconds():
    world = World()
    async with world.leading():
        world.publish(DOWN)
        await asyncio.sleep(2)
        assert world.told == {("node-1", "LinkDown"): 1, ("node-2", "LinkDown"): 1}
        node = next(n for n in world.events if n["regarding"]["name"] == "node-1")
        stored = next(o for (_, name), o in world.api.objects.items() if name == "node-1")
        assert node["regarding"]["uid"] == stored.document["metadata"]["uid"]
        assert node["metadata"]["namespace"] == "default"
        world.publish(UP)
        await asyncio.sleep(2)
        assert world.told["node-1", "LinkUp"] == world.told["node-2", "LinkUp"] == 1


async def test_a_new_leader_repeats_nothing_and_tells_what_heals():
    world = World()
    async with world.leading():
        world.publish(DOWN)
        await asyncio.sleep(2)
    before = world.event_calls
    async with world.leading():
        await asyncio.sleep(60)
        assert world.event_calls == before
        world.publish(UP)
        await asyncio.sleep(2)
        assert world.told["node-1", "LinkUp"] == 1


async def test_nothing_is_told_before_the_forest_has_settled():
    world = World(is_settled=False)
    async with world.leading():
        world.publish(DOWN)
        await asyncio.sleep(60)
        world.is_settled = True
        await asyncio.sleep(60)
        assert world.events == []


async def test_a_flapping_cable_is_two_events_that_count_and_floods_nobody():
    """Ten minutes, a change every two seconds; the last state is told at the end."""
    world = World()
    async with world.leading():
        for tick in range(300):
            world.publish(DOWN if tick % 2 == 0 else UP)
            await asyncio.sleep(2)
        assert world.told == {
            (node, reason): 1 for node in ("node-1", "node-2") for reason in ("LinkDown", "LinkUp")
        }
        assert world.event_calls <= 2 * (BURST + 600 / REFILL_S)
        await asyncio.sleep(2 * REFILL_S)
        counts = {e["series"]["count"] for e in world.events}
        assert counts == {150}
        dropped = world.registry.get_sample_value("topo_master_kube_events_dropped_total")
        assert dropped == world.registry.get_sample_value("topo_master_kube_events_waiting") == 0
        down = {"reason": "LinkDown"}
        occurrences = "topo_master_kube_event_occurrences_total"
        assert world.registry.get_sample_value(occurrences, down) == 300


async def test_many_nodes_at_once_are_told_little_by_little():
    """Labels and HyperNodes share the same allowance of requests and come first."""
    world = World(nodes=200)
    up = Forest(tuple(pair(LinkState.UP, n) for n in range(1, 101)))
    down = Forest(tuple(pair(LinkState.DOWN, n) for n in range(1, 101)))
    world.publish(up)
    async with world.leading():
        world.publish(down)
        await asyncio.sleep(5)
        assert AT_ONCE < len(world.events) <= 6 * AT_ONCE
        await asyncio.sleep(20)
        assert len(world.events) == 200


async def test_an_api_server_that_is_away_loses_nothing_and_is_not_stormed_at_its_return():
    world = World(nodes=400)
    up = Forest(tuple(pair(LinkState.UP, n) for n in range(1, 201)))
    down = Forest(tuple(pair(LinkState.DOWN, n) for n in range(1, 201)))
    world.publish(up)
    async with world.leading():
        world.api.faults = [KubeError("away")] * 1_000_000
        world.publish(down)
        await asyncio.sleep(600)
        asked = {call.path for call in world.api.calls}
        assert len(asked) <= MOST_UNWRITTEN
        world.api.faults = []
        await asyncio.sleep(120)
        assert len(world.events) == 400


async def test_a_node_that_the_cluster_lacks_is_told_nowhere():
    world = World(nodes=1)
    async with world.leading():
        world.publish(DOWN)
        await asyncio.sleep(2)
        assert world.told == {("node-1", "LinkDown"): 1}


@pytest.mark.parametrize("about", [MASTER, None])
async def test_a_lost_source_is_told_on_the_deployment_where_there_is_one(about):
    world = World(about=about)
    good = SourceState(SourceName("cluster-manager"), 0.0)
    bad = replace(good, failing_since_s=1.0, trouble="connection refused")
    world.snapshot = Snapshot(Generation(1), UP, (good,))
    async with world.leading():
        world.snapshot = replace(world.snapshot, sources=(bad,))
        await asyncio.sleep(2)
        world.snapshot = replace(world.snapshot, sources=(good,))
        await asyncio.sleep(2)
        wanted = {("topo-master", "SourceLost"): 1, ("topo-master", "SourceRecovered"): 1}
        assert world.told == (wanted if about else {})
        assert {e["metadata"]["namespace"] for e in world.events} <= {"metax"}


class Deployment:
    """Answers the question for one object, or refuses it."""

    def __init__(self, answer: bytes | KubeError) -> None:
        self.answer = answer

    async def call(self, _call: Any) -> bytes:
        if isinstance(self.answer, KubeError):
            raise self.answer
        return self.answer


async def test_the_object_of_the_service_is_its_deployment_with_its_uid():
    body = orjson.dumps({"metadata": {"name": "topo-master", "uid": "uid-m"}})
    assert await service_object(Deployment(body), "metax", POD) == MASTER


@pytest.mark.parametrize("answer", [KubeError("denied", status=403), b"{}", b"no JSON"])
async def test_a_deployment_that_cannot_be_read_is_told_of_without_its_uid(answer):
    found = await service_object(Deployment(answer), "metax", POD)
    assert found == MASTER._replace(uid="")


async def test_without_a_deployment_it_is_the_pod_and_without_a_pod_nothing():
    nobody = Deployment(KubeError("not asked"))
    pod = await service_object(nobody, "metax", "pod-1")
    assert pod == Regarding("v1", "Pod", "pod-1", "", "metax")
    assert await service_object(nobody, "", "") is None
    assert await service_object(nobody, "", POD) is None
