"""The order of groups is one that a reader expects."""

from tests.builders import (
    discovery,
    fabric_facts,
    managed,
    ring,
)
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.model.forest import Group, Node
from topo.model.observation import (
    ManagerReported,
    WorkerReported,
)


def _order(state: Discovery) -> list[list[str]]:
    """The members of the innermost groups, in the order of the tree."""
    return [
        [child.name for child in group.children]
        for _, group in state.snapshot.forest.walk()
        if isinstance(group, Group) and all(isinstance(child, Node) for child in group.children)
    ]


def test_groups_with_generated_names_stand_in_the_order_of_their_smallest_members():
    """A hash is no order to a reader: node-1 comes before node-3, and node-2 before node-10."""
    state = discovery(Mode.DRAGONFLY)
    pairs = [[f"node-{n}", f"node-{n + 1}"] for n in range(1, 24, 2)]
    for pair in reversed(pairs):
        state.advance(1.0, *ring(pair))
    assert _order(state) == pairs
    state.validate()


def test_a_generated_group_moves_when_its_smallest_member_does():
    state = discovery(Mode.DRAGONFLY)
    state.advance(0.0, *ring(["b", "d"]), *ring(["c", "e"]))
    assert _order(state) == [["b", "d"], ["c", "e"]]
    state.advance(1.0, *ring(["a", "c", "e"]))
    state.validate()
    assert _order(state) == [["a", "c", "e"], ["b", "d"]]


def test_names_that_somebody_gave_are_ordered_by_themselves():
    """The manager's switchboxes keep their order, whatever nodes stand in them."""
    state = discovery(Mode.SWITCHBOX)
    boxes = {"box-2": ["n1", "n2", "n5", "n6"], "box-10": ["n0", "n9"], "box-1": ["n7", "n8"]}
    state.advance(0.0, ManagerReported(managed(boxes)))
    for pair in (["n5", "n6"], ["n1", "n2"], ["n0", "n9"], ["n7", "n8"]):
        state.advance(1.0, *ring(pair))
    assert [root.name for root in state.snapshot.forest.roots] == ["box-1", "box-2", "box-10"]
    assert _order(state) == [["n7", "n8"], ["n1", "n2"], ["n5", "n6"], ["n0", "n9"]]


def test_nvlink_domains_stand_in_the_order_of_their_smallest_members():
    state = discovery(Mode.NVLINK)
    for number in (9, 4, 1, 7):
        state.advance(1.0, WorkerReported(fabric_facts(f"node-{number}", f"c-{number % 5}")))
    assert _order(state) == [["node-1"], ["node-4", "node-9"], ["node-7"]]
