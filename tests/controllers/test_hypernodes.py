"""HyperNodes on a model of the API server: Volcano's tree follows the forest and never breaks."""

from collections.abc import Callable
from typing import Any, TypeVar
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from master.kube.objects import collection_path
from master.kube.schedulers.hypernodes import HYPERNODES
from tests.controllers.world import ClusterWorld, cluster_world, deliver
from tests.publish.forests import VENDOR, box, fly, forest, forests
from tests.support.virtual_time import in_virtual_time
from topo.model.forest import Forest
from topo.publish.hypernodes import HyperNode, faults, hypernodes, spec

NAMES = [f"node-{index}" for index in range(1, 9)]
MOVED = forest(
    box("switchbox-1", {"dragonfly-1": ["node-2"], "dragonfly-2": ["node-1", "node-3", "node-4"]}),
    *VENDOR.roots[1:],
)
T = TypeVar("T")
virtual = pytest.mark.virtual_time


class Watcher:
    """A second client: it looks at the tree after each change, as Volcano does."""

    def __init__(self, world: ClusterWorld) -> None:
        self.seen: list[str] = []
        self._world = world
        world.api.watches.append(self._look)

    def _look(self, at: str, _name: str, _document: object) -> None:
        if at == collection_path(HYPERNODES):
            self.seen += faults(read(self._world))


def read(world: ClusterWorld) -> dict[str, HyperNode]:
    """The HyperNodes as Volcano would read them."""
    found = {}
    for name, of in world.hypernodes().items():
        members = [(each["type"], each["selector"]["exactMatch"]["name"]) for each in of["members"]]
        found[name] = HyperNode(
            name=name,
            tier=of["tier"],
            tier_name=of["tierName"],
            nodes=frozenset(member for kind, member in members if kind == "Node"),
            groups=frozenset(member for kind, member in members if kind == "HyperNode"),
        )
    return found


def foreign(name: str, *nodes: str, tier: int = 1, groups: tuple[str, ...] = ()) -> dict[str, Any]:
    """What `add` takes to put a HyperNode of somebody else there."""
    of = HyperNode(
        name=name, tier=tier, tier_name="", nodes=frozenset(nodes), groups=frozenset(groups)
    )
    return {"spec": dict(spec(of))}


@virtual
async def test_the_vendors_forest_is_written_leaves_first_each_once():
    async with cluster_world(NAMES, VENDOR) as world:
        watcher = Watcher(world)
        await deliver()
        assert read(world) == hypernodes(VENDOR)
        assert watcher.seen == []
        methods, names = zip(*world.hypernode_writes(), strict=True)
        assert set(methods) == {"POST"}
        assert [name.partition("-")[0] for name in names] == ["dragonfly"] * 4 + ["switchbox"] * 2


@virtual
async def test_they_carry_our_source_so_that_volcanos_own_controller_leaves_them_alone():
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        assert world.api.labels(HYPERNODES)["dragonfly-1"] == {
            "metax-tech.com/managed-by": "topo-master",
            "volcano.sh/network-topology-source": "topo-master",
        }


@virtual
async def test_a_node_that_moves_is_let_go_before_it_is_taken_in_within_two_seconds():
    async with cluster_world(NAMES, VENDOR, delay_s=0.1) as world:
        await deliver()
        watcher, before = Watcher(world), len(world.hypernode_writes())
        world.publish(MOVED)
        await deliver(2.0)
        assert read(world) == hypernodes(MOVED)
        assert watcher.seen == []
        assert world.hypernode_writes()[before:] == [
            ("PATCH", "dragonfly-1"),
            ("PATCH", "dragonfly-2"),
        ]


@virtual
async def test_a_group_without_nodes_goes_after_its_parent_has_let_go_of_it():
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        watcher, before = Watcher(world), len(world.hypernode_writes())
        smaller = box("switchbox-1", {"dragonfly-1": NAMES[:2]})
        world.publish(forest(smaller, VENDOR.roots[1], unplaced=NAMES[2:4]))
        await deliver()
        assert watcher.seen == []
        assert world.hypernode_writes()[before:] == [
            ("PATCH", "switchbox-1"),
            ("DELETE", "dragonfly-2"),
        ]


@virtual
async def test_a_master_that_starts_anew_writes_nothing_where_nothing_changed():
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        before = len(world.api.calls)
        async with world.restarted(VENDOR):
            await deliver()
            assert len(world.api.calls) == before


@virtual
async def test_a_master_that_starts_in_the_middle_of_a_move_finishes_it():
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        watcher = Watcher(world)
        world.publish(MOVED)
        await deliver(0.07)
        assert read(world) not in (hypernodes(VENDOR), hypernodes(MOVED))
        async with world.restarted(MOVED):
            await deliver()
            assert read(world) == hypernodes(MOVED)
            assert watcher.seen == []


@virtual
@pytest.mark.parametrize("path", [("spec",), ("metadata", "labels", "metax-tech.com/managed-by")])
async def test_what_somebody_edits_is_repaired(path: tuple[str, ...]):
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        labels = world.api.labels(HYPERNODES)
        edited = foreign("dragonfly-1", "node-1", "node-3", tier=4)["spec"]
        world.api.edit(HYPERNODES, "dragonfly-1", path, edited if path == ("spec",) else None)
        await deliver()
        assert read(world) == hypernodes(VENDOR)
        assert world.api.labels(HYPERNODES) == labels


@virtual
async def test_members_that_somebody_matches_by_pattern_are_repaired():
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        pattern = {"type": "Node", "selector": {"regexMatch": {"pattern": ".*"}}}
        edited = {"tier": 1, "tierName": "dragonfly", "members": [pattern]}
        world.api.edit(HYPERNODES, "dragonfly-1", ("spec",), edited)
        await deliver()
        assert read(world) == hypernodes(VENDOR)


@virtual
async def test_what_somebody_deletes_comes_back():
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        world.api.remove(HYPERNODES, "dragonfly-1")
        await deliver()
        assert read(world) == hypernodes(VENDOR)


@virtual
async def test_one_that_waits_for_a_finalizer_of_somebody_else_holds_no_other_up():
    """It is deleted and still there, maybe for ever: Volcano sees it, and what it holds."""
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        watcher, before = Watcher(world), len(world.hypernode_writes())
        world.api.hold(HYPERNODES, "dragonfly-2", "example.com/somebody")
        one = box("switchbox-1", {"dragonfly-1": NAMES[:2]})
        world.publish(forest(one, VENDOR.roots[1], unplaced=NAMES[2:4]))
        await deliver(2.0)
        gone = [("PATCH", "switchbox-1"), ("DELETE", "dragonfly-2")]
        assert world.hypernode_writes()[before:] == gone
        other = box("switchbox-2", {"dragonfly-3": NAMES[4:6]})
        world.publish(forest(one, other, unplaced=[*NAMES[2:4], *NAMES[6:]]))
        await deliver(2.0)
        assert read(world)["switchbox-2"].groups == {"dragonfly-3"}
        moved = {"dragonfly-1": [*NAMES[:2], "node-3"], "dragonfly-2": ["node-4"]}
        world.publish(forest(box("switchbox-1", moved), VENDOR.roots[1]))
        await deliver(2.0)
        assert read(world)["switchbox-2"].groups == {"dragonfly-3", "dragonfly-4"}
        assert read(world)["switchbox-1"].groups == {"dragonfly-1"}, "the other may end"
        assert read(world)["dragonfly-1"].nodes == {"node-1", "node-2"}, "the third is held"
        world.publish(VENDOR)
        world.api.hold(HYPERNODES, "dragonfly-2", "")
        await deliver(2.0)
        assert read(world) == hypernodes(VENDOR)
        assert watcher.seen == []


@virtual
async def test_a_hypernode_of_somebody_else_with_the_name_of_a_group_is_not_touched_and_told():
    async with cluster_world(NAMES, forest()) as world:
        theirs = world.api.add(HYPERNODES, "dragonfly-1", **foreign("dragonfly-1", "other", tier=9))
        before = dict(theirs.document)
        with capture_logs() as logs:
            world.publish(VENDOR)
            await deliver()
        assert theirs.document == before
        assert read(world)["switchbox-1"].groups == {"dragonfly-2"}
        (warning,) = world.controllers.warnings
        assert warning.code == "hypernode-conflict"
        assert "there is a HyperNode dragonfly-1" in warning.text
        assert len([log for log in logs if "somebody else" in log["event"]]) == 1
        world.api.remove(HYPERNODES, "dragonfly-1")
        await deliver()
        assert read(world) == hypernodes(VENDOR)
        assert world.controllers.warnings == ()


@virtual
async def test_a_node_that_somebody_else_has_at_its_tier_is_in_no_second_hypernode():
    async with cluster_world(NAMES, forest()) as world:
        world.api.add(HYPERNODES, "theirs", **foreign("theirs", "node-1"))
        world.publish(VENDOR)
        await deliver()
        assert read(world)["dragonfly-1"].nodes == {"node-2"}
        (warning,) = world.controllers.warnings
        assert "Node node-1 is a member of HyperNode theirs" in warning.text
        assert list(faults(read(world))) == []


@virtual
async def test_a_group_that_somebody_else_put_under_a_parent_has_no_second_one():
    """Two parents would stop all topology jobs of the cluster."""
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        theirs = foreign("theirs", tier=5, groups=("switchbox-1", "dragonfly-3"))
        world.api.add(HYPERNODES, "theirs", **theirs)
        await deliver()
        assert read(world)["switchbox-2"].groups == {"dragonfly-4"}
        assert list(faults(read(world))) == []


@virtual
async def test_a_thousand_conflicts_are_told_in_twenty_sentences():
    async with cluster_world(NAMES, forest()) as world:
        nodes = [f"gpu-{index}" for index in range(1000)]
        world.api.add(HYPERNODES, "theirs", **foreign("theirs", *nodes))
        world.publish(forest(fly("fly", nodes)))
        await deliver()
        assert len(world.controllers.warnings) == 20


@virtual
async def test_without_volcano_it_waits_and_begins_when_volcano_comes():
    async with cluster_world(NAMES, VENDOR, has_volcano=False) as world:
        await deliver()
        assert world.hypernode_writes() == []
        assert len(world.label_writes()) == 8
        assert world.hypernode_store is not None
        world.hypernode_store.list_anew()
        await deliver()
        assert read(world) == hypernodes(VENDOR)


OWN = {"fly-1": ["b"], "fly-2": ["c"], "fly-3": ["d"]}
WAITS_S = st.sampled_from([0.04, 0.06, 0.08, 0.1, 0.12, 0.2])


@given(
    forests(nodes=4),
    st.lists(st.tuples(WAITS_S, forests(nodes=4)), min_size=3, max_size=5),
    st.sampled_from([0.0, 0.08, 0.15]),
)
def test_whatever_changes_while_it_is_written_nobody_sees_a_broken_tree(
    first: Forest, changes: list[tuple[float, Forest]], think_s: float
):
    """The forest changes while a step is under way, the watch is late, and planning takes long."""
    in_virtual_time(played(first, changes, think_s))


@pytest.mark.parametrize("wait_ms", range(20, 1220, 80))
def test_a_node_that_moves_on_while_it_moves_is_never_in_two_places(wait_ms: int):
    """Wherever the second move falls into the first one; a call may end while it is planned."""
    places = [
        forest(*(fly(name, [*own, *(["a"] if name == at else [])]) for name, own in OWN.items()))
        for at in OWN
    ]
    changes = [(1.0, places[1]), (wait_ms / 1000, places[2])]
    in_virtual_time(played(places[0], changes, think_s=0.1, call_s=0.33))


async def played(
    first: Forest, changes: list[tuple[float, Forest]], think_s: float, call_s: float = 0.05
) -> None:
    """Publishes one forest after the other, each after its wait, and looks at all that is seen."""

    async def slowly(plan: Callable[[], T]) -> T:
        planned = plan()
        await deliver(think_s)
        return planned

    with patch("master.controllers.hypernodes.off_loop", slowly):
        async with cluster_world([], first, delay_s=call_s) as world:
            watcher = Watcher(world)
            for wait_s, each in changes:
                await deliver(wait_s)
                world.publish(each)
            await deliver(10)
            assert read(world) == hypernodes(changes[-1][1])
            assert watcher.seen == []
