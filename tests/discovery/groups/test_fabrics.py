"""Several fabrics at once: a forest for each, none of which loses what another one parts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import discovery, fabric_facts, facts, managed, report, shape
from tests.discovery.fabrics import dumped, fours
from tests.discovery.labels import labelled, node, seen
from tests.support.fabric import Built, rails
from topo.discovery.groups.fabrics import FIRST
from topo.discovery.label_families import AUTO, FAMILIES, LabelSource
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.discovery.tree.fabric_forests import fabric_of_tree, forests_by_fabric, summaries
from topo.model.forest import Forest, Node
from topo.model.ids import (
    DRAGONFLY,
    NVLINK_CLIQUE,
    SCALE_OUT,
    SCALE_UP,
    FabricName,
    GroupName,
    Kind,
    NodeName,
)
from topo.model.machine import NetworkPort
from topo.model.observation import (
    CLUSTER_MANAGER,
    CLUSTER_NODES,
    CONFIG_FILE,
    FABRIC,
    ClusterNodeSeen,
    ConfigLoaded,
    DeclaredForest,
    DeclaredGroup,
    DeclaredNode,
    Event,
    ManagerReported,
    NodeRemoved,
    WorkerReported,
)

NAMES = [f"node-{number}" for number in range(1, 9)]
LEAF = "dce.unifabric.io/scaleoutleaf-group"
Sets = set[frozenset[str]]


def in_fabric(state: Discovery, mode: Mode, fabric: FabricName) -> dict[str, list[str]]:
    """The nodes of a fabric by the path of their group; those in none under an empty path."""
    return by_path(forests_by_fabric(state.snapshot.forest, mode)[fabric])


def by_path(forest: Forest) -> dict[str, list[str]]:
    """The nodes of a forest by the path of their group."""
    found: dict[str, list[str]] = {}
    for above, vertex in forest.walk():
        if isinstance(vertex, Node):
            found.setdefault("/".join(above), []).append(vertex.name)
    for entry in forest.unplaced:
        assert entry.reason.text
        found.setdefault("", []).append(entry.node.name)
    return found


def flies_of(forest: Forest) -> Sets:
    """The nodes of each dragonfly; in the tree a node in none may stand in a leaf."""
    flies = (group for _, group in forest.groups() if group.kind == DRAGONFLY)
    return {frozenset(v.name for _, v in fly.walk() if isinstance(v, Node)) for fly in flies}


def sets_of(found: Mapping[str, Sequence[str]]) -> Sets:
    return {frozenset(names) for path, names in found.items() if path}


def wired(built: Built, flies: Iterable[Sequence[str]]) -> list[WorkerReported]:
    """Each host says the adapters that the dump has, and the peers of its dragonfly."""
    peers = {name: [each for each in fly if each != name] for fly in flies for name in fly}
    return [
        WorkerReported(
            replace(
                facts(host, peers.get(host, ())),
                nics=tuple(
                    NetworkPort(f"mlx5_{n}", 1, up=True, node_guid=fours(guid))
                    for n, guid in enumerate(guids)
                ),
            )
        )
        for host, guids in built.adapters.items()
    ]


CROSSING = rails([["a", "c"], ["b", "d"], ["e", "f"]], 1)
FLIES = [("a", "b"), ("c", "d"), ("e", "f")]
"""The vendor's dragonflies of two nodes: two hang on two leaves each, the third on one."""
LEAVES = {
    "ib-spine-01/ib-su1-leaf-01": ["a", "c"],
    "ib-spine-01/ib-su2-leaf-01": ["b", "d"],
    "ib-spine-01/ib-su3-leaf-01": ["e", "f"],
}


def test_dragonflies_across_two_leaves_are_whole_and_so_are_the_leaves() -> None:
    """The tree has the dragonflies below what parts none of them; the leaves have their own."""
    state = discovery(precedence=(FABRIC,))
    state.advance(0.0, dumped(CROSSING.text()), *wired(CROSSING, FLIES))
    state.validate()
    assert sets_of(shape(state)) == {frozenset(fly) for fly in FLIES}
    assert in_fabric(state, Mode.DRAGONFLY, SCALE_OUT) == LEAVES
    first, second = summaries(state.snapshot.forest, Mode.DRAGONFLY)
    assert (first.fabric, first.nodes) == (SCALE_UP, 6)
    assert second[:6] == (SCALE_OUT, ("spine", "leaf"), 4, 6, FABRIC, ())


def test_where_the_switches_make_the_tree_the_dragonflies_are_beside_it() -> None:
    state = discovery(Mode.FABRIC)
    state.advance(0.0, dumped(CROSSING.text()), *wired(CROSSING, FLIES))
    state.validate()
    assert shape(state) == LEAVES
    beside = in_fabric(state, Mode.FABRIC, SCALE_UP)
    assert sets_of(beside) == {frozenset(fly) for fly in FLIES}
    assert "" not in beside


def test_a_switchbox_that_is_no_leaf_contradicts_nobody() -> None:
    """Its manager speaks of the wires between GPUs, the dump of the switches between adapters."""
    order = (CLUSTER_MANAGER, FABRIC)
    state = discovery(Mode.SWITCHBOX, precedence=order)
    boxes = ManagerReported(managed({"box-1": ["a", "b", "c", "d"], "box-2": ["e", "f"]}))
    state.advance(0.0, dumped(CROSSING.text()), *wired(CROSSING, FLIES), boxes)
    state.validate()
    assert state.snapshot.forest.conflicts == ()
    assert [root.name for root in state.snapshot.forest.roots] == ["box-1", "box-2"]
    assert in_fabric(state, Mode.SWITCHBOX, SCALE_OUT) == LEAVES


def test_dragonflies_across_labelled_leaves_contradict_nobody() -> None:
    """Labels of switches are not held against wires between GPUs; labels of racks still are."""
    places = {"a": {LEAF: "l1"}, "b": {LEAF: "l2"}}
    wires = report("a", ["b"]), report("b", ["a"])
    state = labelled(places, Mode.DRAGONFLY, AUTO)
    state.advance(1.0, *wires)
    state.validate()
    assert state.snapshot.forest.conflicts == ()
    assert in_fabric(state, Mode.DRAGONFLY, SCALE_OUT) == {"l1": ["a"], "l2": ["b"]}
    scale_up = {name: at | {"dce.unifabric.io/scaleup-group": name} for name, at in places.items()}
    other = labelled(scale_up, Mode.DRAGONFLY, AUTO)
    other.advance(1.0, *wires)
    (conflict,) = other.snapshot.forest.conflicts
    assert "their labels put them in a and b" in conflict.text


def test_an_nvlink_domain_over_four_leaves_is_whole_and_labels_name_the_leaves() -> None:
    """NVL72 in small: its label of the domain is no part of the switches' forest."""
    topograph = "network.topology.nvidia.com/"
    places = {
        name: {f"{topograph}leaf": f"leaf-{at % 4}", f"{topograph}accelerator": "nvl-1"}
        for at, name in enumerate(NAMES)
    }
    state = labelled(places, Mode.NVLINK, AUTO)
    state.advance(1.0, *(WorkerReported(fabric_facts(name, "c-1")) for name in NAMES))
    state.validate()
    assert sets_of(shape(state)) == {frozenset(NAMES)}
    beside = in_fabric(state, Mode.NVLINK, SCALE_OUT)
    assert beside == {f"leaf-{at}": [NAMES[at], NAMES[at + 4]] for at in range(4)}
    assert state.snapshot.forest.conflicts == ()


def conflicts_of(state: Discovery) -> set[str]:
    return {each.code for each in state.snapshot.forest.conflicts}


def filed(kind: Kind, groups: Iterable[Sequence[str]]) -> ConfigLoaded:
    """The event of a file with these groups of nodes."""
    return ConfigLoaded(
        DeclaredForest(
            tuple(
                DeclaredGroup(
                    GroupName(f"{kind}-{number}"),
                    kind,
                    tuple(DeclaredNode(NodeName(name)) for name in names),
                )
                for number, names in enumerate(groups)
            )
        )
    )


@pytest.mark.parametrize("first", ["file", "dumps"])
def test_a_file_of_dragonflies_has_the_leaves_of_the_dumps_beside_it(first: str) -> None:
    """Its kinds say which fabric it is of. A file of racks says nothing, and there is one tree."""
    state = discovery(Mode.CONFIG, precedence=(CONFIG_FILE, FABRIC))
    events: list[Event] = [dumped(CROSSING.text()), *wired(CROSSING, FLIES)]
    events.insert(0 if first == "file" else len(events), filed(DRAGONFLY, FLIES))
    for number, event in enumerate(events):
        state.advance(0.1 * number, event)
        state.validate()
    assert conflicts_of(state) == set()
    assert sets_of(shape(state)) == {frozenset(fly) for fly in FLIES}
    assert in_fabric(state, Mode.CONFIG, SCALE_OUT) == LEAVES
    assert fabric_of_tree(state.snapshot.forest, Mode.CONFIG) == SCALE_UP
    state.advance(5.0, filed(Kind("rack"), FLIES))
    state.validate()
    assert forests_by_fabric(state.snapshot.forest, Mode.CONFIG) == {}
    assert conflicts_of(state) == {"sources-differ"}
    state.advance(6.0, filed(DRAGONFLY, FLIES))
    state.validate()
    assert conflicts_of(state) == set()
    assert in_fabric(state, Mode.CONFIG, SCALE_OUT) == LEAVES


def test_a_file_of_leaves_has_the_dragonflies_that_workers_see_beside_it() -> None:
    state = discovery(Mode.CONFIG)
    state.advance(0.0, filed(Kind("leaf"), LEAVES.values()), *wired(CROSSING, FLIES))
    state.validate()
    assert state.snapshot.forest.conflicts == ()
    assert sets_of(shape(state)) == {frozenset(names) for names in LEAVES.values()}
    beside = in_fabric(state, Mode.CONFIG, SCALE_UP)
    assert sets_of(beside) == {frozenset(fly) for fly in FLIES}


def test_one_fabric_is_one_tree_and_no_node_says_more() -> None:
    state = discovery(precedence=(FABRIC,))
    state.advance(0.0, report("a", ["b"]), report("b", ["a"]))
    forest = state.snapshot.forest
    assert forests_by_fabric(forest, Mode.DRAGONFLY) == {}
    assert summaries(forest, Mode.DRAGONFLY) == ()
    assert [each.elsewhere for each in forest.nodes()] == [(), ()]


def test_a_restarted_master_knows_both_fabrics_before_anybody_speaks() -> None:
    state = discovery(precedence=(FABRIC,))
    state.advance(0.0, dumped(CROSSING.text()), *wired(CROSSING, FLIES))
    again = discovery(precedence=(FABRIC,))
    again.restore(state.persistent_state(), 1.0, 100.0)
    again.validate()
    assert shape(again) == shape(state)
    assert in_fabric(again, Mode.DRAGONFLY, SCALE_OUT) == LEAVES


pairs = st.lists(st.permutations(NAMES).map(lambda names: names[:2]), max_size=6)
leaf_of = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["l1", "l2", "l10", ""]))


def dragonflies(cables: Iterable[Sequence[str]], gone: str) -> Sets:
    """The model: what can be reached over cables from each node, without one that is gone."""
    reach = {name: {name} for name in NAMES if name != gone}
    for _ in NAMES:
        for one, other in cables:
            if gone not in (one, other):
                reach[one] |= reach[other]
                reach[other] |= reach[one]
    return {frozenset(found) for found in reach.values() if len(found) > 1}


def leaves(labels: Mapping[str, str], gone: str) -> Sets:
    """The model: the nodes of each label."""
    kept = {name: leaf for name, leaf in labels.items() if leaf and name != gone}
    return {frozenset(n for n in kept if kept[n] == leaf) for leaf in kept.values()}


@settings(max_examples=12)
@given(pairs, leaf_of, leaf_of, st.sampled_from(["", *NAMES]), st.data())
@pytest.mark.parametrize("mode", [Mode.DRAGONFLY, Mode.AUTO])
def test_each_fabric_has_what_its_own_source_says_whatever_the_other_says(
    mode: Mode,
    cables: list[Sequence[str]],
    first: dict[str, str],
    then: dict[str, str],
    gone: str,
    data: st.DataObject,
) -> None:
    """In any order; labels change, a node goes. No node is lost in either forest."""

    def told(seen: list[Sequence[str]], labels: dict[str, str]) -> list[Event]:
        peers: dict[str, list[str]] = {name: [] for name in NAMES}
        for one, other in seen:
            peers[one] += [other] if other not in peers[one] else []
            peers[other] += [one] if one not in peers[other] else []
        events: list[Event] = [report(name, peers[name]) for name in NAMES]
        places = {name: {LEAF: labels[name]} if labels.get(name) else {} for name in NAMES}
        return [*events, *(ClusterNodeSeen(node(name, places[name])) for name in NAMES)]

    state = discovery(mode, labels=AUTO, machine_forget_s=0.5, node_number=8, incumbent_s=0.0)
    events = data.draw(st.permutations(told(cables, first)))
    for number, event in enumerate([*events, *data.draw(st.permutations(told(cables, then)))]):
        state.advance(0.01 * number, event)
    state.advance(5.0, *told(cables, then), *([NodeRemoved(gone)] if gone else ()))  # type: ignore[arg-type]
    state.validate()
    assert flies_of(state.snapshot.forest) == dragonflies(cables, gone)
    known = {name for name in NAMES if name != gone}
    for forest in forests_by_fabric(state.snapshot.forest, mode).values():
        assert sorted(each.name for each in forest.nodes()) == sorted(known)
    wanted = leaves(then, gone)
    if wanted:
        assert sets_of(in_fabric(state, mode, SCALE_OUT)) == wanted
    else:
        assert forests_by_fabric(state.snapshot.forest, mode) == {}


@settings(max_examples=12)
@given(pairs, st.lists(st.sampled_from([0, 1, 2]), min_size=8, max_size=8), st.randoms())
def test_dumps_and_cables_in_any_order_make_both_forests(
    cables: list[Sequence[str]], units: list[int], random: object
) -> None:
    """Either may be the tree; the other one is beside it, the same."""
    hosts = [[name for name, unit in zip(NAMES, units, strict=True) if unit == n] for n in range(3)]
    built = rails([each for each in hosts if each], 1)
    flies = dragonflies(cables, "")
    events: list[Event] = [dumped(built.text()), *wired(built, map(sorted, flies))]
    random.shuffle(events)  # type: ignore[attr-defined]
    trees: dict[Mode, tuple[Sets, Sets]] = {}
    for mode in (Mode.DRAGONFLY, Mode.FABRIC):
        state = discovery(mode, precedence=(FABRIC,), node_number=8)
        for number, event in enumerate(events):
            state.advance(0.01 * number, event)
        state.validate()
        known = {FIRST[mode]: state.snapshot.forest}
        known |= forests_by_fabric(state.snapshot.forest, mode)
        of_leaves = set() if SCALE_OUT not in known else sets_of(by_path(known[SCALE_OUT]))
        trees[mode] = flies_of(known.get(SCALE_UP, Forest())), of_leaves
    wanted = flies, {frozenset(each) for each in hosts if each}
    assert trees == {Mode.DRAGONFLY: wanted, Mode.FABRIC: wanted}


def test_labels_of_racks_are_no_fabric() -> None:
    """Levels that no writer of a fabric's labels writes stay above the groups, as ever."""
    state = labelled({"a": "r/1", "b": "r/1"}, Mode.DRAGONFLY, precedence=(CLUSTER_NODES,))
    state.advance(1.0, report("a", ["b"]), report("b", ["a"]))
    assert forests_by_fabric(state.snapshot.forest, Mode.DRAGONFLY) == {}


_OF = "network.topology.nvidia.com/"
DOMAINS = {"a": "u1.0", "b": "u1.0", "c": "u2.0", "d": "u2.0", "e": ""}
UNDER = {"a": "l1", "b": "l2", "c": "l1", "d": "l2", "e": "l2"}
TWO = {
    name: {
        **({"nvidia.com/gpu.clique": clique} if clique else {}),
        f"{_OF}leaf": UNDER[name],
        f"{_OF}spine": "s1",
    }
    for name, clique in DOMAINS.items()
}
"""NVLink domains across two leaves; e is in none."""


def named(*names: str) -> LabelSource:
    """The families that an operator names, in that order."""
    return LabelSource(tuple(next(f for f in FAMILIES if f.name == name) for name in names))


def test_two_named_families_of_labels_are_a_forest_for_each_fabric() -> None:
    state = labelled(TWO, labels=named("nvidia", "topograph-2026"))
    assert shape(state)["u1/u1.0"] == ["a", "b"]
    assert shape(state)["u2/u2.0"] == ["c", "d"]
    assert in_fabric(state, Mode.LABELS, SCALE_OUT) == {
        "s1/l1": ["a", "c"],
        "s1/l2": ["b", "d", "e"],
    }
    assert fabric_of_tree(state.snapshot.forest, Mode.LABELS) == SCALE_UP
    assert conflicts_of(state) == set()
    state.advance(1.0, seen("b", {**TWO["b"], f"{_OF}leaf": "l1"}))
    state.validate()
    assert in_fabric(state, Mode.LABELS, SCALE_OUT)["s1/l1"] == ["a", "b", "c"]


def test_dragonflies_that_workers_see_are_beside_labels_of_switches_alone() -> None:
    world = {name: {"cloud.google.com/gce-topology-block": "b", **of} for name, of in TWO.items()}
    state = labelled(world, labels=named("gke"))
    state.advance(1.0, report("a", ["b"]), report("b", ["a"]))
    state.validate()
    assert shape(state) == {"b": ["a", "b", "c", "d", "e"]}
    assert sets_of(in_fabric(state, Mode.LABELS, SCALE_UP)) == {frozenset("ab")}
    assert conflicts_of(state) == set()


def test_labels_of_domains_have_the_leaves_of_the_dumps_beside_them() -> None:
    state = discovery(Mode.LABELS, labels=named("nvidia"), precedence=(CLUSTER_NODES, FABRIC))
    domains = {node: f"u{number}" for number, fly in enumerate(FLIES) for node in fly}
    events: list[Event] = [
        seen(name, {"nvidia.com/gpu.clique": f"{of}.0"}) for name, of in domains.items()
    ]
    events += [dumped(CROSSING.text()), *wired(CROSSING, FLIES)]
    for number, event in enumerate(events):
        state.advance(0.1 * number, event)
        state.validate()
    assert sets_of(shape(state)) == {frozenset(fly) for fly in FLIES}
    assert in_fabric(state, Mode.LABELS, SCALE_OUT) == LEAVES
    assert conflicts_of(state) == set()


@settings(max_examples=15)
@given(st.data())
def test_both_families_in_any_order_of_changes_are_both_forests(data: st.DataObject) -> None:
    """Also where labels come, go and change; a clique of no domain (`-`) is none."""
    values = st.fixed_dictionaries(
        {
            "nvidia.com/gpu.clique": st.sampled_from(["u1.0", "u2.0", "", "-"]),
            f"{_OF}leaf": st.sampled_from(["l1", "l2", ""]),
        }
    )
    state = discovery(Mode.LABELS, labels=named("nvidia", "topograph-2026"), machine_forget_s=0.5)
    now: dict[str, dict[str, str]] = {}
    for step in range(data.draw(st.integers(1, 12))):
        name = data.draw(st.sampled_from(NAMES))
        now[name] = {key: v for key, v in data.draw(values).items() if v}
        state.advance(float(step), seen(name, now[name]))
        state.validate()
    state.advance(99.0, *(seen(name, of) for name, of in now.items()))
    state.validate()

    def grouped(key: str) -> Sets:
        said = {of[key] for of in now.values() if of.get(key, "-") != "-"}
        return {frozenset(n for n, of in now.items() if of.get(key) == each) for each in said}

    cliques = (g for _, g in state.snapshot.forest.groups() if g.kind == NVLINK_CLIQUE)
    found = {frozenset(v.name for _, v in each.walk() if isinstance(v, Node)) for each in cliques}
    assert found == grouped("nvidia.com/gpu.clique")
    beside = forests_by_fabric(state.snapshot.forest, Mode.LABELS).get(SCALE_OUT, Forest())
    assert sets_of(by_path(beside)) == grouped(f"{_OF}leaf")


@pytest.mark.parametrize("source", [AUTO, named("topograph-2026", "nvidia")])
def test_families_that_are_found_or_of_no_one_fabric_make_one_tree(source: LabelSource) -> None:
    state = labelled(TWO, labels=source)
    state.advance(1.0, report("a", ["b"]), report("b", ["a"]))
    state.validate()
    assert forests_by_fabric(state.snapshot.forest, Mode.LABELS) == {}
