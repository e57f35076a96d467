"""A capacity follows the forest and the cluster by what changed in them."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from topo.model.cluster import ClusterNode, Taint
from topo.model.conditions.tree import NodeCondition
from topo.model.forest import Forest, Group, Node, Reason, Status, Unplaced
from topo.model.ids import DRAGONFLY, SWITCHBOX, GroupName, NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.forest_hosts import differences, host_differences, hosts_of
from topo.placement.capacity.host import Host, joined
from topo.placement.capacity.host_follower import HostFollower
from topo.placement.capacity.what_if import Assumptions, apply_assumptions
from topo.placement.job.policy import Policy
from topo.placement.job.request import Eligibility


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
    assert not hosts[NodeName("b")].is_open
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
    follower = HostFollower(capacity)
    assert len(follower.follow(FOREST)) == 5
    assert followed(capacity) == hosts_of(FOREST)
    assert len(follower.follow(forest)) == changed
    assert followed(capacity) == hosts_of(forest)
    assert len(follower.follow(FOREST)) == changed
    assert followed(capacity) == hosts_of(FOREST)


@pytest.mark.parametrize("most", [1, 2, 100])
def test_a_forest_that_is_joined_in_turns_is_overtaken_by_the_next_one(most):
    """Whatever came between the turns: a node of the cluster, another forest."""
    capacity = Capacity()
    follower = HostFollower(capacity)
    follower.begin(FOREST, differences(Forest(), FOREST))
    changed = [*follower.join(most), *follower.follow_cluster([stated("a")])]
    other = CHANGES["a node fell ill"][0]
    follower.begin(other, differences(FOREST, other))
    while follower.has_pending:
        changed += follower.join(most)
    assert set(changed) >= set("abcde")
    assert host_differences(capacity, other, follower.cluster) == ()
    follower.begin(FOREST, differences(other, FOREST))
    follower.follow(Forest())
    assert host_differences(capacity, Forest(), follower.cluster) == ()


def test_hosts_from_elsewhere_are_left_alone():
    capacity = Capacity()
    stranger = hosts_of(FOREST)[NodeName("e")]
    capacity.upsert(replace(stranger, name=NodeName("stranger")))
    follower = HostFollower(capacity)
    follower.follow(FOREST)
    follower.follow(Forest())
    assert [host.name for host in capacity.hosts()] == ["stranger"]


def stated(name: str, **more: Any) -> ClusterNode:
    values: dict[str, Any] = {"labels": (("zone", "1"),), "unschedulable": True} | more
    return ClusterNode(name=NodeName(name), **values)


def test_what_the_cluster_says_survives_changes_of_the_forest_and_the_recount():
    capacity = Capacity()
    follower = HostFollower(capacity)
    follower.follow(FOREST)
    assert follower.follow_cluster([stated("a")]) == ("a",)
    for forest in (CHANGES["a node fell ill"][0], FOREST, Forest(), FOREST):
        follower.follow(forest)
        host = capacity.host(NodeName("a"))
        assert host is not None
        assert host.cordoned
        assert ("zone", "1") in host.labels
        assert host_differences(capacity, follower.forest, follower.cluster) == ()
    assert follower.follow_cluster([], [NodeName("a")]) == ("a",)
    assert followed(capacity) == hosts_of(FOREST)


POLICY = Policy()


def join(forest: Host | None, cluster: ClusterNode | None, policy: Policy = POLICY) -> Host:
    host = joined(forest, cluster, policy)
    assert host is not None
    return host


SEEN = hosts_of(FOREST)[NodeName("a")]
ILL = hosts_of(FOREST)[NodeName("b")]


def test_without_a_cluster_a_host_is_what_the_forest_says():
    assert join(SEEN, None) is SEEN
    assert joined(None, None, Policy()) is None


@pytest.mark.parametrize(
    ("forest", "ready", "cordoned", "is_ready", "is_open"),
    [
        (SEEN, True, False, True, True),
        (SEEN, False, False, False, False),
        (SEEN, True, True, True, False),
        (ILL, True, False, False, False),
        (None, True, False, True, True),
        (None, False, False, False, False),
    ],
)
def test_a_node_is_ready_when_nobody_says_otherwise_and_cordoned_by_the_cluster(
    forest, ready, cordoned, is_ready, is_open
):
    host = join(forest, stated("a", ready=ready, unschedulable=cordoned))
    assert (host.ready, host.cordoned, host.is_open) == (is_ready, cordoned, is_open)


@pytest.mark.parametrize(
    ("forest", "allocatable", "gpus"),
    [
        (SEEN, None, 8),
        (SEEN, (), 0),
        (SEEN, (("cpu", 64), ("metax-tech.com/gpu", 6)), 6),
        (SEEN, (("nvidia.com/gpu", 4), ("metax-tech.com/gpu", 0)), 0),
        (SEEN, (("nvidia.com/gpu", 4),), 4),
        (None, (("nvidia.com/gpu", 4),), 4),
        (None, None, 0),
    ],
)
def test_the_gpus_are_those_that_a_pod_can_get(forest, allocatable, gpus):
    assert join(forest, stated("a", allocatable=allocatable)).gpus == gpus


def test_a_node_that_only_the_cluster_knows_has_no_place_and_the_type_of_its_label():
    labels = (("nvidia.com/gpu.product", "H100"), ("zone", "1"))
    host = join(None, stated("x", labels=labels, allocatable=(("nvidia.com/gpu", 8),)))
    assert (host.path, host.tiers, host.gpu_type) == ((), (), "H100")
    assert dict(host.labels) == {"kubernetes.io/hostname": "x", **dict(labels)}


def test_labels_are_the_clusters_but_for_those_of_the_place():
    labels = (("metax-tech.com/dragonfly", "old"), ("metax-tech.com/gpu.product", "c500"))
    found = dict(join(SEEN, stated("a", labels=labels)).labels)
    assert found["metax-tech.com/dragonfly"] == "d1"
    assert found["metax-tech.com/gpu.product"] == "c500"


def test_a_usage_pool_has_the_penalty_that_the_policy_gives_it():
    policy = Policy(pool_penalties=(("spare", 3),))
    assert join(replace(SEEN, penalty=1), stated("a", pool="spare"), policy).penalty == 4
    assert join(SEEN, stated("a", pool="hybrid"), policy).penalty == 0


def test_a_node_without_a_worker_is_as_open_as_the_cluster_says():
    lack = Reason(NodeCondition.NO_WORKER, "no worker has reported")
    waiting = Node(NodeName("x"), Status.NOT_READY, (lack,))
    forest = Forest(unplaced=(Unplaced(waiting, lack),))
    for ready in (True, False):
        facts = stated("x", ready=ready, unschedulable=False, allocatable=(("nvidia.com/gpu", 8),))
        host = hosts_of(forest, {NodeName("x"): facts})[NodeName("x")]
        assert (host.is_open, host.gpus, host.path) == (ready, 8, ())


NAMES = [NodeName(f"n{number}") for number in range(5)]
NODES = st.builds(
    lambda name, gpus, ready: node(name, gpus, ready=ready),
    st.sampled_from(NAMES),
    st.sampled_from([0, 4, 8]),
    st.booleans(),
)


def test_groups_with_generated_names_are_counted_in_the_order_of_the_tree() -> None:
    """So the first group of a plan is that of node-1; it moves when the smallest member does."""
    later = replace(dragonfly("d-0", node("n3"), node("n4")), place="n3")
    first = replace(dragonfly("d-9", node("n1"), node("n2")), place="n1")
    capacity = Capacity()
    follower = HostFollower(capacity)
    follower.follow(Forest(roots=(first, later)))
    assert [host.name for host in capacity.hosts()] == ["n1", "n2", "n3", "n4"]
    grown = replace(later, children=(node("n0"), *later.children), place="n0")
    follower.follow(Forest(roots=(grown, first)))
    assert [host.name for host in capacity.hosts()] == ["n0", "n3", "n4", "n1", "n2"]


PLACES = st.sampled_from([("s1", "d1"), ("s1", "d2"), ("s2", "d3"), ("s1",), ()])
FORESTS = st.dictionaries(st.sampled_from(NAMES), st.tuples(PLACES, NODES))
STATED = st.builds(
    ClusterNode,
    name=st.sampled_from(NAMES),
    labels=st.sampled_from([(), (("zone", "1"),), (("metax-tech.com/dragonfly", "d2"),)]),
    taints=st.sampled_from(
        [
            (),
            (Taint("team"),),
            (Taint("node.kubernetes.io/not-ready"),),
            (Taint("metax-tech.com/node.usage", "hybrid"),),
        ]
    ),
    unschedulable=st.booleans(),
    ready=st.booleans(),
    allocatable=st.sampled_from([None, (), (("metax-tech.com/gpu", 8),), (("cpu", 1),)]),
    pool=st.sampled_from(["", "hybrid", "inference"]),
    shared=st.sampled_from([(), (), (("metax-tech.com/sgpu", 8),)]),
)


def forest_of(drawn: dict[NodeName, tuple[tuple[str, ...], Node]]) -> Forest:
    """Each node at its place; those without one unplaced. Nobody named d1 and d3."""
    boxes: dict[str, dict[str, list[Node]]] = {}
    unplaced = []
    for name in sorted(drawn):
        place, found = drawn[name][0], replace(drawn[name][1], name=name)
        if place:
            box = boxes.setdefault(place[0], {})
            box.setdefault(place[1] if len(place) > 1 else "", []).append(found)
        else:
            unplaced.append(Unplaced(found, Reason("alone", "nobody knows it")))
    roots = [
        switchbox(box, *(standing(fly, *flies[fly]) for fly in sorted(flies) if fly),
                  *flies.get("", ()))
        for box, flies in sorted(boxes.items())
    ]  # fmt: skip
    return Forest(roots=tuple(roots), unplaced=tuple(unplaced))


def standing(name: str, *nodes: Node) -> Group:
    """A dragonfly that stands where its smallest member would, if its name was generated."""
    made = dragonfly(name, *nodes)
    return made if name == "d2" else replace(made, place=min(each.name for each in nodes))


def kept_in(after: Forest, before: Forest) -> Forest:
    """The same forest, equal subtrees being the objects of the one before, as discovery does."""
    known = {found: found for _, found in before.walk()}
    roots = tuple(
        found for root in after.roots if isinstance(found := known.get(root, root), Group)
    )
    return replace(after, roots=roots)


class TwoDoors(RuleBasedStateMachine):
    """A capacity that follows a forest and a cluster, in any order, beside what both say now."""

    def __init__(self) -> None:
        super().__init__()
        self.capacity = Capacity()
        self.follower = HostFollower(self.capacity)
        self.forest = Forest()
        self.cluster: dict[NodeName, ClusterNode] = {}
        self.capacity.slots(Eligibility(selector=(("zone", "1"),)), "MXC500", 8)

    @rule(drawn=FORESTS)
    def forest_changes(self, drawn: dict[NodeName, tuple[tuple[str, ...], Node]]) -> None:
        self.forest = kept_in(forest_of(drawn), self.forest)
        self.follower.follow(self.forest)

    @rule(nodes=st.lists(STATED, max_size=3), gone=st.lists(st.sampled_from(NAMES), max_size=2))
    def cluster_changes(self, nodes: list[ClusterNode], gone: list[NodeName]) -> None:
        for name in gone:
            self.cluster.pop(name, None)
        self.cluster |= {each.name: each for each in nodes}
        before = followed(self.capacity)
        changed = self.follower.follow_cluster(nodes, gone)
        after = followed(self.capacity)
        assert {n for n in before | after if before.get(n) != after.get(n)} == set(changed)

    @rule(name=st.sampled_from(NAMES))
    def recount_mends(self, name: NodeName) -> None:
        self.capacity.remove(name)
        forest, cluster = self.follower.forest, self.follower.cluster
        found = host_differences(self.capacity, forest, cluster)
        assert {each.node for each in found} <= {name}
        self.follower.restore([each.node for each in found])
        assert self.capacity.recount() == ()

    @rule(name=st.sampled_from(NAMES))
    def what_if_assumes(self, name: NodeName) -> None:
        if self.capacity.host(name) is None:
            return
        for assume in ("free", "down", "drain"):
            copy = apply_assumptions(self.capacity, Assumptions(**{assume: (name,)}))
            assert isinstance(copy, CapacityView)
            host = copy.host(name)
            assert host is not None
            assert host.is_open is (assume == "free")
            assert joined(*host.forest_and_cluster, Policy()) == host

    @invariant()
    def it_is_as_built_from_nothing(self) -> None:
        assert followed(self.capacity) == hosts_of(self.forest, self.cluster)
        fresh = Capacity()
        for host in self.capacity.hosts():
            fresh.upsert(host)
        assert [*fresh.hosts()] == [*self.capacity.hosts()], "in the same order"
        for wish in (
            Eligibility(),
            Eligibility(selector=(("zone", "1"),)),
            Eligibility(usage="training"),
        ):
            for gpu_type in ("MXC500", ""):
                kept, new = (c.slots(wish, gpu_type, 8) for c in (self.capacity, fresh))
                assert kept.free.tolist() == new.free.tolist()


TestTwoDoors = TwoDoors.TestCase
TestTwoDoors.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
