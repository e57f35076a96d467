"""Super pods of Ascend: who is in one, what makes two of one number, what is missing."""

import random
from dataclasses import replace

import pytest

from tests.builders import codes, discovery, groups, listed, not_ready, shape
from tests.discovery.hosts import restarted, told
from tests.discovery.labels import labelled, seen
from topo.discovery.label_families import FAMILIES, LabelSource
from topo.discovery.modes import Mode
from topo.model.forest import Status
from topo.model.ids import BootId, NodeName
from topo.model.machine import FabricKind, Gpu, GpuFabric, NodeFacts, NodeIdentity
from topo.model.observation import ClusterNodeSeen, NodeRemoved, WorkerReported


def npus(
    node: str, pod: int | None, server: int, *, size: int = 32, dies: int = 16, rack: str = ""
) -> NodeFacts:
    """A node whose NPUs all state one super pod; None: that they are in none."""
    fabric = (
        GpuFabric(0, "N/A")
        if pod is None
        else GpuFabric(
            0,
            "Completed",
            "Success",
            f"superpod-{pod}",
            server=server,
            size=size,
            rack=rack or None,
        )
    )
    identity = NodeIdentity(NodeName(node), BootId("boot-1"))
    fabrics = tuple(replace(fabric, gpu=die, kind=FabricKind.SUPER_POD) for die in range(dies))
    return NodeFacts(identity, tuple(Gpu(die) for die in range(dies)), fabrics=fabrics)


ASCEND = LabelSource(tuple(family for family in FAMILIES if family.name == "ascend"))


def by_label(pod: int, rack: int | None = None) -> dict[str, str]:
    """The labels of a node, which the annotations of the device plugin stand for."""
    of_rack = {} if rack is None else {"huawei.com/topotree.rackid": str(rack)}
    return {"huawei.com/topotree.superpodid": str(pod), **of_rack}


PAIR = (npus("a", 0, 0), npus("b", 0, 1))
"""A whole super pod of two nodes."""


@pytest.mark.parametrize("mode", [Mode.AUTO, Mode.NVLINK])
def test_nodes_that_state_one_super_pod_are_one_group_called_by_its_number(mode) -> None:
    state = told(discovery(mode), 0.0, *PAIR, npus("c", 10, 0, size=16), npus("d", 2, 0, size=16))
    assert shape(state) == {
        "superpod-0": ["a", "b"],
        "superpod-2": ["d"],
        "superpod-10": ["c"],
    }
    assert list(groups(state)) == ["superpod-0", "superpod-2", "superpod-10"]
    assert {(g.kind, g.tier, g.status) for g in groups(state).values()} == {
        ("superpod", 1, Status.READY)
    }
    assert (codes(state), not_ready(state)) == (set(), set())
    state.validate()


def test_an_nvlink_cluster_is_no_super_pod_whatever_it_is_called() -> None:
    facts = npus("a", 0, 0)
    nvlink = tuple(replace(each, kind=FabricKind.NVLINK) for each in facts.fabrics)
    state = told(discovery(Mode.AUTO), 0.0, replace(facts, fabrics=nvlink), npus("b", 0, 1))
    kinds = [group.kind for group in groups(state).values()]
    assert kinds == ["nvlink-domain", "nvlink-clique", "superpod"]
    state.validate()


def test_nodes_without_a_super_pod_share_nothing() -> None:
    state = told(discovery(Mode.AUTO), 0.0, npus("a", None, 0), npus("b", None, 0), npus("c", 0, 1))
    assert shape(state) == {"superpod-0": ["c"], "": ["a", "b"]}
    state.validate()


def test_a_super_pod_with_fewer_npus_than_it_says_is_told_and_stays_ready() -> None:
    state = told(discovery(Mode.AUTO), 0.0, npus("a", 0, 0, size=384), npus("b", 0, 1, size=384))
    assert listed(state, "super-pod-incomplete") == ("a", "b")
    (conflict,) = state.snapshot.forest.conflicts
    assert conflict.text == "superpod-0 has 384 NPUs, and its 2 nodes here have 32"
    assert groups(state)["superpod-0"].status is Status.READY
    state.validate()


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ((npus("b", 0, 0),), "a and b both state server index 0"),
        ((npus("b", 0, 1, size=48),), "a says that it has 32 NPUs, b says that it has 48 NPUs"),
        (tuple(npus(f"b{n}", 0, n) for n in range(1, 5)), "80 NPUs, and it has 32"),
    ],
)
def test_two_super_pods_of_one_number_are_one_group_that_is_not_ready(others, why) -> None:
    """To part them would be to invent wiring; the way out is told."""
    state = told(discovery(Mode.AUTO), 0.0, npus("a", 0, 0), *others)
    assert why in state.snapshot.forest.conflicts[0].text
    assert codes(state) == {"super-pod-doubled"}
    group = groups(state)["superpod-0"]
    assert group.status is Status.NOT_READY
    assert {reason.code for reason in group.reasons} == {"super-pod-doubled"}
    assert not_ready(state) == set()
    state.validate()


def test_a_node_that_leaves_ends_the_contradiction() -> None:
    state = told(discovery(Mode.AUTO), 0.0, *PAIR, npus("c", 0, 1))
    assert codes(state) == {"super-pod-doubled"}
    state.advance(1.0, NodeRemoved(NodeName("c")))
    assert (codes(state), groups(state)["superpod-0"].status) == (set(), Status.READY)
    state.validate()


def test_a_node_that_moves_to_another_super_pod_is_followed_and_both_are_judged_again() -> None:
    state = told(discovery(Mode.AUTO), 0.0, *PAIR)
    told(state, 1.0, npus("b", 3, 1), times=2)
    assert shape(state) == {"superpod-0": ["a"], "superpod-3": ["b"]}
    assert codes(state) == {"super-pod-incomplete"}
    assert len(state.snapshot.forest.conflicts) == 2
    state.validate()


def test_an_npu_outside_the_super_pod_of_its_node_makes_it_not_ready() -> None:
    bad = PAIR[0]
    bad = replace(bad, fabrics=(*bad.fabrics[:-1], GpuFabric(15, "N/A")))
    state = told(discovery(Mode.AUTO), 0.0, bad, PAIR[1])
    assert not_ready(state) == {"a"}
    state.validate()


def test_a_restart_shows_the_same_super_pods_before_any_worker_speaks() -> None:
    state = told(discovery(Mode.AUTO), 0.0, *PAIR, npus("c", 1, 0, size=16))
    assert shape(restarted(state, 1.0, mode=Mode.AUTO)) == shape(state)


def test_a_node_that_never_speaks_again_after_a_restart_leaves_a_true_judgement() -> None:
    """Its seat is not kept; the others are judged when it is gone."""
    state = told(discovery(Mode.AUTO), 0.0, *PAIR, npus("c", 0, 2, size=48))
    again = restarted(state, 1.0, mode=Mode.AUTO)
    told(again, 2.0, npus("b", 0, 1, size=48), npus("c", 0, 2, size=48))
    assert codes(again) == set(), "nobody knows what the silent one has"
    again.validate()
    again.advance(3.0, NodeRemoved(NodeName("a")))
    again.validate()
    assert listed(again, "super-pod-incomplete") == ("b", "c")


def test_random_super_pods_are_the_sets_of_nodes_that_state_them_in_any_order() -> None:
    """Against a model that is a dictionary; each is judged as it would be from nothing."""
    for seed in range(20):
        draw = random.Random(seed)  # noqa: S311 - no secret
        state, truth = discovery(Mode.AUTO), {}
        for step in range(30):
            node = f"n{draw.randrange(8)}"
            pod, server = draw.choice([None, 0, 1]), draw.randrange(4)
            truth[node] = pod, server
            # Twice, for a node keeps its super pod through one reading without it.
            told(state, float(step), npus(node, pod, server, size=64, dies=8), times=2)
        state.validate()
        fresh = discovery(Mode.AUTO)
        order = list(truth.items())
        draw.shuffle(order)
        members: dict[str, set[str]] = {}
        for node, (pod, _) in truth.items():
            if pod is not None:
                members.setdefault(f"superpod-{pod}", set()).add(node)
        for node, (pod, server) in order:
            fresh.advance(0.0, WorkerReported(npus(node, pod, server, size=64, dies=8)))
        placed = {name: set(nodes) for name, nodes in shape(fresh).items() if name}
        assert placed == members
        doubled = {
            name for name, group in groups(fresh).items() if group.status is Status.NOT_READY
        }
        wanted = {
            name
            for name, nodes in members.items()
            if len({truth[node][1] for node in nodes}) < len(nodes)
        }
        assert doubled == wanted, seed


def test_racks_that_npus_state_are_groups_inside_their_super_pod() -> None:
    """Numbers of racks count inside of it; a node without one stands in the super pod itself."""
    state = told(
        discovery(Mode.AUTO),
        0.0,
        *(
            npus(node, 0, at, size=64, rack=rack)
            for at, (node, rack) in enumerate([("a", "1"), ("b", "1"), ("c", "2")])
        ),
        npus("d", 0, 3, size=64),
        npus("e", 1, 0, size=16, rack="1"),
    )
    assert shape(state) == {
        "superpod-0": ["d"],
        "superpod-0/superpod-0-rack-1": ["a", "b"],
        "superpod-0/superpod-0-rack-2": ["c"],
        "superpod-1/superpod-1-rack-1": ["e"],
    }
    kinds = {(group.kind, group.tier) for group in groups(state).values()}
    assert kinds == {("superpod", 2), ("rack", 1)}
    assert (codes(state), not_ready(state)) == (set(), set())
    state.validate()
    assert shape(restarted(state, 1.0, mode=Mode.AUTO)) == shape(state)
    told(state, 1.0, npus("c", 0, 2, size=64, rack="1"), times=2)
    assert shape(state)["superpod-0/superpod-0-rack-1"] == ["a", "b", "c"]
    state.validate()


def test_two_servers_of_one_index_are_found_across_racks() -> None:
    racks = npus("a", 0, 0, rack="1"), npus("b", 0, 0, rack="2")
    state = told(discovery(Mode.AUTO), 0.0, *racks)
    assert codes(state) == {"super-pod-doubled"}
    state.validate()


def test_a_super_pod_that_labels_name_too_is_in_the_tree_once() -> None:
    """Around it stands what labels alone say; a node whose worker says nothing joins no group."""
    tree = {"huawei.com/topotree": "east"}
    world = {"a": by_label(0) | tree, "b": by_label(0) | tree, "c": by_label(0) | tree}
    state = labelled(world, Mode.AUTO, ASCEND)
    told(state, 1.0, *PAIR)
    state.validate()
    assert shape(state) == {"east/superpod-0": ["a", "b"], "": ["c"]}
    assert codes(state) == set()


@pytest.mark.parametrize("mode", [Mode.AUTO, Mode.NVLINK, Mode.LABELS])
def test_a_node_that_npu_smi_and_labels_put_into_two_super_pods_is_named_with_both(mode) -> None:
    """Even alone in its super pod, where no other node shows that one of them is wrong."""
    world = {"a": by_label(0), "b": by_label(1), "c": by_label(7)}
    state = labelled(world, mode, ASCEND)
    told(state, 1.0, *PAIR, npus("c", 2, 0, size=16))
    state.validate()
    found = {each.subjects: each for each in state.snapshot.forest.conflicts}
    assert set(found) == {("b",), ("c",)}
    follows = "what is written" if mode is Mode.LABELS else "npu-smi"
    text = "npu-smi puts b into superpod-0, labels or annotations into superpod-1"
    assert found["b",].text == f"{text}; {follows} is followed"
    assert "superPodID" in found["b",].fix
    state.advance(2.0, seen("b", by_label(0)), seen("c", by_label(2)))
    state.validate()
    assert codes(state) == set()


def test_racks_are_compared_where_both_sides_state_one() -> None:
    world = {"a": by_label(0, 1), "b": by_label(0, 2), "c": by_label(0)}
    state = labelled(world, Mode.AUTO, ASCEND)
    told(state, 1.0, *(npus(node, 0, at, size=48, rack="1") for at, node in enumerate("abc")))
    state.validate()
    (conflict,) = state.snapshot.forest.conflicts
    assert conflict.subjects == ("b",)
    assert "superpod-0-rack-1, labels or annotations into superpod-0-rack-2" in conflict.text


def test_whom_npu_smi_and_labels_place_differently_is_found_in_any_order() -> None:
    """Against a model that is two dictionaries."""
    for seed in range(20):
        draw = random.Random(seed)  # noqa: S311 - no secret
        names = [f"n{at}" for at in range(8)]
        by_npu = {name: draw.randrange(3) for name in names}
        by_hand = {name: draw.randrange(3) for name in names if draw.random() < 0.8}
        state = labelled(dict.fromkeys(names, "-"), Mode.AUTO, ASCEND)
        said: list[WorkerReported | ClusterNodeSeen] = [
            WorkerReported(npus(n, pod, at, size=128)) for at, (n, pod) in enumerate(by_npu.items())
        ]
        said += [seen(name, by_label(pod)) for name, pod in by_hand.items()]
        draw.shuffle(said)
        for at, event in enumerate(said):
            state.advance(float(at), event)
        state.validate()
        pods = {f"superpod-{pod}" for pod in by_npu.values()}
        assert {path for path in shape(state) if path} == pods, seed
        named = {
            node
            for each in state.snapshot.forest.conflicts
            if each.code == "wiring-differs-from-labels"
            for node in each.subjects
        }
        assert named == {n for n, pod in by_hand.items() if pod != by_npu[n]}, seed
