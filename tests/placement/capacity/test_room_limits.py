"""Nodes take as many pods as all of their resources do, however they came to what they have."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.capacity import capacity_of, host
from topo.model.errors import BrokenInvariantError
from topo.model.ids import NodeName
from topo.model.pod_requests import Amounts
from topo.placement.capacity import node_room
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import Host
from topo.placement.capacity.node_room import NodeRoom
from topo.placement.capacity.pod_room import PodRoom
from topo.placement.job.request import Eligibility

IDLE = {"cpu": 16_000, "pods": 8_000}
GPU_TYPE = "C550"
ANY = Eligibility(gpu_type=GPU_TYPE)
N1 = NodeName("n1")
NAMES = [f"n{number}" for number in range(1, 7)]


def member(name: str, **more: Any) -> Host:
    """A host of the dragonfly of two that its number says."""
    dragonfly = f"d{(int(name[1:]) + 1) // 2}"
    return host(name, ("s1", dragonfly), gpu_type=GPU_TYPE, **more)


def slots_by_node(view: CapacityView, gpus: int) -> dict[NodeName, int]:
    """The slots of each node that has any, which add up to those of the domains."""
    slots = view.slots(ANY, GPU_TYPE, gpus)
    found, _ = view.slots_per_node(range(len(view.layout().domains)), slots)
    assert sum(pods for _, pods in found) == slots.total == int(slots.free.sum())
    return dict(found)


names = st.sampled_from(NAMES)
amounts = st.sampled_from([(("cpu", 4_000),), (("cpu", 9_000), ("pods", 1_000)), (("nic", 1_000),)])
changes = st.one_of(
    st.tuples(st.just("host"), names, st.booleans(), st.sampled_from((4, 8))),
    st.tuples(st.just("no host"), names),
    st.tuples(st.just("book"), st.sampled_from("ab"), names, st.integers(1, 8)),
    st.tuples(st.just("release"), st.sampled_from("ab")),
    st.tuples(st.just("node"), names, st.sampled_from((8_000, 16_000))),
    st.tuples(st.just("no node"), names),
    st.tuples(st.just("pod"), st.sampled_from("xyz"), names, amounts),
    st.tuples(st.just("no pod"), st.sampled_from("xyz")),
)


def change(capacity: Capacity, room: NodeRoom, kind: str, *rest: Any) -> None:
    """Let one thing happen."""
    if kind == "host":
        capacity.upsert(member(rest[0], cordoned=rest[1], gpus=rest[2]))
    elif kind == "no host":
        capacity.remove(NodeName(rest[0]))
    elif kind == "book":
        capacity.book(rest[0], {NodeName(rest[1]): rest[2]})
    elif kind == "release":
        capacity.release(rest[0])
    elif kind == "node":
        room.set_node(NodeName(rest[0]), IDLE | {"cpu": rest[1]}, 8)
    elif kind == "no node":
        room.remove_node(NodeName(rest[0]))
    elif kind == "pod":
        room.set_pod(rest[0], NodeName(rest[1]), rest[2])
    else:
        room.remove_pod(rest[0])


@settings(max_examples=150)
@given(
    st.lists(changes, max_size=30),
    amounts,
    st.sampled_from((1, 4, 8)),
    st.sampled_from(["", "x", "y"]),
    st.lists(st.tuples(names, amounts), max_size=2),
)
def test_a_node_takes_what_its_gpus_and_its_other_resources_take(
    steps: list[Any], takes: Amounts, gpus: int, own: str, held: list[Any]
) -> None:
    """After each step, for the pods of one question: own pods are gone, held ones are there."""
    capacity, room = capacity_of(map(member, NAMES)), NodeRoom()
    capacity.limit_by(room)
    question = PodRoom(room, takes, gpus, (own,), [(NodeName(n), t, 1) for n, t in held])
    for step in ((), *steps):
        if step:
            change(capacity, room, *step)
        free = slots_by_node(capacity, gpus)
        tight = question.tight()
        limited = {n: min(pods, tight[n].pods) if n in tight else pods for n, pods in free.items()}
        wanted = {name: pods for name, pods in limited.items() if pods}
        assert slots_by_node(question.limited(capacity), gpus) == wanted
        some = capacity.with_changes(taken={"what if": {N1: 3}})
        assumed = slots_by_node(some, gpus)
        if N1 in wanted:
            wanted[N1] = min(wanted[N1], assumed.get(N1, 0))
        wanted = {name: pods for name, pods in wanted.items() if pods}
        assert slots_by_node(question.limited(some), gpus) == wanted
        assert capacity.recount() == ()
        assert slots_by_node(capacity, gpus) == free, "a question leaves nothing behind"


def test_who_looked_before_the_changes_that_are_kept_counts_all_nodes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node_room, "CHANGES", 2)
    capacity, room = capacity_of(map(member, NAMES)), NodeRoom()
    capacity.limit_by(room)
    for name in NAMES:
        room.set_node(NodeName(name), IDLE, 8)
    question = PodRoom(room, (("cpu", 9_000),), 4)
    assert slots_by_node(question.limited(capacity), 4) == dict.fromkeys(NAMES, 1)
    for number, name in enumerate(NAMES):
        room.set_pod(number, NodeName(name), (("cpu", 8_000),))
    assert slots_by_node(question.limited(capacity), 4) == {}
    for number, _ in enumerate(NAMES):
        room.remove_pod(number)
    assert slots_by_node(question.limited(capacity), 4) == dict.fromkeys(NAMES, 1)


def test_what_nodes_have_beside_gpus_is_not_guessed() -> None:
    """A copy for another thread does not follow the room."""
    capacity, room = capacity_of(map(member, NAMES)), NodeRoom()
    capacity.limit_by(room)
    view = PodRoom(room, (("cpu", 1_000),), 8).limited(capacity.copy())
    with pytest.raises(BrokenInvariantError, match="beside GPUs is not known here"):
        view.slots(ANY, GPU_TYPE, 8)
