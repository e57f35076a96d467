"""The labels by which schedulers see who is near whom."""

import re

from hypothesis import given
from hypothesis import strategies as st

from tests.publish.forests import VENDOR, box, fly, forest, forests, group
from topo.model.forest import Forest, Group
from topo.model.ids import DRAGONFLY, SCALE_OUT, SWITCHBOX, GroupPath, Kind
from topo.publish.names import OBJECT_NAME, unique_names
from topo.publish.node_labels import fabric_keys, is_label_key, label_keys, node_labels

KEYS = label_keys("metax-tech.com", {})
FLY, BOX = "metax-tech.com/dragonfly", "metax-tech.com/switchbox"
VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
"""The rule as the API server states it in its refusals."""
TEXTS = st.text(min_size=1, max_size=80)


def labels_of(of: Forest) -> dict[str, dict[str, str]]:
    return {str(name): dict(labels) for name, labels in node_labels(of, KEYS).items()}


def placed(of: Forest) -> dict[str, dict[Kind, GroupPath]]:
    """The group of each kind that each placed node is in, found in another way than the product."""
    found: dict[str, dict[Kind, GroupPath]] = {}
    kinds: dict[GroupPath, Kind] = {}
    for above, vertex in of.walk():
        if isinstance(vertex, Group):
            kinds[GroupPath((*above, vertex.name))] = vertex.kind
        else:
            chain = [GroupPath(above[: end + 1]) for end in range(len(above))]
            found[vertex.name] = {kinds[path]: path for path in chain}
    return found


def test_every_node_of_the_vendors_forest_carries_the_names_of_its_groups():
    labels = labels_of(VENDOR)
    assert len(labels) == 8
    assert labels["node-3"] == {FLY: "dragonfly-2", BOX: "switchbox-1"}


def test_a_node_in_no_group_has_no_label_and_one_in_a_switchbox_alone_has_that_one():
    labels = labels_of(forest(box("box", {}, ["alone"]), unplaced=["stray"]))
    assert labels == {"alone": {BOX: "box"}, "stray": {}}


def test_two_dragonflies_of_one_name_under_two_switchboxes_have_two_values():
    twins = forest(box("box-1", {"fly": ["a", "b"]}), box("box-2", {"fly": ["c", "d"]}))
    a, b, c, d = (labels_of(twins)[name][FLY] for name in "abcd")
    assert a == b != c == d
    assert a.startswith("fly-")


def test_a_value_does_not_change_when_another_group_comes():
    before = labels_of(forest(box("box-1", {"fly-1": ["a", "b"]})))
    more = forest(box("box-1", {"fly-1": ["a", "b"], "fly-2": ["c", "d"]}))
    assert {name: labels_of(more)[name] for name in before} == before


def test_a_name_that_is_no_label_value_is_cleaned_and_told_apart():
    odd = ["a b", "a_b?", "a" * 80, "a" * 81, "数据", "-", "ok"]
    roots = [fly(name, [f"node-{index}"]) for index, name in enumerate(odd)]
    values = [labels[FLY] for labels in labels_of(forest(*roots)).values()]
    assert values[-1] == "ok"
    assert values[0].startswith("a-b-")
    assert [len(value) for value in values[2:4]] == [63, 63]
    assert len(set(values)) == len(odd)
    assert all(VALUE.fullmatch(value) for value in values)


def test_a_name_that_looks_like_one_with_digits_is_taken_from_nobody():
    """The digits that a twin would get are another group's own name: the twin gets more digits."""
    twins = forest(box("box-1", {"fly": ["a", "b"]}), box("box-2", {"fly": ["c", "d"]}))
    taken = labels_of(twins)["a"][FLY]
    both = forest(*twins.roots, box("box-3", {taken: ["e", "f"]}))
    labels = labels_of(both)
    assert labels["e"][FLY] == taken
    assert labels["a"][FLY].startswith(f"{taken}")
    assert labels["a"][FLY] != taken


def test_of_two_groups_of_a_kind_inside_each_other_the_inner_one_counts():
    nested = group("outer", SWITCHBOX, 2, [box("inner", {}, ["a"])])
    assert labels_of(forest(nested)) == {"a": {BOX: "inner"}}


def test_a_kind_that_nobody_knows_has_a_label_only_when_it_is_given_one():
    """A manager that invents the kind `node.usage` does not get to write that label."""
    odd = forest(group("shelf", Kind("node.usage"), 1, [*fly("", ["a"]).children]))
    assert labels_of(odd) == {"a": {}}
    keys = label_keys("metax-tech.com", {Kind("node.usage"): "example.com/shelf"})
    assert node_labels(odd, keys) == {"a": {"example.com/shelf": "shelf"}}


def test_a_label_may_be_renamed():
    keys = label_keys("example.com", {DRAGONFLY: "rack/pair"})
    assert keys[DRAGONFLY] == "rack/pair"
    assert keys[SWITCHBOX] == "example.com/switchbox"


def test_label_keys_are_what_kubernetes_takes_and_none_of_its_own():
    good = ("a", "a/b", "metax-tech.com/dragonfly", "example.com/a_B.c", "not-k8s.io/x")
    bad = ("", "/", "a/", "/a", "A.com/b", "a/b/c", "-a", "a b", "a" * 64, "kubernetes.io/hostname")
    worse = ("node.kubernetes.io/x", "topology.k8s.io/zone", f"{'a.' * 127}a/b", "a..b/c")
    assert [key for key in good if not is_label_key(key)] == []
    assert [key for key in (*bad, *worse) if is_label_key(key)] == []


@given(forests(names=TEXTS))
def test_two_nodes_share_a_value_if_and_only_if_they_share_the_group(of: Forest):
    labels, places = labels_of(of), placed(of)
    assert labels.keys() == {*places, *(entry.node.name for entry in of.unplaced)}
    for name, groups in places.items():
        assert labels[name].keys() == {KEYS[kind] for kind in groups}
        for kind, path in groups.items():
            value = labels[name][KEYS[kind]]
            assert len(value) <= 63
            assert VALUE.fullmatch(value)
            for other, theirs in places.items():
                same = labels[other].get(KEYS[kind]) == value
                assert same == (theirs.get(kind) == path)


@given(st.sets(st.lists(TEXTS, min_size=1, max_size=3).map(tuple), max_size=8))
def test_names_of_objects_are_dns_labels_and_no_name_comes_twice(paths):
    names = unique_names(map(GroupPath, paths), OBJECT_NAME)
    assert len(set(names.values())) == len(paths)
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", n) for n in names.values())


@given(forests(), forests())
def test_labels_of_another_fabric_name_it_and_leave_those_of_the_tree_as_they_are(
    tree: Forest, other: Forest
) -> None:
    """Whatever groups of equal kinds and names there are in both."""
    found = node_labels(tree, KEYS, {SCALE_OUT: other})
    alone, beside = node_labels(tree, KEYS), node_labels(other, KEYS)
    assert found == {
        name: {
            **alone[name],
            **{key.replace("/", "/scale-out-"): value for key, value in beside[name].items()},
        }
        for name in alone
    }


def test_a_label_of_another_fabric_is_renamed_with_that_of_the_tree_and_never_doubled() -> None:
    keys = {DRAGONFLY: "pair", Kind("leaf"): "x/leaf", Kind("rack"): "x/scale-out-leaf"}
    assert fabric_keys(SCALE_OUT, keys) == {
        DRAGONFLY: "scale-out-pair",
        Kind("rack"): "x/scale-out-scale-out-leaf",
    }
    assert fabric_keys(SCALE_OUT, {DRAGONFLY: f"x/{'d' * 60}"}) == {}
