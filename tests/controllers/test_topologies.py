"""Topologies of other schedulers on a model of the API server: order, owners, and what stays."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import prometheus_client as prom
import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.cleanup.cluster import CleanedCluster
from master.cleanup.command import clean_up
from master.controllers.controller import Controller
from master.controllers.retention_grace import RetentionGrace
from master.controllers.topologies import FORMATS, TopologyComparer, manager_of
from master.kube.objects import NODES, Resource, collection_path
from master.kube.schedulers.node_features import NODE_FEATURES
from master.kube.schedulers.topologies import (
    CLUSTER_QUEUES,
    KOORDINATOR_TOPOLOGIES,
    KUEUE_FLAVORS,
    KUEUE_TOPOLOGIES,
    PUBLISHED_TOPOLOGIES,
)
from master.kube.writing.writer import Writer, WriterMetrics
from tests.kube.api_model import ApiModel
from tests.kube.model_store import ModelStore
from tests.publish.forests import LEAVES, VENDOR, box, fly, forest, hanging
from tests.support.virtual_time import in_virtual_time
from topo.discovery.tree.fabric_forests import forests_beside
from topo.model.forest import Forest
from topo.publish.node_labels import label_keys
from topo.publish.topologies.koordinator import NAME

PUBLISHED = (*PUBLISHED_TOPOLOGIES, NODE_FEATURES)
virtual = pytest.mark.virtual_time
DOMAIN = "metax-tech.com"
KUEUE, KOORDINATOR = "kueue-topologies", "koordinator-topologies"
BOTH, BOX_ONLY, FLY_ONLY = (
    "supernode-switchbox-dragonfly",
    "supernode-switchbox",
    "supernode-dragonfly",
)
FORESTS: dict[str, Forest] = {
    BOTH: VENDOR,
    BOX_ONLY: forest(box("box", {}, ["node-1", "node-2"])),
    FLY_ONLY: forest(fly("fly", ["node-1", "node-2"])),
    "": forest(unplaced=["node-1"]),
}


@dataclass
class Leader:
    """A master that publishes one format on a model of the API server."""

    api: ApiModel = field(default_factory=ApiModel)
    forest: Forest = VENDOR
    name: str = KUEUE
    comparer: TopologyComparer | None = None
    controller: Controller[Any] | None = None

    def publish(self, of: Forest) -> None:
        self.forest = of
        assert self.controller is not None
        self.controller.wake()

    def names(self, resource: Resource[Any]) -> set[str]:
        return {name for at, name in self.api.objects if at == collection_path(resource)}

    def queue(self, name: str, *flavors: str) -> None:
        """A ClusterQueue that names these flavors, instead of those that it named before."""
        if name in self.names(CLUSTER_QUEUES):
            self.api.remove(CLUSTER_QUEUES, name)
        groups = [{"flavors": [{"name": each} for each in flavors]}]
        self.api.add(CLUSTER_QUEUES, name, spec={"resourceGroups": groups})

    @property
    def told(self) -> dict[str, str]:
        assert self.comparer is not None
        return {each.code: each.text for each in self.comparer.warnings()}

    @asynccontextmanager
    async def leading(
        self, *, served: bool = True, forget_s: float = 0.0, nominates: bool = False
    ) -> AsyncIterator[None]:
        clock = asyncio.get_running_loop().time
        writer = Writer(self.api, WriterMetrics(prom.CollectorRegistry()), clock=clock)
        stores: Any = {
            each: ModelStore(self.api, each, delay_s=0.02, synced=served)
            for each in FORMATS[self.name].followed
        }
        self.comparer = TopologyComparer(
            self.name,
            stores,
            writer,
            lambda: self.forest,
            beside=forests_beside,
            keys=label_keys(DOMAIN, {}),
            domain=DOMAIN,
            grace=RetentionGrace(ModelStore(self.api, NODES), clock() + forget_s, clock),
            nominates=nominates,
        )
        controller = self.controller = Controller(self.comparer.compare, is_settled=lambda: True)
        writer.listen(manager_of(self.name), lambda _: controller.wake())
        for store in stores.values():
            writer.follow(store)
            store.subscribe(lambda _: controller.wake())
        tasks = [asyncio.ensure_future(work()) for work in (writer.run, self.controller.run)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def settled() -> None:
    await asyncio.sleep(5)


@virtual
async def test_a_flavor_comes_after_its_topology_each_once_and_a_restart_writes_nothing() -> None:
    leader = Leader()
    async with leader.leading():
        await settled()
    assert leader.api.writes == [("POST", BOTH)] * 2
    assert [call.path.rpartition("/")[2] for call in leader.api.calls] == [
        "topologies",
        "resourceflavors",
    ]
    async with leader.leading():
        await settled()
    assert len(leader.api.calls) == 2


@virtual
@pytest.mark.parametrize(
    ("name", "made"),
    [
        (KUEUE, {BOTH, "supernode-scale-out-leaf"}),
        ("kai-topologies", {BOTH, "supernode-scale-out-leaf"}),
        (KOORDINATOR, {NAME}),
    ],
)
async def test_leaves_beside_the_tree_are_a_topology_of_their_own_where_there_may_be_several(
    name: str, made: set[str]
) -> None:
    leader = Leader(name=name, forest=hanging(VENDOR, LEAVES))
    async with leader.leading():
        await settled()
        for resource in FORMATS[name].kinds:
            assert leader.names(resource) == made
        bodies = str([call.body for call in leader.api.calls if call.method == "POST"])
        assert ("metax-tech.com/scale-out-leaf" in bodies) == (len(made) > 1)


@virtual
async def test_where_the_api_is_not_served_nothing_is_asked() -> None:
    leader = Leader()
    async with leader.leading(served=False):
        await settled()
    assert leader.api.calls == []


@virtual
async def test_other_tiers_are_new_objects_and_the_old_stay_until_no_queue_names_them() -> None:
    leader = Leader()
    async with leader.leading():
        await settled()
        leader.queue("training", BOTH)
        leader.publish(FORESTS[FLY_ONLY])
        await settled()
        assert leader.names(KUEUE_FLAVORS) == leader.names(KUEUE_TOPOLOGIES) == {BOTH, FLY_ONLY}
        assert (
            f"ClusterQueue training names ResourceFlavor {BOTH}" in leader.told["topology-outdated"]
        )
        leader.queue("training", FLY_ONLY)
        await settled()
        assert leader.names(KUEUE_FLAVORS) == leader.names(KUEUE_TOPOLOGIES) == {FLY_ONLY}
        assert leader.told == {}
    flavor, topology = (collection_path(each) for each in (KUEUE_FLAVORS, KUEUE_TOPOLOGIES))
    deleted = [call.path for call in leader.api.calls if call.method == "DELETE"]
    assert deleted == [f"{flavor}/{BOTH}", f"{topology}/{BOTH}"]


@virtual
async def test_a_topology_that_a_flavor_of_somebody_else_names_stays() -> None:
    leader = Leader()
    async with leader.leading():
        await settled()
        leader.api.add(KUEUE_FLAVORS, "theirs", spec={"topologyName": BOTH})
        leader.publish(FORESTS[FLY_ONLY])
        await settled()
        assert leader.names(KUEUE_TOPOLOGIES) == {BOTH, FLY_ONLY}
        assert leader.names(KUEUE_FLAVORS) == {"theirs", FLY_ONLY}


@virtual
async def test_while_nodes_are_unheard_after_a_start_nothing_is_taken_away() -> None:
    leader = Leader()
    async with leader.leading():
        await settled()
    leader.forest = FORESTS[FLY_ONLY]
    leader.api.add(NODES, "node-7")
    async with leader.leading(forget_s=600.0):
        await settled()
        assert leader.names(KUEUE_TOPOLOGIES) == {BOTH, FLY_ONLY}
        await asyncio.sleep(900)
        assert leader.names(KUEUE_TOPOLOGIES) == {FLY_ONLY}


@virtual
async def test_what_somebody_deletes_or_edits_is_repaired_and_taints_of_theirs_stay() -> None:
    leader = Leader()
    async with leader.leading():
        await settled()
        leader.api.remove(KUEUE_FLAVORS, BOTH)
        await settled()
        assert leader.names(KUEUE_FLAVORS) == {BOTH}
        taint = [{"key": "gpu", "effect": "NoSchedule"}]
        leader.api.edit(KUEUE_FLAVORS, BOTH, ("spec", "nodeTaints"), taint)
        before = len(leader.api.calls)
        await settled()
        assert len(leader.api.calls) == before


@virtual
async def test_an_object_of_somebody_else_is_left_alone_and_told() -> None:
    leader = Leader()
    leader.api.add(KUEUE_TOPOLOGIES, BOTH, spec={"levels": [{"nodeLabel": "example.com/rack"}]})
    async with leader.leading():
        await settled()
        assert leader.api.calls == []
        assert f"there is a Topology {BOTH}" in leader.told["topology-conflict"]
        leader.api.remove(KUEUE_TOPOLOGIES, BOTH)
        await settled()
        assert leader.names(KUEUE_FLAVORS) == {BOTH}
        assert leader.told == {}


@virtual
async def test_koordinators_one_object_is_changed_in_its_place() -> None:
    leader = Leader(name=KOORDINATOR)
    async with leader.leading():
        await settled()
        leader.publish(FORESTS[FLY_ONLY])
        await settled()
        leader.publish(FORESTS[""])
        await settled()
    assert leader.api.writes == [("POST", NAME), ("PATCH", NAME), ("DELETE", NAME)]
    assert leader.names(KOORDINATOR_TOPOLOGIES) == set()


@virtual
@pytest.mark.parametrize("nominates", [True, False])
async def test_a_queue_whose_nodes_kueue_chooses_is_told_where_gangs_are_nominated(
    *,
    nominates: bool,
) -> None:
    leader = Leader()
    leader.api.add(KUEUE_FLAVORS, "plain", spec={})
    leader.queue("quota", "plain")
    async with leader.leading(nominates=nominates):
        await settled()
        assert leader.told == {}
        leader.queue("tas", BOTH)
        await settled()
        text = leader.told.get("kueue-chooses-nodes", "")
        assert text.startswith("ClusterQueue tas names ResourceFlavor") is nominates


@virtual
async def test_an_uninstall_takes_away_what_is_ours_of_each_kind_and_nothing_else() -> None:
    api = ApiModel(served=frozenset(each.plural for each in PUBLISHED))
    for resource in PUBLISHED:
        place = {"namespace": "topo"} if resource.namespaced else {}
        ours = {"labels": {f"{DOMAIN}/managed-by": "topo-master"}, **place}
        api.add(resource, f"ours-{resource.kind}", metadata=ours)
        api.add(resource, f"theirs-{resource.kind}", metadata=place)
    removed = await clean_up(
        CleanedCluster(client=api, namespace="topo", domain=DOMAIN, webhook="topo-admission")
    )
    left = {name for _, name in api.objects}
    assert left == {f"theirs-{each.kind}" for each in PUBLISHED}
    assert {*removed.more} == {each.kind for each in PUBLISHED}


NAMED = st.lists(st.sampled_from([BOTH, BOX_ONLY, FLY_ONLY, "theirs"]), max_size=2)


@given(st.lists(st.tuples(st.sampled_from(list(FORESTS)), NAMED, st.booleans()), max_size=6))
def test_in_any_order_no_flavor_lacks_its_topology_and_none_that_a_queue_names_goes(
    steps: Sequence[tuple[str, list[str], bool]],
) -> None:
    """Judged after each single write by a second reader of the objects."""
    in_virtual_time(_judged(steps))


async def _judged(steps: Sequence[tuple[str, list[str], bool]]) -> None:
    leader = Leader(api=ApiModel(delay_s=0.05))
    wrong: list[str] = []

    def look(at: str, name: str, document: Any) -> None:
        flavors, topologies = leader.names(KUEUE_FLAVORS), leader.names(KUEUE_TOPOLOGIES)
        wrong.extend(f"{each} lacks its topology" for each in flavors - topologies)
        if document is None and at == collection_path(KUEUE_FLAVORS) and name in named:
            wrong.append(f"{name} went while a queue named it")

    named: set[str] = set()
    leader.api.watches.append(look)
    async with leader.leading():
        for tiers, flavors, waits in steps:
            leader.publish(FORESTS[tiers])
            named = {*flavors}
            leader.queue("queue", *flavors)
            # A queue that names a flavor in the moment of its deletion is Kueue's to judge: its
            # finalizer keeps the flavor. So the queue is known before the next forest.
            await asyncio.sleep(5 if waits else 0.5)
        await settled()
        wanted = {tiers for tiers, _, _ in steps[-1:] if tiers} if steps else {BOTH}
        kept = leader.names(KUEUE_FLAVORS) - wanted
        assert kept <= named
        assert leader.names(KUEUE_FLAVORS) == leader.names(KUEUE_TOPOLOGIES)
        assert wanted <= leader.names(KUEUE_FLAVORS)
    assert wrong == []
