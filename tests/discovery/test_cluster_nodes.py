"""Nodes that the cluster lists: known without a worker, joined with one, gone with both."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import declared, discovery, managed, nodes, report, ring, shape, together
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.model.forest import Status
from topo.model.ids import NodeName
from topo.model.observation import (
    CLUSTER_NODES,
    ClusterNodeGone,
    ClusterNodeSeen,
    ClusterNodesListed,
    ClusterNodesTold,
    ConfigLoaded,
    Event,
    ListedNode,
    ManagedMachine,
    ManagedTopology,
    ManagerReported,
    NodeRemoved,
    Ticked,
    WorkerBeat,
)

A, B = NodeName("a"), NodeName("b")


def listed(*names: str) -> ClusterNodesListed:
    """The cluster's whole list."""
    return ClusterNodesListed(tuple(ListedNode(NodeName(name)) for name in names))


def reasons(state: Discovery) -> dict[str, str]:
    """The code of each unplaced node's reason."""
    return {u.node.name: u.reason.code for u in state.snapshot.forest.unplaced}


@pytest.mark.parametrize("mode", [Mode.DRAGONFLY, Mode.SWITCHBOX, Mode.NVLINK, Mode.AUTO])
def test_a_node_without_a_worker_is_known_and_says_what_to_do(mode):
    """In no group, NotReady, without GPUs."""
    state = discovery(mode, gpus_per_node=8)
    (change,) = state.advance(0.0, listed("a"))
    assert (change.what, change.subject, change.after) == ("node-added", "a", "(unplaced)")
    assert reasons(state) == {"a": "no-worker"}
    node = nodes(state)["a"]
    assert (node.status, node.gpus) == (Status.NOT_READY, 0)
    assert "start the worker" in node.reasons[0].text
    assert state.known == (A,)
    detail = state.detail(A)
    assert detail is not None
    assert detail.facts is None


def test_it_joins_normally_once_its_worker_speaks():
    """Listed before or after makes no difference to the tree."""
    first, second = discovery(), discovery()
    first.advance(0.0, listed("a", "b"))
    first.advance(1.0, *ring(["a", "b"]))
    second.advance(0.0, *ring(["a", "b"]))
    second.advance(1.0, listed("a", "b"))
    assert together(first) == {frozenset("ab")}
    assert first.snapshot.forest == second.snapshot.forest


def test_parts_of_a_list_take_nobody_away_and_come_to_the_same_as_the_whole():
    """Until it is whole the source has not answered, and who is not in it is not missed."""
    whole, parts = discovery(), discovery()
    whole.advance(0.0, *ring(["a", "b"]))
    whole.advance(1.0, listed("a", "c"))
    parts.advance(0.0, *ring(["a", "b"]))
    for name in ("a", "c"):
        parts.advance(1.0, ClusterNodesTold((ListedNode(NodeName(name)),)))
        answered = {s.source: s.last_good_at_s is not None for s in parts.snapshot.sources}
        assert not answered.get(CLUSTER_NODES, False)
        assert nodes(parts)["b"].reasons == nodes(parts)["a"].reasons
    parts.advance(1.0, listed("a", "c"))
    assert parts.snapshot.forest == whole.snapshot.forest
    assert [each.code for each in nodes(parts)["b"].reasons] == ["not-in-cluster"]


def test_it_goes_with_the_cluster_when_no_worker_speaks_for_it():
    """By a shorter list as by a single word."""
    state = discovery()
    state.advance(0.0, listed("a", "b"), ClusterNodeSeen(ListedNode(NodeName("c"))))
    state.advance(1.0, ClusterNodeGone(NodeName("c")))
    assert set(state.known) == {A, B}
    (change,) = state.advance(2.0, listed("b"))
    assert (change.what, change.subject) == ("node-removed", "a")
    assert state.known == (B,)


def test_a_worker_that_speaks_keeps_its_node_and_its_silence_lets_it_go():
    """The cluster dropped it: silence is not waited out for a day."""
    state = discovery()
    state.advance(0.0, listed("a", "b"), *ring(["a", "b"]))
    state.advance(1.0, ClusterNodeGone(A))
    assert together(state) == {frozenset("ab")}
    state.advance(29.0, WorkerBeat(B))
    state.advance(31.0, Ticked())
    assert state.known == (B,)


def test_a_silent_worker_whose_node_the_cluster_drops_is_forgotten_at_once():
    """Nobody speaks for it."""
    state = discovery()
    state.advance(0.0, listed("a"), report("a"))
    state.advance(40.0, Ticked())
    state.advance(41.0, ClusterNodeGone(A))
    assert state.known == ()


def test_a_worker_silent_for_a_day_leaves_the_node_that_the_cluster_lists():
    """It waits for a worker again."""
    state = discovery(forget_s=100.0)
    state.advance(0.0, listed("a"), report("a"))
    state.advance(31.0, Ticked())
    state.advance(140.0, Ticked())
    assert reasons(state) == {"a": "no-worker"}


def test_a_node_that_is_removed_for_good_is_gone_whoever_named_it():
    """Its worker and its listing."""
    state = discovery()
    state.advance(0.0, listed("a", "b"), report("a"))
    state.advance(1.0, NodeRemoved(A), NodeRemoved(B))
    assert state.known == ()


def test_an_empty_list_changes_nothing_and_is_a_failing_source():
    """An empty source never empties the forest."""
    state = discovery()
    state.advance(0.0, listed("a"))
    state.advance(1.0, listed())
    assert state.known == (A,)
    (source,) = [s for s in state.snapshot.sources if s.source == CLUSTER_NODES]
    assert "lists no node any more" in source.trouble


def test_in_config_mode_the_file_decides_and_the_list_only_makes_known():
    """What the file places needs no worker."""
    state = discovery(Mode.CONFIG, gpus_per_node=8)
    state.advance(0.0, ConfigLoaded(declared({"box": {"fly": ["a"]}})), listed("a", "b"), Ticked())
    assert shape(state) == {"box/fly": ["a"], "": ["b"]}
    assert reasons(state) == {"b": "not-in-config"}
    assert (nodes(state)["a"].gpus, nodes(state)["a"].status) == (8, Status.READY)


SILENT = "its kubelet has not spoken for 40 s"


def seen(name: str, not_ready: str = "", **names: str) -> ClusterNodeSeen:
    """What the cluster says of one node."""
    return ClusterNodeSeen(ListedNode(NodeName(name), not_ready, tuple(names.items())))


def test_a_node_that_the_cluster_finds_not_ready_is_not_ready_at_once_and_comes_back_at_once():
    """The cluster has waited already, and binds no pod there meanwhile; its group says so, too."""
    state = discovery()
    state.advance(0.0, *ring(["a", "b"]), listed("a", "b"))
    assert nodes(state)["a"].status is Status.READY
    changes = state.advance(1.0, seen("a", SILENT))
    assert {(c.what, c.subject.rpartition("/")[2], c.after) for c in changes} >= {
        ("node-status", "a", "NotReady")
    }
    assert [(r.code, r.text) for r in nodes(state)["a"].reasons] == [("node-not-ready", SILENT)]
    (group,) = state.snapshot.forest.roots
    assert group.status is Status.NOT_READY
    state.advance(2.0, seen("a"))
    assert nodes(state)["a"].status is Status.READY
    assert state.snapshot.forest.roots[0].status is Status.READY


def test_a_node_that_the_cluster_does_not_list_is_not_ready_once_it_has_listed_its_nodes():
    """No job can start there, whoever else names it; before the list nothing follows from it."""
    state = discovery()
    state.advance(0.0, *ring(["a", "b"]), seen("a"))
    assert nodes(state)["b"].status is Status.READY
    state.advance(1.0, listed("a"))
    assert [r.code for r in nodes(state)["b"].reasons] == ["not-in-cluster"]
    assert together(state) == {frozenset("ab")}, "where it is does not change"
    again = discovery()
    again.restore(state.persistent_state(), 5.0, 0.0)
    assert nodes(again)["b"].reasons == nodes(state)["b"].reasons
    state.advance(2.0, seen("b"))
    assert nodes(state)["b"].status is Status.READY


def test_what_the_cluster_says_is_one_of_several_reasons_and_goes_with_its_list():
    """A worker's own troubles stay beside it; a node that is not listed any more has none of it."""
    state = discovery()
    state.advance(0.0, listed("a"), report("a", sick=[0]), seen("a", SILENT), seen("x", SILENT))
    assert [r.code for r in nodes(state)["a"].reasons] == ["node-not-ready", "gpu-unhealthy"]
    assert [r.code for r in nodes(state)["x"].reasons] == ["node-not-ready", "no-worker"]
    state.advance(1.0, ClusterNodeGone(A))
    assert [r.code for r in nodes(state)["a"].reasons] == ["not-in-cluster", "gpu-unhealthy"]


def test_a_declared_node_without_a_worker_is_ready_only_while_the_cluster_agrees():
    """The file says where it is, not how it fares."""
    state = discovery(Mode.CONFIG)
    state.advance(0.0, ConfigLoaded(declared({"box": {"fly": ["a", "b"]}})), seen("a", SILENT))
    assert [nodes(state)[name].status for name in "ab"] == [Status.NOT_READY, Status.READY]
    state.advance(1.0, listed("a"))
    assert [nodes(state)[name].status for name in "ab"] == [Status.READY, Status.NOT_READY]


def test_a_machine_is_joined_by_a_name_that_only_the_cluster_knows():
    """The manager says an address; the worker did not, and the cluster does."""
    state = discovery(Mode.SWITCHBOX)
    topology = managed({"box": ["a"]})
    machine = ManagedMachine("m", (("internal_ip", "10.0.0.7"),), "id-box")
    state.advance(0.0, ManagerReported(ManagedTopology(topology.groups, (machine,))))
    state.advance(1.0, seen("a", internal_ip="10.0.0.7"))
    assert [u.id for u in state.snapshot.forest.unjoined] == ["m"], "its worker is silent"
    state.advance(2.0, report("a"))
    assert shape(state) == {"box": ["a"]}
    state.advance(3.0, seen("a", internal_ip="10.0.0.8"))
    assert "box" not in shape(state)
    state.validate()


def test_a_restart_keeps_what_the_cluster_said():
    """A node is not Ready for a moment only because the cluster was not asked yet."""
    state, again = discovery(), discovery()
    state.advance(0.0, *ring(["a", "b"]), seen("a", SILENT, internal_ip="10.0.0.7"))
    again.restore(state.persistent_state(), 5.0, 0.0)
    assert nodes(again)["a"].reasons == nodes(state)["a"].reasons
    assert again.persistent_state().cluster_nodes == state.persistent_state().cluster_nodes


@given(st.permutations(range(4)), st.sets(st.sampled_from("abcd")))
def test_any_order_of_lists_and_reports_gives_the_same_forest(order, named):
    """What the cluster lists only adds those without a worker."""
    events: list[Event] = [*ring(["a", "b"]), report("c"), listed("a", *named)]
    state, plain = discovery(), discovery()
    for index in order:
        state.advance(0.0, events[index])
    plain.advance(0.0, *events)
    assert state.snapshot.forest == plain.snapshot.forest
    assert set(state.known) == {"a", "b", "c", *named}
