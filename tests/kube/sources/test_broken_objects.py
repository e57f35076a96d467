"""A node or pod that raises an error counts on the safe side, and the others are counted."""

import asyncio
from typing import Any

import prometheus_client as prom
import pytest

from master.booking.metrics import PlacementMetrics
from master.booking.state import BookingState
from master.kube.gang_pod import ClusterPod
from master.kube.objects import NODES, PODS, Key, NodeObject, parsed
from master.object_errors import ObjectErrors, ObjectKind
from master.sources.kubernetes import capacity as capacity_module
from master.sources.kubernetes.capacity import ClusterCapacity
from master.sources.kubernetes.node_source import NodeSource
from master.sources.kubernetes.nodes import cluster_node, listed_node
from master.sources.kubernetes.pods import PodParser
from tests.kube.api_model import ApiModel
from tests.kube.model_store import ModelStore
from tests.support.devices import counts
from tests.support.kubernetes import node_manifest
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.terms import Way
from topo.model.cluster import ClusterNode
from topo.model.errors import SharedStateError
from topo.model.ids import NodeName
from topo.model.observation import ClusterNodesListed, Event, ListedNode
from topo.placement.booking.holds import Hold, HoldId, Limits
from topo.placement.job.policy import Policy

pytestmark = pytest.mark.virtual_time
BROKEN = "broken"
PARSER = PodParser(Policy(), AnnotationKeys("metax-tech.com"), Way.NOMINATION)


class World:
    """Three nodes with a pod each, of which two GPUs are taken."""

    def __init__(self) -> None:
        api = self.api = ApiModel()
        self.nodes: Any = ModelStore(api, NODES)
        self.pods: Any = ModelStore(api, parsed(PODS, PARSER.parse))
        self.errors = ObjectErrors()
        metrics = PlacementMetrics(prom.CollectorRegistry())
        self.state = BookingState(Policy(), Limits(), metrics, lambda: 0.0)
        stores: tuple[Any, Any] = (self.nodes, self.pods)
        self.capacity = ClusterCapacity(self.state, *stores, counts(api), errors=self.errors)
        for name in ("n1", BROKEN, "n3"):
            api.add(NODES, name, **node_manifest(name))
            limits = {"metax-tech.com/gpu": "2"}
            containers = [{"name": "c", "resources": {"limits": limits}}]
            metadata = {"name": f"on-{name}", "namespace": "team-a", "uid": f"on-{name}"}
            spec = {"nodeName": name, "containers": containers}
            api.add(PODS, f"on-{name}", metadata=metadata, spec=spec)

    def free(self) -> dict[str, int]:
        return {
            str(host.name): self.state.capacity.free(host.name)
            for host in self.state.capacity.hosts()
        }

    async def count(self) -> None:
        """Counts what is marked."""
        task = asyncio.create_task(self.capacity.run())
        await asyncio.sleep(1)
        assert not task.done(), task
        task.cancel()


@pytest.fixture
def world() -> World:
    return World()


async def test_a_node_that_raises_an_error_has_no_room_until_it_changes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(found: NodeObject, *rest: Any) -> ClusterNode:
        if found.metadata.name == BROKEN and not found.metadata.labels.get("mended"):
            raise ZeroDivisionError
        return cluster_node(found, *rest)

    monkeypatch.setattr(capacity_module, "cluster_node", broken)
    await world.count()
    assert {name: free for name, free in world.free().items() if name != BROKEN} == {
        "n1": 6,
        "n3": 6,
    }
    assert world.free().get(BROKEN, 0) <= 0
    (name,) = world.errors.of(ObjectKind.OBJECT)
    assert BROKEN in name
    assert BROKEN in world.capacity.doubts[0].text
    world.api.edit(NODES, BROKEN, ("metadata", "labels"), {"mended": "yes"})
    await world.count()
    assert world.free() == {"n1": 6, BROKEN: 6, "n3": 6}
    assert not world.errors.of(ObjectKind.OBJECT)


class BrokenSource:
    """Finds the hold of each pod but one."""

    def hold_of(self, pod: ClusterPod) -> HoldId | None:
        if pod.metadata.name == f"on-{BROKEN}":
            raise KeyError(pod.metadata.name)
        return None

    def takers(self, _hold: Hold) -> tuple[Key, ...]:
        return ()


async def test_a_pod_whose_hold_cannot_be_found_takes_its_gpus_against_none(world: World) -> None:
    world.capacity.add_hold_source(BrokenSource())
    await world.count()
    world.capacity.recount(world.capacity._known_pods)
    assert world.free() == {"n1": 6, BROKEN: 6, "n3": 6}
    assert len(world.errors.of(ObjectKind.OBJECT)) == 1
    world.api.remove(PODS, f"on-{BROKEN}", "team-a")
    await world.count()
    assert world.free()[BROKEN] == 8
    assert not world.errors.of(ObjectKind.OBJECT)


async def test_an_error_of_the_bookings_is_of_nobody_alone_and_ends_the_loop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("half changed")

    monkeypatch.setattr(world.state._bookings, "advance", broken)
    with pytest.raises(SharedStateError, match="half changed"):
        await world.capacity.run()


async def test_a_node_that_raises_an_error_is_listed_as_not_ready(world: World) -> None:
    """Discovery knows the others, and the name of this one."""
    sent: list[Event] = []

    class Sink:
        def submit(self, event: Event) -> bool:
            sent.append(event)
            return True

    def broken(found: NodeObject) -> ListedNode:
        if found.metadata.name == BROKEN:
            raise ZeroDivisionError
        return listed_node(found)

    await world.count()
    source = NodeSource(world.nodes, Sink(), world.capacity, broken, errors=world.errors)
    task = asyncio.create_task(source.run())
    await asyncio.sleep(1)
    assert not task.done()
    task.cancel()
    (listed,) = [each for each in sent if isinstance(each, ClusterNodesListed)]
    why = {each.name: each.not_ready for each in listed.nodes}
    assert why == {
        NodeName("n1"): "",
        NodeName("n3"): "",
        NodeName(BROKEN): "its object cannot be read: ZeroDivisionError",
    }
