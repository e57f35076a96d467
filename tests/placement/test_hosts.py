"""A capacity follows the forest by what changed in it."""

from dataclasses import replace

import pytest

from topo.model.forest import Forest, Group, Node, Reason, Status, Unplaced
from topo.model.ids import DRAGONFLY, SWITCHBOX, GroupName, NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.follow import Follower, hosts_of


def node(name: str, gpus: int = 8, *, ready: bool = True) -> Node:
    status = Status.READY if ready else Status.NOT_READY
    reasons = () if ready else (Reason("gpu", "one is ill"),)
    return Node(NodeName(name), status, reasons, gpus, "MXC500")


def dragonfly(name: str, *nodes: Node) -> Group:
    return Group(GroupName(name), DRAGONFLY, 1, Status.READY, nodes)


def switchbox(name: str, *children: Group | Node) -> Group:
    tier = 1 + any(isinstance(child, Group) for child in children)
    return Group(GroupName(name), SWITCHBOX, tier, Status.READY, children)


FOREST = Forest(
    roots=(
        switchbox("s1", dragonfly("d1", node("a"), node("b", ready=False)), node("c", 4)),
        switchbox("s2", dragonfly("d2", node("d"))),
    ),
    unplaced=(Unplaced(node("e"), Reason("alone", "nobody knows it")),),
)


def test_every_known_node_is_a_host_with_the_labels_that_its_place_implies():
    hosts = hosts_of(FOREST)
    assert list(hosts) == ["a", "b", "c", "d", "e"]
    a = hosts[NodeName("a")]
    assert (a.path, a.kinds, a.tiers) == (("s1", "d1"), ("switchbox", "dragonfly"), (2, 1))
    assert dict(a.labels) == {
        "kubernetes.io/hostname": "a",
        "metax-tech.com/gpu.product": "MXC500",
        "metax-tech.com/switchbox": "s1",
        "metax-tech.com/dragonfly": "d1",
    }
    assert not hosts[NodeName("b")].open
    assert (hosts[NodeName("c")].path, hosts[NodeName("c")].gpus) == (("s1",), 4)
    assert hosts[NodeName("e")].path == ()


def followed(capacity: Capacity) -> dict[NodeName, object]:
    return {host.name: host for host in capacity.hosts()}


CHANGES = {
    "a node fell ill": (replace(FOREST, roots=(
        switchbox("s1", dragonfly("d1", node("a", ready=False), node("b", ready=False)),
                  node("c", 4)),
        FOREST.roots[1],
    )), 1),
    "a node moved": (replace(FOREST, roots=(
        switchbox("s1", dragonfly("d1", node("a")), node("c", 4)),
        switchbox("s2", dragonfly("d2", node("b", ready=False), node("d"))),
    )), 1),
    "a group was renamed": (replace(FOREST, roots=(
        FOREST.roots[0], switchbox("s3", dragonfly("d2", node("d"))),
    )), 1),
    "a switchbox lost its tier": (replace(FOREST, roots=(
        FOREST.roots[0], switchbox("s2", node("d")),
    )), 1),
    "a node was placed": (replace(FOREST, unplaced=(), roots=(
        *FOREST.roots, dragonfly("d5", node("e")),
    )), 1),
    "all went": (Forest(), 5),
    "nothing changed": (FOREST, 0),
    "the same was built again": (replace(FOREST, roots=(
        switchbox("s1", dragonfly("d1", node("a"), node("b", ready=False)), node("c", 4)),
        FOREST.roots[1],
    )), 0),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_the_capacity_is_that_of_the_forest_after_each_change(what):
    forest, changed = CHANGES[what]
    capacity = Capacity()
    follower = Follower(capacity)
    assert follower.follow(FOREST) == 5
    assert followed(capacity) == hosts_of(FOREST)
    assert follower.follow(forest) == changed
    assert followed(capacity) == hosts_of(forest)
    assert follower.follow(FOREST) == changed
    assert followed(capacity) == hosts_of(FOREST)


def test_hosts_from_elsewhere_are_left_alone():
    capacity = Capacity()
    stranger = hosts_of(FOREST)[NodeName("e")]
    capacity.upsert(replace(stranger, name=NodeName("stranger")))
    follower = Follower(capacity)
    follower.follow(FOREST)
    follower.follow(Forest())
    assert [host.name for host in capacity.hosts()] == ["stranger"]
