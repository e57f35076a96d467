"""What nodes have left beside GPUs: as a scheduler counts it, after any sequence of changes."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from topo.model.ids import NodeName
from topo.model.pod_requests import Amounts
from topo.placement.capacity.node_room import SHAPES, NodeRoom, Tight

GPUS = 8
IDLE = {"cpu": 64_000, "memory": 512_000, "pods": 10_000, "vendor/nic": 2_000}
SHAPE: Amounts = (("cpu", 8_000), ("pods", 1_000))
N1 = NodeName("n1")
KUBELET = {"cpu", "memory", "pods", "ephemeral-storage"}


def room(**nodes: dict[str, int]) -> NodeRoom:
    """Nodes of 8 GPUs."""
    made = NodeRoom()
    for name, amounts in nodes.items():
        made.set_node(NodeName(name), amounts, GPUS)
    return made


def test_a_node_is_tight_while_its_pods_leave_less_than_its_gpus_could_take():
    """The vendor's whole-node pods: 60 of 64 CPUs are taken, and then they are not."""
    made = room(n1=IDLE, n2=IDLE)
    made.set_pod("other", N1, (("cpu", 60_000), ("pods", 1_000)))
    assert made.tight(SHAPE, 8) == {"n1": Tight(0, 1, "cpu")}
    made.remove_pod("other")
    assert made.tight(SHAPE, 8) == {}


def test_smaller_pods_fit_as_often_as_the_scarcest_resource_allows():
    """Pods of a GPU: 8 by GPUs, 2 by NICs of the vendor."""
    made = room(n1=IDLE)
    assert made.tight((("pods", 1_000), ("vendor/nic", 1_000)), 1) == {
        "n1": Tight(2, 2, "vendor/nic")
    }


def test_what_no_kubelet_forgets_is_not_judged_where_it_is_not_stated_and_others_are_none():
    """A node without cpu was not heard yet; one without the vendor's NICs has none."""
    made = room(n1={})
    assert made.tight(SHAPE, 8) == {}
    assert made.tight((("vendor/nic", 1_000),), 8) == {"n1": Tight(0, 0, "vendor/nic")}


def test_a_node_has_one_of_each_port():
    """A second pod with it goes elsewhere, and so does a second pod of the same shape."""
    made, port = room(n1=IDLE), (("host port 7777/TCP", 1_000),)
    assert made.tight(port, 8) == {}
    assert made.tight(port, 4) == {"n1": Tight(1, 1, "host port 7777/TCP")}
    made.set_pod("other", N1, port)
    assert made.tight(port, 8) == {"n1": Tight(0, 1, "host port 7777/TCP")}
    assert made.tight((("host port 7777/UDP", 1_000),), 8) == {}


def test_places_that_no_pod_takes_are_forgotten_also_those_that_were_only_asked_for():
    """Each job may keep its pods apart by a term of its own."""
    found = room(n1=IDLE)
    apart = (("apart 1", 1000), ("cpu", 1000))
    found.set_pod("p", N1, apart)
    assert found.tight(apart, 4)[N1] == (0, 1, "apart 1")
    other = (("apart 2", 1000),)
    assert found.tight(other, 4, held=[(N1, other, 1)])[N1] == (0, 1, "apart 2")
    found.validate()
    found.remove_pod("p")
    found.validate()
    assert found.tight(apart, 4)[N1] == (1, 1, "apart 1")


def test_resources_that_are_nowhere_any_more_are_forgotten():
    """Whoever names a node in a pod may call a resource as they like, and nodes come and go."""
    found = room(n1=IDLE)
    odd, there = (("example.com/odd", 1000),), IDLE | {"example.com/nics": 8000, "hugepages": 0}
    found.set_pod("p", NodeName("none"), odd + tuple((f"host port {n}", 1000) for n in range(99)))
    assert found._columns.keys() == IDLE.keys(), "no column of all nodes for each of its words"
    found.set_node(N1, there, 8)
    assert found.tight((("example.com/nics", 4000),), 2)[N1].pods == 2
    found.validate()
    found.set_node(N1, IDLE, 8)
    found.remove_pod("p")
    found.validate()
    assert found._columns.keys() == IDLE.keys()
    assert not found._few
    assert found.tight(odd, 8)[N1] == (0, 0, "example.com/odd")


def test_no_quantity_is_too_large_to_be_counted():
    """An API server takes `memory: 9E` of anybody, and a claim of 2^63 - 1 devices."""
    made = room(n1=IDLE)
    huge = (("cpu", 9 * 10**21), ("example.com/odd", 10**40), ("memory", 9 * 10**21))
    assert made.tight(huge, 4) == {"n1": Tight(0, 0, "cpu")}
    assert made.limits((huge, 4), 0) == made.all_limits((huge, 4)) == {"n1": 0}
    assert made.tight(SHAPE, 4, held=[(N1, huge, 2)])[N1].pods == 0
    made.set_node(NodeName("n2"), {}, 8)
    assert made.tight((("cpu", 9 * 10**21),), 4).keys() == {"n1"}, "n2 is not judged by it"
    for uid in "abc":
        made.set_pod(uid, N1, huge)
    assert made.tight(SHAPE, 4)[N1].pods == 0
    made.validate()
    for uid in "abc":
        made.remove_pod(uid)
    assert made.tight(SHAPE, 4) == {}
    made.validate()


def test_own_pods_count_as_gone():
    """A gang that is planned anew does not stand in its own way."""
    made = room(n1=IDLE)
    made.set_pod("own", N1, (("cpu", 60_000),))
    assert made.tight(SHAPE, 8, ["own", "unknown"]) == {}
    assert made.tight(SHAPE, 8) == {"n1": Tight(0, 1, "cpu")}


def test_what_is_held_for_others_counts_while_it_is_asked_with():
    """Half of a node is planned for a gang whose pods are not opened yet."""
    made = room(n1=IDLE, n2=IDLE)
    held = [(N1, (("cpu", 20_000), ("vendor/nic", 1_000)), 3), (NodeName("gone"), SHAPE, 9)]
    assert made.tight(SHAPE, 8, held=held) == {"n1": Tight(0, 1, "cpu")}
    assert made.tight((("vendor/nic", 1_000),), 8, held=held) == {"n1": Tight(0, 1, "vendor/nic")}
    assert made.tight(SHAPE, 8) == {}
    made.validate()


def test_growth_is_told_once_and_only_of_nodes_that_were_tight():
    """Who was refused for a resource is tried again when it is there."""
    made = room(n1=IDLE, n2=IDLE)
    made.set_pod("other", N1, (("cpu", 60_000),))
    made.set_pod("third", NodeName("n2"), (("cpu", 1_000),))
    assert made.tight(SHAPE, 8)
    assert not made.take_growth()
    made.remove_pod("third")
    assert not made.take_growth()
    made.remove_pod("other")
    assert made.take_growth()
    assert not made.take_growth()


def test_the_shape_asked_for_longest_ago_gives_way():
    """Templates are unlimited in number."""
    made = room(n1=IDLE)
    for number in range(1, 2 * SHAPES):
        made.tight((("cpu", number),), 8)
    made.validate()
    assert made.tight((("cpu", 65_000),), 8) == {"n1": Tight(0, 0, "cpu")}


names = st.sampled_from(["n1", "n2", "n3"])
amounts = st.dictionaries(st.sampled_from(sorted(IDLE)), st.integers(1, 40_000), max_size=3).map(
    lambda found: tuple(sorted(found.items()))
)
changes = st.one_of(
    st.tuples(st.just("node"), names, amounts, st.integers(0, 8)),
    st.tuples(st.just("no node"), names),
    st.tuples(st.just("pod"), st.sampled_from("abcd"), names, amounts),
    st.tuples(st.just("no pod"), st.sampled_from("abcd")),
    st.tuples(st.just("ask"), amounts, st.integers(1, 8)),
)


class Model:
    """A plain model, which counts all nodes and pods for each question."""

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[dict[str, int], int]] = {}
        self.pods: dict[str, tuple[str, Amounts]] = {}

    def tight(self, shape: Amounts, gpus: int) -> dict[str, Tight]:
        """Each node on which fewer fit than its GPUs could take."""
        found = {}
        for name, (has, of_node) in self.nodes.items():
            could = of_node // gpus
            used: Counter[str] = Counter()
            for node, taken in self.pods.values():
                used.update(dict(taken) if node == name else {})
            fits = {
                resource: (max(0, (has.get(resource, 0) - used[resource]) // asked), resource)
                for resource, asked in shape
                if resource in has or resource not in KUBELET
            }
            least, resource = min(fits.values(), key=lambda each: each[0], default=(could, ""))
            idle = [has.get(r, 0) // asked for r, asked in shape if r in has or r not in KUBELET]
            if least < could:
                found[name] = Tight(least, min([could, *idle]), resource)
        return found


@settings(max_examples=200)
@given(st.lists(changes, max_size=40))
def test_after_any_changes_what_is_kept_is_what_is_counted_anew(steps: list[tuple[Any, ...]]):
    """Nodes and pods come, change and go in any order; growth is told where there is some."""
    made, model, asked = NodeRoom(), Model(), dict[tuple[Amounts, int], dict[str, Tight]]()
    for kind, *rest in steps:
        if kind == "node":
            made.set_node(NodeName(rest[0]), dict(rest[1]), rest[2])
            model.nodes[rest[0]] = dict(rest[1]), rest[2]
        elif kind == "no node":
            made.remove_node(NodeName(rest[0]))
            model.nodes.pop(rest[0], None)
        elif kind == "pod":
            made.set_pod(rest[0], NodeName(rest[1]), rest[2])
            model.pods[rest[0]] = rest[1], rest[2]
        elif kind == "no pod":
            made.remove_pod(rest[0])
            model.pods.pop(rest[0], None)
        elif rest[0]:
            assert made.tight(*rest) == model.tight(*rest)
            asked[rest[0], rest[1]] = model.tight(*rest)
        made.validate()
        now = {shape: model.tight(*shape) for shape in asked}
        grown = any(
            name not in now[shape] or now[shape][name].pods > before.pods
            for shape, tight in asked.items()
            for name, before in tight.items()
            if name in model.nodes and model.nodes[name][1] // shape[1] > before.pods
        )
        assert made.take_growth() is grown
        asked = now
