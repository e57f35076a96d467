"""A pod without a group gets the node on which its GPUs are linked best."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.gangs.jobs import dragonflies
from tests.gangs.test_evicting import asked
from topo.gangs.decisions.place import answer_place
from topo.gangs.decisions.placed import Placed
from topo.gangs.machine.events import Refused
from topo.gangs.machine.instructions import Place
from topo.model.ids import NodeName
from topo.placement.job.request import Eligibility, Request

NODES = [NodeName(f"n1-{fly}-{node}") for fly in (1, 2, 3) for node in (1, 2)]

ANY = Eligibility()


def lone(gpus: int, eligible: Eligibility = ANY) -> Place:
    """A pod of so many GPUs."""
    request = Request(pods=1, gpus_per_pod=gpus, group_size=gpus, eligible=eligible)
    return replace(asked(1, request=request), over=None)


WORTH = st.lists(st.integers(-3, 3), min_size=len(NODES), max_size=len(NODES))
TAKEN = st.lists(st.integers(0, 8), min_size=len(NODES), max_size=len(NODES))
OUT = st.sets(st.sampled_from(NODES))


@given(WORTH, TAKEN, OUT, st.integers(1, 8))
def test_no_node_with_room_that_it_may_use_is_worth_more(
    worths: list[int], taken: list[int], out: set[NodeName], gpus: int
) -> None:
    capacity, worth = dragonflies(3), dict(zip(NODES, worths, strict=True))
    used = {node: number for node, number in zip(NODES, taken, strict=True) if number}
    capacity.book("others", used)
    able = [node for node in NODES if 8 - used.get(node, 0) >= gpus and node not in out]
    question = lone(gpus, Eligibility(exclude=frozenset(out)))
    found = answer_place(capacity, question, (), worth=worth.__getitem__)
    if not able:
        assert isinstance(found, Refused)
        return
    assert isinstance(found, Placed)
    ((node,), most) = (found.nodes, max(worth[node] for node in able))
    assert node in able
    assert worth[node] == most


def test_of_nodes_of_equal_worth_the_one_that_leaves_the_largest_groups_is_taken() -> None:
    capacity = dragonflies(3)
    capacity.book("other", {NODES[3]: 8})
    found = answer_place(capacity, lone(8), (), worth=lambda _: 0.0)
    assert isinstance(found, Placed)
    assert found.nodes == (NODES[2],), "the rest of the dragonfly that is broken"


def test_what_is_kept_for_another_gang_is_not_taken_for_its_worth() -> None:
    capacity, best = dragonflies(3), NODES[0]
    question = replace(lone(8), without=(best,))
    found = answer_place(capacity, question, (), worth=lambda node: float(node == best))
    assert isinstance(found, Placed)
    assert found.nodes != (best,)
