"""Groups that labels of nodes name: what makes one, what does not, and what vanishes."""

import pytest

from tests.builders import (
    declared,
    discovery,
    fabric_facts,
    groups,
    managed,
    nodes,
    report,
    ring,
    shape,
)
from tests.discovery.hosts import restarted
from tests.discovery.labels import RACKS, labelled, listed, seen
from topo.discovery.label_families import AUTO, FAMILIES, LabelSource
from topo.discovery.modes import Mode
from topo.model.forest import Status
from topo.model.ids import NodeName
from topo.model.observation import (
    ClusterNodeGone,
    ConfigLoaded,
    ManagerReported,
    Ticked,
    WorkerReported,
)

PAIRS = {"a": "row-1/rack-1", "b": "row-1/rack-1", "c": "row-1/rack-2", "d": "row-1/rack-2"}
"""The vendor's shape: two groups of two nodes, one group above."""
KEPT_S = 600.0


def codes(state):
    """The codes of all conflicts."""
    return [conflict.code for conflict in state.snapshot.forest.conflicts]


def why(state):
    """By unplaced node the code of the reason."""
    return {each.node.name: each.reason.code for each in state.snapshot.forest.unplaced}


def test_labels_alone_make_the_tree_and_ready_nodes_with_the_clusters_gpus():
    """No worker is there: groups, kinds and tiers follow the keys, status and GPUs the cluster."""
    state = labelled(PAIRS)
    assert shape(state) == {
        "room-1/row-1/rack-1": ["a", "b"],
        "room-1/row-1/rack-2": ["c", "d"],
    }
    kinds = {path: (group.kind, group.tier, group.source) for path, group in groups(state).items()}
    assert kinds["room-1"] == ("room", 3, "cluster-nodes")
    assert kinds["room-1/row-1/rack-1"] == ("rack", 1, "cluster-nodes")
    assert {(node.status, node.gpus) for node in nodes(state).values()} == {(Status.READY, 8)}


def test_equal_names_under_two_parents_are_two_groups():
    """rack-1 of row-1 and rack-1 of row-2 have no node in common."""
    state = labelled({"a": "row-1/rack-1", "b": "row-2/rack-1"})
    assert shape(state) == {"room-1/row-1/rack-1": ["a"], "room-1/row-2/rack-1": ["b"]}


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("-", "no-group-label"),
        ({"example.com/rack": "rack-1"}, "group-label-missing"),
        ("/rack-1", "group-label-missing"),
        ({"example.com/room": "none"}, "no-group-label"),
    ],
)
def test_a_node_whose_labels_place_it_nowhere_is_unplaced_with_the_reason(place, code):
    """No label, an inner label without the outer ones, an emptied one, one that says `none`."""
    state = labelled(PAIRS | {"e": place})
    assert why(state) == {"e": code}
    assert nodes(state)["e"].status is Status.READY


def test_a_shorter_chain_of_labels_stands_in_the_outer_group_itself():
    """A node without a rack is a node of its row."""
    state = labelled(PAIRS | {"e": "row-1"})
    assert shape(state)["room-1/row-1"] == ["e"]


@pytest.mark.parametrize(
    "value", ["", "no-topology", "None", "00000000-0000-0000-0000-000000000000", "unknown"]
)
def test_nodes_that_share_a_word_for_unknown_share_nothing(value):
    """Writers fill in such words for nodes that they do not know."""
    labels = {"fabric.topograph.run/tier-0": value}
    assert why(labelled({"a": labels, "b": labels}, labels=AUTO)) == dict.fromkeys(
        "ab", "no-group-label"
    )


def test_a_vanished_label_keeps_its_place_for_ten_minutes_and_is_listed():
    """Writers take labels off and put them on again; then they are gone."""
    state = labelled(PAIRS)
    state.advance(1.0, seen("a", "-"), seen("b", "row-1/"))
    assert shape(state)["room-1/row-1/rack-1"] == ["a", "b"]
    (conflict,) = state.snapshot.forest.conflicts
    assert (conflict.code, conflict.subjects) == ("group-labels-vanished", ("a", "b"))
    state.advance(KEPT_S, seen("b", PAIRS["b"]))
    state.advance(KEPT_S + 1.5, Ticked())
    state.validate()
    assert why(state) == {"a": "no-group-label"}
    assert codes(state) == []


def test_a_new_value_of_any_label_counts_at_once():
    """A node that moves to another row does not take its old rack with it."""
    state = labelled(PAIRS)
    changes = state.advance(1.0, seen("a", "row-2"))
    assert shape(state)["room-1/row-2"] == ["a"]
    (moved,) = [change for change in changes if change.what == "node-moved"]
    assert (moved.before, moved.after) == ("room-1/row-1/rack-1", "room-1/row-2")


def test_a_deleted_node_leaves_its_group_at_once():
    """What the cluster no longer lists is no vanished label."""
    state = labelled(PAIRS)
    state.advance(1.0, ClusterNodeGone(NodeName("a")))
    state.validate()
    assert "a" not in nodes(state)
    assert codes(state) == []


def test_a_restart_keeps_the_place_of_vanished_labels_and_the_followed_family():
    """The next master knows what this one knew."""
    both = {"fabric.topograph.run/tier-0": "s1", "nvidia.com/gpu.clique": "u.1"}
    one = {"nvidia.com/gpu.clique": "u.1"}
    state = labelled({"a": both, "b": both, "c": both, "d": one}, labels=AUTO)
    assert shape(state) == {"u/u.1": ["a", "b", "c", "d"]}
    state.advance(1.0, seen("d", {}), *(seen(name, both) for name in "abc"))
    again = restarted(state, 2.0, mode=Mode.LABELS, labels=AUTO)
    again.advance(2.0, listed({"a": both, "b": both, "c": both, "d": {}}))
    again.validate()
    assert shape(again) == shape(state) == {"u/u.1": ["a", "b", "c", "d"]}
    assert codes(again) == ["group-labels-vanished"]


def test_the_family_of_most_nodes_is_followed_and_the_others_are_told():
    """Three nodes have a clique, two of them a rack of another writer."""
    clique, leaf = {"nvidia.com/gpu.clique": "u.1"}, {"fabric.topograph.run/tier-0": "s1"}
    state = labelled({"a": clique, "b": clique | leaf, "c": clique | leaf}, labels=AUTO)
    assert shape(state) == {"u/u.1": ["a", "b", "c"]}
    (source,) = [each for each in state.snapshot.sources if each.source == "cluster-nodes"]
    assert [reason.code for reason in source.warnings] == ["several-label-families"]
    assert source.warnings[0].text == (
        "groups follow the labels of nvidia; there are also topograph (2 nodes)"
    )


def test_a_renamed_family_takes_over_once_it_places_every_node():
    """Nodes are labelled anew one by one: no group is in two parts meanwhile."""
    old = {f"network.topology.nvidia.com/{key}": "s1" for key in ("block", "spine")}
    new = {"fabric.topograph.run/tier-1": "S-1", "fabric.topograph.run/tier-0": "S-0"}
    state = labelled(dict.fromkeys("abc", old), labels=AUTO)
    for at_s, name in enumerate("ab", start=1):
        state.advance(at_s, seen(name, old | new))
        assert shape(state) == {"s1/s1": ["a", "b", "c"]}
    state.advance(3.0, seen("c", new))
    state.validate()
    assert shape(state) == {"S-1/S-0": ["a", "b", "c"]}


def test_a_family_that_replaces_no_other_never_takes_over_by_itself():
    """Other labels on more nodes move no job; once the followed family is gone they do."""
    clique, rack = {"nvidia.com/gpu.clique": "u.1"}, {"crusoe.ai/ib.partition.id": "p"}
    state = labelled({"a": clique, "b": clique, "c": {}}, labels=AUTO)
    more = dict.fromkeys("ab", clique | rack) | {"c": rack}
    state.advance(1.0, listed(more))
    assert shape(state) == {"u/u.1": ["a", "b"], "": ["c"]}
    state.advance(2.0, *(ClusterNodeGone(NodeName(name)) for name in "ab"))
    state.validate()
    assert shape(state) == {"p": ["c"]}


def test_the_first_of_families_named_that_places_a_node_is_followed_node_by_node():
    """Of two clouds in one cluster each node follows its own."""
    by_name = {family.name: family for family in FAMILIES}
    source = LabelSource((by_name["crusoe"], by_name["nvidia"]))
    state = labelled(
        {"a": {"nvidia.com/gpu.clique": "u.1"}, "b": {"crusoe.ai/ib.partition.id": "p"}},
        labels=source,
    )
    assert shape(state) == {"p": ["b"], "u/u.1": ["a"]}


def test_labels_make_the_groups_above_dragonflies_and_part_no_cable():
    """A pair in one rack stands in it; a pair across two racks stands in their row."""
    state = labelled(PAIRS, Mode.DRAGONFLY)
    state.advance(1.0, *ring(["a", "b"]))
    state.validate()
    (rack,) = [path for path, members in shape(state).items() if members == ["a", "b"]]
    assert rack.startswith("room-1/row-1/rack-1/dragonfly-")
    assert why(state) == dict.fromkeys("cd", "no-worker")
    state.advance(2.0, seen("b", "row-1/rack-2"))
    state.validate()
    (row,) = [path for path, members in shape(state).items() if members == ["a", "b"]]
    assert row.startswith("room-1/row-1/dragonfly-")
    assert codes(state) == ["wiring-differs-from-labels"]
    (conflict,) = state.snapshot.forest.conflicts
    assert conflict.text.endswith(
        "their labels put them in room-1/row-1/rack-1 and room-1/row-1/rack-2; "
        "the wiring is followed"
    )


def test_a_wired_node_without_labels_stands_with_its_neighbour():
    """And a labelled node without a neighbour in its rack, NotReady."""
    state = labelled(PAIRS | {"b": "-"}, Mode.DRAGONFLY)
    state.advance(1.0, *ring(["a", "b"]), report("c"))
    state.validate()
    (pair,) = [path for path, members in shape(state).items() if members == ["a", "b"]]
    assert pair.startswith("room-1/row-1/rack-1/")
    assert shape(state)["room-1/row-1/rack-2"] == ["c"]
    assert [reason.code for reason in nodes(state)["c"].reasons] == ["no-peer"]


@pytest.mark.parametrize("mode", [Mode.NVLINK, Mode.AUTO])
def test_labels_stand_above_whole_nvlink_domains(mode):
    """A domain across two racks stands in their row, as each of its nodes comes."""
    state = labelled(PAIRS | {"c": "row-2/rack-1"}, mode)
    for name in "abc":
        state.advance(1.0, WorkerReported(fabric_facts(name, "u")))
        state.validate()
    above = {path.rsplit("/", 2)[0] for path, members in shape(state).items() if path}
    assert above == {"room-1"}


def test_in_mode_config_labels_place_the_nodes_that_the_file_does_not_list():
    """The file lists a and b, which stay in its groups; labels place c and d in other groups."""
    state = discovery(Mode.CONFIG, labels=RACKS)
    written = declared({"room-1": {"fly": ["a", "b"]}})
    state.advance(0.0, listed(PAIRS), ConfigLoaded(written))
    state.validate()
    assert shape(state) == {"room-1/fly": ["a", "b"], "room-1~label/row-1/rack-2": ["c", "d"]}
    assert {node.status for node in nodes(state).values()} == {Status.READY}
    state.advance(1.0, ConfigLoaded(declared({"room-2": {"fly": ["a", "b"]}})))
    state.validate()
    assert shape(state) == {"room-2/fly": ["a", "b"], "room-1/row-1/rack-2": ["c", "d"]}


def test_in_mode_switchbox_labels_place_the_dragonflies_that_the_manager_does_not_list():
    """A node whose neighbour is listed stands with it, whatever its labels say."""
    state = discovery(Mode.SWITCHBOX, labels=RACKS)
    state.advance(0.0, listed(PAIRS), ManagerReported(managed({"room-1": ["a"]})))
    state.advance(1.0, *ring(["a", "b"]), *ring(["c", "d"]))
    state.validate()
    above = {path.rpartition("/")[0]: members for path, members in shape(state).items()}
    assert above == {"room-1": ["a", "b"], "room-1~label/row-1/rack-2": ["c", "d"]}


def test_labels_are_followed_where_they_part_a_cable_in_mode_labels():
    """The mode says who is believed; the other side is told."""
    state = labelled(PAIRS)
    state.advance(1.0, *ring(["b", "c"]))
    state.validate()
    assert shape(state)["room-1/row-1/rack-1"] == ["a", "b"]
    assert codes(state) == ["wiring-differs-from-labels"]


def test_without_group_labels_no_label_is_read():
    """A mode of its own sources stays as it was."""
    state = discovery(Mode.DRAGONFLY)
    state.advance(0.0, listed(PAIRS))
    state.advance(1.0, *ring(["a", "b"]))
    assert [path.count("/") for path, members in shape(state).items() if path] == [0]
    assert RACKS.keys == {"example.com/room", "example.com/row", "example.com/rack"}
