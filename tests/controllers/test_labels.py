"""Node labels on a model of the API server: they follow the forest, and nothing else is touched."""

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from tests.controllers.world import ClusterWorld, cluster_world, deliver
from tests.publish.forests import LEAVES, VENDOR, box, forest, hanging
from topo.model.forest import Forest, Reason, Status, Unplaced
from topo.model.forest import Node as ForestNode
from topo.model.ids import NodeName

pytestmark = pytest.mark.virtual_time

FLY, BOX = "metax-tech.com/dragonfly", "metax-tech.com/switchbox"
OUT = "metax-tech.com/scale-out-leaf"
NAMES = [f"node-{index}" for index in range(1, 9)]
MOVED = forest(
    box("switchbox-1", {"dragonfly-1": ["node-2"], "dragonfly-2": ["node-1", "node-3", "node-4"]}),
    *VENDOR.roots[1:],
)
CUT = forest(
    box("switchbox-1", {"dragonfly-2": ["node-3", "node-4"]}, ["node-1", "node-2"]),
    *VENDOR.roots[1:],
)


def silent(*names: str) -> Forest:
    """A forest in which nobody says anything of these nodes but the cluster, which lists them."""
    why = Reason("no-worker", "no worker has reported from it")
    nodes = (ForestNode(NodeName(name), Status.NOT_READY, (why,)) for name in names)
    return Forest(unplaced=tuple(Unplaced(node, why) for node in nodes))


def labelled(world: ClusterWorld, name: str) -> dict[str, str]:
    return world.api.labels()[name]


async def test_every_node_gets_its_labels_in_one_write_each():
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        assert labelled(world, "node-3") == {FLY: "dragonfly-2", BOX: "switchbox-1"}
        assert len(world.label_writes()) == 8
        await deliver()
        assert len(world.api.calls) == len(world.label_writes() + world.hypernode_writes())


async def test_a_node_that_moves_costs_one_write_and_no_other_node_one():
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        before = len(world.label_writes())
        world.publish(MOVED)
        await deliver()
        assert world.label_writes()[before:] == [("PATCH", "node-1")]
        assert labelled(world, "node-1") == {FLY: "dragonfly-2", BOX: "switchbox-1"}


async def test_a_cut_cable_takes_the_labels_of_both_nodes_and_a_healed_one_brings_them_back():
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        world.publish(CUT)
        await deliver()
        assert labelled(world, "node-1") == labelled(world, "node-2") == {BOX: "switchbox-1"}
        world.publish(VENDOR)
        await deliver()
        assert labelled(world, "node-1") == {FLY: "dragonfly-1", BOX: "switchbox-1"}


async def test_a_change_is_written_within_two_seconds():
    async with cluster_world(NAMES, VENDOR, delay_s=0.1) as world:
        await deliver()
        world.publish(CUT)
        await deliver(2.0)
        assert labelled(world, "node-1") == {BOX: "switchbox-1"}


async def test_a_label_that_somebody_edits_or_takes_off_is_repaired():
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        for value in ("wrong", None):
            world.edit_label("node-1", FLY, value)
            await deliver(2.0)
            assert labelled(world, "node-1")[FLY] == "dragonfly-1"


async def test_a_master_that_starts_anew_writes_nothing_where_nothing_changed():
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        before = len(world.api.calls)
        async with world.restarted(VENDOR):
            await deliver()
            assert len(world.api.calls) == before


async def test_a_master_that_starts_anew_takes_labels_off_that_an_earlier_one_wrote():
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        async with world.restarted(CUT):
            await deliver()
            assert labelled(world, "node-1") == {BOX: "switchbox-1"}
            assert labelled(world, "node-3") == {FLY: "dragonfly-2", BOX: "switchbox-1"}


async def test_nothing_is_written_before_the_forest_has_settled():
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        before = len(world.api.calls)
        async with world.restarted(forest(), is_settled=False) as restarted:
            await deliver(60)
            assert len(world.api.calls) == before
            restarted.settle(VENDOR)
            await deliver()
            assert len(world.api.calls) == before


async def test_nodes_whose_workers_do_not_run_keep_what_an_earlier_master_saw_for_a_while():
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        before = world.api.labels()
        async with world.restarted(silent(*NAMES), forget_s=600.0) as restarted:
            await deliver(590)
            assert world.api.labels() == before
            assert len(world.hypernodes()) == 6
            await deliver(20)
            restarted.publish(silent(*NAMES))
            await deliver()
            assert world.api.labels() == {name: {} for name in NAMES}
            assert world.hypernodes() == {}


async def test_a_node_that_says_it_has_no_peer_loses_its_label_after_a_restart():
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        async with world.restarted(forest(*VENDOR.roots[1:], unplaced=NAMES[:4])):
            await deliver()
            assert [labelled(world, name) for name in NAMES[:4]] == [{}] * 4
            assert len(world.hypernodes()) == 3


async def test_a_node_that_is_deleted_is_not_made_again():
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        world.remove_node("node-1")
        world.publish(CUT)
        await deliver()
        assert "node-1" not in world.api.labels()


async def test_a_node_that_comes_later_gets_its_labels():
    async with cluster_world(NAMES[:4], VENDOR) as world:
        await deliver()
        world.add_node("node-5")
        await deliver(2.0)
        assert labelled(world, "node-5") == {FLY: "dragonfly-3", BOX: "switchbox-2"}


async def test_labels_of_others_stay_and_one_of_our_keys_that_is_not_ours_is_told_once():
    async with cluster_world([], forest(unplaced=["node-1"])) as world:
        with capture_logs() as logs:
            world.add_node("node-1", labels={"theirs": "stays", FLY: "by-hand"})
            await deliver(100)
            calls = len(world.api.calls)
            assert labelled(world, "node-1") == {"theirs": "stays", FLY: "by-hand"}
            await deliver(400)
            assert len(world.api.calls) == calls
        (told,) = [log for log in logs if log.get("node") == "node-1"]
        assert told["labels"] == {FLY: "by-hand"}


async def test_who_renames_the_labels_gets_new_ones_and_the_old_ones_go():
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        async with world.restarted(VENDOR, domain="example.com"):
            await deliver()
            assert labelled(world, "node-1") == {
                "example.com/dragonfly": "dragonfly-1",
                "example.com/switchbox": "switchbox-1",
            }


async def test_a_hundred_changes_in_two_seconds_cost_a_node_four_writes_at_most():
    async with cluster_world(NAMES, VENDOR, delay_s=1.0) as world:
        await deliver()
        before = len(world.label_writes())
        for turn in range(100):
            world.publish(MOVED if turn % 2 else CUT)
            await deliver(0.02)
        await deliver()
        assert labelled(world, "node-1")[FLY] == "dragonfly-2"
        writes = [name for _, name in world.label_writes()[before:]]
        assert max(map(writes.count, writes)) <= 4


async def test_a_leaf_beside_the_tree_is_a_label_of_its_own_and_a_move_there_one_write():
    async with cluster_world(NAMES, hanging(VENDOR, LEAVES), forget_s=0.0) as world:
        await deliver()
        of_tree = {FLY: "dragonfly-2", BOX: "switchbox-1"}
        assert labelled(world, "node-3") == {**of_tree, OUT: "leaf-1"}
        assert len(world.label_writes()) == 8
        world.publish(hanging(VENDOR, {**LEAVES, "node-3": "leaf-2"}))
        await deliver()
        assert labelled(world, "node-3") == {**of_tree, OUT: "leaf-2"}
        world.publish(hanging(VENDOR, {k: v for k, v in LEAVES.items() if k != "node-3"}))
        await deliver()
        assert labelled(world, "node-3") == of_tree
        assert world.label_writes()[8:] == [("PATCH", "node-3")] * 2


async def test_a_node_that_has_not_spoken_keeps_labels_of_both_fabrics_for_a_while():
    """Whichever fabric its worker speaks of: the other one may know it already."""
    async with cluster_world(NAMES, hanging(VENDOR, LEAVES)) as world:
        await deliver()
        before = world.api.labels()
        for known in (VENDOR, silent(*NAMES)):
            async with world.restarted(known, forget_s=600.0) as restarted:
                await deliver(590)
                assert world.api.labels() == before
                await deliver(20)
                restarted.publish(replace(known))
                await deliver()
                gone = {name: world.api.labels()[name].get(OUT) for name in NAMES}
                assert gone == dict.fromkeys(NAMES)
            async with world.restarted(hanging(VENDOR, LEAVES)):
                await deliver()
