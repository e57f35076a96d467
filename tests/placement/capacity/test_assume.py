from dataclasses import replace

import pytest

from tests.support.capacity import capacity_of, host, state
from topo.model.cluster import Taint
from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import Host
from topo.placement.capacity.what_if import Assumptions, apply_assumptions


def member(name: str, dragonfly: str = "d1") -> Host:
    return host(name, ("s1", dragonfly), gpu_type="C550")


def one_dragonfly(nodes: int = 4) -> Capacity:
    """Nodes node-1, node-2, … of one dragonfly."""
    return capacity_of(member(f"node-{number}") for number in range(1, nodes + 1))


def nodes(*names: str) -> tuple[NodeName, ...]:
    return tuple(NodeName(name) for name in names)


def held(capacity: CapacityView, name: str) -> Host:
    found = capacity.host(NodeName(name))
    assert found is not None
    return found


def test_a_node_assumed_free_loses_its_bookings_and_opens_while_owners_keep_the_rest():
    capacity = one_dragonfly()
    capacity.upsert(replace(member("node-1"), ready=False, cordoned=True))
    capacity.book("job", {NodeName("node-1"): 8, NodeName("node-2"): 4})
    before = state(capacity)
    copy = apply_assumptions(capacity, Assumptions(free=nodes("node-1")))
    assert isinstance(copy, CapacityView)
    assert held(copy, "node-1").is_open
    assert copy.free(NodeName("node-1")) == 8
    assert dict(copy.bookings()["job"]) == {"node-2": 4}
    assert state(capacity) == before


def test_a_node_assumed_free_sheds_the_taints_of_its_trouble_and_keeps_its_own():
    capacity = one_dragonfly(1)
    taints = (Taint("node.kubernetes.io/unschedulable"), Taint("team", "a"))
    capacity.upsert(replace(member("node-1"), cordoned=True, taints=taints))
    copy = apply_assumptions(capacity, Assumptions(free=nodes("node-1")))
    assert isinstance(copy, CapacityView)
    assert held(copy, "node-1").taints == (Taint("team", "a"),)


def test_a_drained_node_takes_nothing_new_and_what_runs_there_stays():
    capacity = one_dragonfly()
    capacity.book("job", {NodeName("node-3"): 2})
    copy = apply_assumptions(capacity, Assumptions(drain=nodes("node-3")))
    assert isinstance(copy, CapacityView)
    assert not held(copy, "node-3").is_open
    assert held(copy, "node-3").ready
    assert copy.used(NodeName("node-3")) == 2


def test_a_node_assumed_down_is_not_ready():
    capacity = one_dragonfly()
    copy = apply_assumptions(capacity, Assumptions(down=nodes("node-4", "node-4")))
    assert isinstance(copy, CapacityView)
    assert not held(copy, "node-4").ready
    assert held(capacity, "node-4").ready


@pytest.mark.parametrize(
    ("asked", "near"), [("node-12x", "node-12"), ("nod-7", "node-7"), ("mode-3", "node-3")]
)
def test_an_unknown_node_is_refused_with_its_field_and_the_nearest_name(asked, near):
    refusal = apply_assumptions(one_dragonfly(40), Assumptions(down=nodes(asked)))
    assert isinstance(refusal, Refusal)
    assert refusal.where == "assume.down"
    assert asked in refusal.what
    assert refusal.fix == f"did you mean {near}?"


def test_a_name_like_no_other_is_answered_with_names_that_exist():
    refusal = apply_assumptions(one_dragonfly(9), Assumptions(free=nodes("x" * 5_000)))
    assert isinstance(refusal, Refusal)
    assert refusal.fix == "nodes are called node-1, node-2, node-3, node-4 and 5 more"
    assert len(refusal.what) < 100


def test_without_nodes_the_refusal_says_that_none_is_known():
    refusal = apply_assumptions(Capacity(), Assumptions(free=nodes("node-1")))
    assert isinstance(refusal, Refusal)
    assert "no node is known yet" in refusal.fix


@pytest.mark.parametrize(
    ("assumptions", "what", "where"),
    [
        (
            Assumptions(free=nodes("node-1"), down=nodes("node-2", "node-1")),
            "node node-1 is assumed to be both free and down",
            "assume.down",
        ),
        (
            Assumptions(down=nodes("node-3"), drain=nodes("node-3")),
            "node node-3 is assumed to be both down and drain",
            "assume.drain",
        ),
    ],
)
def test_a_node_cannot_be_two_things(assumptions, what, where):
    refusal = apply_assumptions(one_dragonfly(), assumptions)
    assert isinstance(refusal, Refusal)
    assert (refusal.what, refusal.where) == (what, where)


def test_no_assumption_gives_the_capacity_itself():
    capacity = one_dragonfly()
    capacity.book("job", {NodeName("node-1"): 8})
    assert apply_assumptions(capacity, Assumptions()) is capacity
