"""NFD's objects on a model of the API server: one for each node with groups, no other touched."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from master.kube.objects import NODES, collection_path
from master.kube.schedulers.node_features import NODE_FEATURES
from tests.controllers.test_labels import CUT, MOVED, NAMES, silent
from tests.controllers.world import NAMESPACE, ClusterWorld, cluster_world, deliver
from tests.publish.forests import LEAVES, VENDOR, forest, hanging
from topo.publish.node_features import node_features
from topo.publish.node_labels import label_keys

pytestmark = pytest.mark.virtual_time

AT = collection_path(NODE_FEATURES, NAMESPACE)
OURS = {"metax-tech.com/managed-by": "topo-master"}
ON: Any = {"switched_on": ("node-features",), "has_nfd": True}
FLY, BOX = "metax-tech.com/dragonfly", "metax-tech.com/switchbox"
OUT = "metax-tech.com/scale-out-leaf"


def specs(world: ClusterWorld) -> dict[str, Any]:
    found = world.api.objects.items()
    return {name: stored.document["spec"] for (at, name), stored in found if at == AT}


def labels_of(world: ClusterWorld, node: str) -> Any:
    return specs(world)[f"topo-{node}"]["labels"]


def told(world: ClusterWorld) -> dict[str, str]:
    return {each.code: each.text for each in world.controllers.warnings}


def add(world: ClusterWorld, name: str, labels: dict[str, str], **metadata: Any) -> None:
    metadata |= {"namespace": NAMESPACE, "labels": labels}
    stale = {"labels": {FLY: "dragonfly-9", BOX: "switchbox-9"}}
    world.api.add(NODE_FEATURES, name, metadata=metadata, spec=stale)


async def test_each_node_with_groups_has_the_object_of_topo_export_and_a_restart_writes_none():
    async with cluster_world([*NAMES, "lonely"], VENDOR, **ON) as world:
        await deliver()
        exported = node_features(VENDOR, label_keys("metax-tech.com", {}), NAMESPACE)
        assert specs(world) == {each["metadata"]["name"]: each["spec"] for each in exported}
        node = world.api.objects[AT, "topo-node-1"].labels["nfd.node.kubernetes.io/node-name"]
        assert node == "node-1"
        assert len(world.api.calls) == 8
        async with world.restarted(VENDOR, **ON):
            await deliver(400)
            assert len(world.api.calls) == 8


async def test_a_node_that_moves_costs_one_write_and_one_that_leaves_its_groups_its_object():
    async with cluster_world(NAMES, VENDOR, **ON) as world:
        await deliver()
        world.publish(MOVED)
        await deliver()
        assert labels_of(world, "node-1") == {BOX: "switchbox-1", FLY: "dragonfly-2"}
        world.publish(forest(*VENDOR.roots[1:], unplaced=NAMES[:4]))
        await deliver()
        assert world.api.writes[8:9] == [("PATCH", "topo-node-1")]
        assert sorted(world.api.writes[9:]) == [("DELETE", f"topo-{name}") for name in NAMES[:4]]


async def test_an_object_goes_with_its_node_and_a_node_that_the_cluster_lacks_has_none():
    """NFD deletes the objects of such nodes, so two programs would write in turns."""
    async with cluster_world(NAMES[:4], VENDOR, **ON) as world:
        await deliver()
        assert {*specs(world)} == {f"topo-{name}" for name in NAMES[:4]}
        world.remove_node("node-1")
        world.add_node("node-5")
        await deliver(2.0)
        assert {*specs(world)} == {f"topo-node-{at}" for at in (2, 3, 4, 5)}


async def test_a_leaf_beside_the_tree_is_a_label_and_an_element_and_goes_as_it_came():
    async with cluster_world(NAMES, hanging(VENDOR, LEAVES), forget_s=0.0, **ON) as world:
        await deliver()
        assert labels_of(world, "node-3")[OUT] == "leaf-1"
        groups = specs(world)["topo-node-3"]["features"]["attributes"]["topo.groups"]["elements"]
        assert groups["scale-out-leaf"] == "leaf-1"
        world.publish(VENDOR)
        await deliver()
        assert labels_of(world, "node-3") == {BOX: "switchbox-1", FLY: "dragonfly-2"}


async def test_what_somebody_edits_or_deletes_is_repaired():
    async with cluster_world(NAMES, VENDOR, **ON) as world:
        await deliver()
        world.api.objects[AT, "topo-node-1"].document["spec"] = {"labels": {FLY: "wrong"}}
        world.api.touch(AT, "topo-node-1")
        world.api.remove(NODE_FEATURES, "topo-node-2", NAMESPACE)
        await deliver(2.0)
        for node in ("node-1", "node-2"):
            assert labels_of(world, node) == {BOX: "switchbox-1", FLY: "dragonfly-1"}


async def test_an_object_of_ours_is_adopted_and_one_with_other_writers_made_again():
    async with cluster_world([], VENDOR, **ON) as world:
        add(world, "topo-node-1", OURS)
        by_others = [{"manager": "backup", "operation": "Update"}]
        add(world, "topo-node-3", {**OURS, "x": "y"}, managedFields=by_others)
        add(world, "topo-gone", OURS)
        for name in ("node-1", "node-3"):
            world.add_node(name)
        world.publish(CUT)
        await deliver()
        writes = {
            name: [call for call, of in world.api.writes if of == name] for name in specs(world)
        }
        assert writes == {"topo-node-1": ["PATCH"], "topo-node-3": ["PATCH"]}
        world.publish(forest(*VENDOR.roots[1:], unplaced=["node-1", "node-3"]))
        await deliver()
        assert specs(world) == {}


async def test_a_stale_label_that_somebody_else_wrote_does_not_outlive_the_next_comparison():
    async with cluster_world(["node-1"], CUT, **ON) as world:
        by_others = [{"manager": "backup", "operation": "Update"}]
        add(world, "topo-node-1", OURS, managedFields=by_others)
        await deliver()
        assert world.api.writes[-2:] == [("DELETE", "topo-node-1"), ("POST", "topo-node-1")]
        assert labels_of(world, "node-1") == {BOX: "switchbox-1"}


async def test_an_object_that_waits_for_a_finalizer_is_made_again_once_it_is_gone():
    async with cluster_world(["node-1"], VENDOR, **ON) as world:
        leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/a"]}
        add(world, "topo-node-1", OURS, **leaving)
        await deliver()
        assert world.api.calls == []
        world.api.remove(NODE_FEATURES, "topo-node-1", NAMESPACE)
        await deliver(2.0)
        assert labels_of(world, "node-1") == {BOX: "switchbox-1", FLY: "dragonfly-1"}


async def test_objects_of_others_stay_and_one_with_the_name_of_ours_is_told():
    async with cluster_world([], VENDOR, **ON) as world:
        with capture_logs() as logs:
            for name in ("node-1", "topo-node-1", "topo-other"):
                add(world, name, {"app.kubernetes.io/managed-by": "topo-export"})
            for name in NAMES:
                world.add_node(name)
            world.publish(VENDOR)
            await deliver(400)
            assert not {name for _, name in world.api.writes} & {"node-1", "topo-node-1"}
            assert "1 NodeFeature" in told(world)["node-feature-conflict"]
            assert "topo-node-1" in told(world)["node-feature-conflict"]
            world.api.remove(NODE_FEATURES, "topo-node-1", NAMESPACE)
            await deliver(2.0)
            assert labels_of(world, "node-1") == {BOX: "switchbox-1", FLY: "dragonfly-1"}
            assert told(world) == {}
        assert [log["log_level"] for log in logs] == ["warning"]


async def test_without_nfd_nothing_is_asked_and_that_is_told_until_it_is_installed():
    async with cluster_world(NAMES, VENDOR, switched_on=("node-features",)) as world:
        await deliver()
        assert world.api.calls == []
        assert "nfd.k8s-sigs.io/v1alpha1" in told(world)["node-features-unserved"]
        async with world.restarted(VENDOR, **ON) as later:
            await deliver()
            assert len(specs(later)) == 8
            assert told(later) == {}


async def test_nodes_whose_workers_do_not_run_keep_their_objects_for_a_while():
    async with cluster_world(NAMES, hanging(VENDOR, LEAVES), **ON) as world:
        await deliver()
        before = specs(world)
        async with world.restarted(silent(*NAMES), forget_s=600.0, **ON) as restarted:
            await deliver(590)
            assert specs(world) == before
            await deliver(20)
            restarted.publish(silent(*NAMES))
            await deliver()
            assert specs(world) == {}


async def test_of_a_hundred_changes_in_two_seconds_the_last_one_stays_and_no_node_is_labelled():
    async with cluster_world(NAMES, VENDOR, **ON) as world:
        await deliver()
        for turn in range(100):
            world.publish(MOVED if turn % 2 else CUT)
            await deliver(0.02)
        await deliver()
        assert labels_of(world, "node-1") == {BOX: "switchbox-1", FLY: "dragonfly-2"}
        assert len([name for _, name in world.api.writes if name == "topo-node-1"]) < 100
        assert world.api.labels(NODES)["node-1"] == {}


async def test_labels_and_objects_share_what_is_made_of_a_forest():
    both: Any = {"switched_on": ("labels", "node-features"), "has_nfd": True}
    async with cluster_world(NAMES, VENDOR, **both) as world:
        await deliver()
        world.publish(MOVED)
        await deliver()
        assert [id(each) for each in world.labelled] == [id(VENDOR), id(MOVED)]
