"""What readers are told between two generations."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import declared, discovery, report
from topo.discovery.modes import Mode
from topo.discovery.tree.changes import compare, net
from topo.model.conditions.tree import NodeCondition
from topo.model.forest import Change, Conflict, Forest, Node, PathGroup, Reason, Status, Unplaced
from topo.model.ids import SCALE_OUT, Generation, GroupName, Kind, NodeName
from topo.model.observation import FABRIC, ConfigLoaded

worlds = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["f1", "f2", "f3"]), max_size=6)


def forest(world: dict[str, str]) -> Forest:
    """One switchbox with the nodes in their dragonflies."""
    flies: dict[str, list[str]] = {}
    for node, fly in world.items():
        flies.setdefault(fly, []).append(node)
    state = discovery(Mode.CONFIG)
    state.advance(0.0, ConfigLoaded(declared({"box": flies} if flies else {})))
    return state.snapshot.forest


def places(world: dict[str, str]) -> dict[str, str]:
    """Node → path, as the changes should tell."""
    return {node: f"box/{fly}" for node, fly in world.items()}


@given(st.lists(worlds, min_size=2, max_size=5))
def test_replaying_the_changes_leads_from_the_first_place_to_the_last(history):
    """Step by step and as the net of all steps."""
    stepped, folded = places(history[0]), places(history[0])
    steps: list[Change] = []
    for at, (before, after) in enumerate(pairwise(history), start=1):
        steps += compare(forest(before), forest(after), Generation(at))
    for changes, view in ((steps, stepped), (net(steps), folded)):
        for change in changes:
            if change.what == "node-removed":
                del view[change.subject]
            elif change.what in ("node-added", "node-moved"):
                view[change.subject] = change.after
        assert view == places(history[-1])


@given(worlds, worlds)
def test_there_and_back_is_nothing(before, after):
    """The net of a change and its reverse is empty."""
    there = compare(forest(before), forest(after), Generation(1))
    back = compare(forest(after), forest(before), Generation(2))
    assert net([*there, *back]) == ()


@given(worlds)
def test_equal_forests_have_no_changes(world):
    """Built twice, equal, nothing to tell."""
    assert compare(forest(world), forest(world), Generation(1)) == ()


def test_conflicts_come_and_go_by_name():
    """Added, then removed: told both times, net nothing."""
    conflict = Conflict("oversize-group", ("a", "b"), "too many", "look")
    empty, full = Forest(), Forest(conflicts=(conflict,))
    (added,) = compare(empty, full, Generation(1))
    (removed,) = compare(full, empty, Generation(2))
    assert (added.what, added.after, added.subject) == (
        "conflict-added",
        "oversize-group",
        "a, b",
    )
    assert removed.what == "conflict-removed"
    assert net([added, removed]) == net([removed, added]) == ()


def test_a_group_that_returns_with_another_status_is_one_change_of_status():
    """Removed as Ready, added as NotReady."""
    gone = Change(Generation(1), "group-removed", "box", "Ready")
    back = Change(Generation(2), "group-added", "box", "", "NotReady", "1 of 2 nodes")
    (left,) = net([gone, back])
    assert (left.what, left.before, left.after) == ("group-status", "Ready", "NotReady")


def test_leaving_every_group_is_a_move_to_nowhere_in_particular():
    """A node that loses its place is not gone."""
    state = discovery(Mode.CONFIG)
    state.advance(0.0, ConfigLoaded(declared({"box": {"fly": ["a", "b"]}})), report("b"))
    changes = state.advance(1.0, ConfigLoaded(declared({"box": {"fly": ["a"]}})))
    assert [(c.what, c.before, c.after) for c in changes] == [
        ("node-moved", "box/fly", "(unplaced)")
    ]


leaves = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["l1", "l2", ""]), max_size=6)


def hung(world: dict[str, str]) -> Forest:
    """Nodes outside of the tree, each on its leaf of another fabric, or on none."""
    paths = {
        leaf: (PathGroup(Kind("leaf"), leaf, GroupName(leaf), FABRIC),) for leaf in world.values()
    }
    nodes = (
        Node(
            NodeName(name),
            Status.READY,
            elsewhere=((SCALE_OUT, paths[leaf]),) if leaf else (),
        )
        for name, leaf in sorted(world.items())
    )
    return Forest(unplaced=tuple(Unplaced(node, Reason("no-peer", "alone")) for node in nodes))


@given(st.lists(leaves, min_size=2, max_size=5))
def test_moves_and_groups_of_another_fabric_are_told_with_its_name_and_move_nothing_in_the_tree(
    history,
):
    """Step by step and as the net of all steps, also where nodes come and go."""
    steps: list[Change] = []
    for at, (before, after) in enumerate(pairwise(history), start=1):
        steps += compare(hung(before), hung(after), Generation(at))
    start, end = ({n: leaf for n, leaf in w.items() if leaf} for w in (history[0], history[-1]))
    for changes in (steps, net(steps)):
        view, groups = dict(start), set(start.values())
        for change in changes:
            assert (change.fabric == SCALE_OUT) == change.what.startswith("fabric-")
            assert change.what not in ("node-moved", "group-added", "group-removed")
            if change.what == "fabric-moved":
                assert view.pop(change.subject, "(unplaced)") == change.before
                if change.after != "(unplaced)":
                    view[change.subject] = change.after
            elif change.what == "fabric-group-added":
                assert change.subject not in groups
                assert (change.before, change.after) == ("", "leaf")
                groups.add(change.subject)
            elif change.what == "fabric-group-removed":
                assert (change.before, change.after) == ("leaf", "")
                groups.remove(change.subject)
        assert (view, groups) == (end, set(end.values()))
    whole = compare(hung(history[0]), hung(history[-1]), Generation(len(history)))
    told = [
        {(c.what, c.subject, c.before, c.after) for c in each if c.fabric}
        for each in (net(steps), whole)
    ]
    assert told[0] == told[1]


def test_a_leaf_that_is_renamed_comes_and_goes_and_its_nodes_move():
    (added, removed, *moves) = compare(
        hung({"a": "l1", "b": "l1", "c": "l2"}),
        hung({"a": "l3", "b": "l3", "c": "l2"}),
        Generation(1),
    )
    assert (added.what, added.subject) == ("fabric-group-added", "l3")
    assert (removed.what, removed.subject) == ("fabric-group-removed", "l1")
    assert [(c.what, c.subject, c.after) for c in moves] == [
        ("fabric-moved", "a", "l3"),
        ("fabric-moved", "b", "l3"),
    ]


def test_a_node_that_lost_its_leaf_is_told_why():
    gone, lost = compare(hung({"a": "l1"}), hung({"a": ""}), Generation(1))
    assert (gone.what, gone.subject, gone.before) == ("fabric-group-removed", "l1", "leaf")
    assert (lost.what, lost.before, lost.after) == ("fabric-moved", "l1", "(unplaced)")
    assert lost.why == NodeCondition.NOT_IN_FABRIC.cause
