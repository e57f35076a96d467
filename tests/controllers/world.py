"""Controllers at work on a model of the API server, with a forest that a test publishes."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import prometheus_client as prom
import pytest

from master.controllers.retention_grace import RetentionGrace
from master.controllers.table import Controllers, ControllerView, build_controllers
from master.kube.dra.slices import RESOURCE_SLICES
from master.kube.dra.taint_rules import DEVICE_TAINT_RULES
from master.kube.gang_object import GANGS
from master.kube.objects import NODES, PODS, collection_path
from master.kube.schedulers.composite_groups import COMPOSITE_GROUPS
from master.kube.schedulers.hypernodes import HYPERNODES
from master.kube.schedulers.node_features import NODE_FEATURES
from master.kube.schedulers.scheduling_groups import SCHEDULING_GROUPS
from master.kube.writing.writer import Writer, WriterMetrics
from master.object_errors import ObjectErrors
from tests.kube.api_model import ApiModel
from tests.kube.model_store import ModelStore
from topo.discovery.tree.fabric_forests import forests_beside
from topo.kit.threads import MadeOnce
from topo.model.forest import Forest, NodeSuspicion, Snapshot
from topo.model.ids import Generation, NodeName
from topo.publish.event_series import Reporter
from topo.publish.node_labels import Labels, label_keys, node_labels

WATCH_DELAY_S = 0.02
NAMESPACE = "topo"
ENOUGH_S = 60.0


async def deliver(seconds: float = ENOUGH_S) -> None:
    """Lets all happen that happens within a time."""
    await asyncio.sleep(seconds)


@dataclass
class ClusterWorld:
    """A cluster, and the forest that its leader sees."""

    api: ApiModel
    forest: Forest
    is_settled: bool = True
    controllers: Controllers = field(default_factory=Controllers)
    suspected: dict[NodeName, NodeSuspicion] = field(default_factory=dict)
    labelled: list[Forest] = field(default_factory=list)
    """The forests of which the labels of all nodes were made."""
    errors: ObjectErrors = field(default_factory=ObjectErrors)
    hypernode_store: ModelStore[Any] | None = None
    tasks: list[asyncio.Future[None]] = field(default_factory=list)

    async def end(self) -> None:
        """Ends what this master does; nothing of it has ended before."""
        assert not [task for task in self.tasks if task.done()], "a work ended"
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks = []

    def publish(self, forest: Forest) -> None:
        self.forest = forest
        self.controllers.on_forest(Snapshot(Generation(1), forest))

    def settle(self, forest: Forest) -> None:
        self.is_settled = True
        self.publish(forest)

    def add_node(self, name: str, labels: dict[str, str] | None = None) -> None:
        self.api.add(NODES, name, metadata={"labels": labels or {}})

    def remove_node(self, name: str) -> None:
        self.api.remove(NODES, name)

    def edit_label(self, name: str, key: str, value: str | None) -> None:
        self.api.edit(NODES, name, ("metadata", "labels", key), value)

    def hypernodes(self) -> dict[str, dict[str, Any]]:
        """The specs of all HyperNodes by name."""
        at = collection_path(HYPERNODES)
        found = self.api.objects.items()
        return {name: stored.document["spec"] for (of, name), stored in found if of == at}

    def label_writes(self) -> list[tuple[str, str]]:
        return [(call, name) for call, name in self.api.writes if name.startswith("node-")]

    def hypernode_writes(self) -> list[tuple[str, str]]:
        return [(call, name) for call, name in self.api.writes if not name.startswith("node-")]

    @asynccontextmanager
    async def restarted(self, forest: Forest, **more: Any) -> AsyncIterator["ClusterWorld"]:
        """Another master on the same cluster, the first one having ended."""
        await self.end()
        async with _leading(ClusterWorld(self.api, forest), **more) as world:
            yield world


@asynccontextmanager
async def cluster_world(
    nodes: Sequence[str], forest: Forest, *, delay_s: float = 0.005, **more: Any
) -> AsyncIterator[ClusterWorld]:
    """A leader of a cluster with these nodes."""
    api = ApiModel(delay_s=delay_s)
    for name in nodes:
        api.add(NODES, name)
    async with _leading(ClusterWorld(api, forest), **more) as world:
        yield world


async def _nothing() -> None:
    """The object of this master: there is none."""


@asynccontextmanager
async def _leading(
    world: ClusterWorld,
    *,
    is_settled: bool = True,
    domain: str = "metax-tech.com",
    forget_s: float = 86_400.0,
    has_volcano: bool = True,
    has_nfd: bool = False,
    switched_on: Sequence[str] = ("labels", "hypernodes"),
) -> AsyncIterator[ClusterWorld]:
    loop, world.is_settled = asyncio.get_running_loop(), is_settled
    store = ModelStore(world.api, NODES, delay_s=WATCH_DELAY_S)
    world.hypernode_store = ModelStore(
        world.api, HYPERNODES, delay_s=WATCH_DELAY_S, synced=has_volcano
    )
    pods: Any = ModelStore(world.api, PODS, synced=False)
    slices: Any = ModelStore(world.api, RESOURCE_SLICES, synced=False)
    registry = prom.CollectorRegistry()
    metrics, rng = WriterMetrics(registry), random.Random(1)  # noqa: S311
    writer = Writer(world.api, metrics, clock=loop.time, rng=rng, errors=world.errors)
    keys = label_keys(domain, {})

    def labels_of(forest: Forest) -> Mapping[NodeName, Labels]:
        world.labelled.append(forest)
        return node_labels(forest, keys, forests_beside(forest))

    view = ControllerView(
        nodes=store,
        hypernodes=world.hypernode_store,
        writer=writer,
        forest=lambda: world.forest,
        snapshot=lambda: Snapshot(Generation(1), world.forest),
        facts=lambda _: None,
        is_settled=lambda: world.is_settled,
        grace=RetentionGrace(store, loop.time() + forget_s, loop.time),
        domain=domain,
        label_keys=keys,
        beside=forests_beside,
        node_labels=MadeOnce(labels_of).of,
        reporter=Reporter("topo-master", "topo-master-0"),
        about_service=_nothing,
        registry=registry,
        gangs=ModelStore(world.api, GANGS, synced=False),
        pods=pods,
        scheduling_groups=ModelStore(world.api, SCHEDULING_GROUPS, synced=False),
        composite_groups=ModelStore(world.api, COMPOSITE_GROUPS, synced=False),
        slices=slices,
        taint_rules=ModelStore(world.api, DEVICE_TAINT_RULES, synced=False),
        judged_gpus=lambda _: None,
        taint_effect="None",
        suspected=lambda: world.suspected,
        server_now=lambda: 1_767_225_600.0 + loop.time(),
        topologies={},
        node_features=ModelStore(world.api, NODE_FEATURES, delay_s=WATCH_DELAY_S, synced=has_nfd),
        namespace=NAMESPACE,
        nominates=False,
        provisioning={},
        errors=world.errors,
        nomination=lambda: pytest.fail("no gangs are placed in this world"),
    )
    world.controllers = build_controllers(view, switched_on)
    works = [writer.run, *world.controllers.works.values()]
    world.tasks = [asyncio.ensure_future(work()) for work in works]
    try:
        yield world
    finally:
        await world.end()
