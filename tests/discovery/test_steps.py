"""Each step of a generation alone: what goes in, what comes out, what it leaves untouched."""

from collections.abc import Callable

import pytest

from tests.builders import discovery, facts, managed, report, ring
from topo.discovery.groups.membership import Membership
from topo.discovery.groups.tiers import Position, position, tiers_of
from topo.discovery.modes import DiscoverySettings, Mode
from topo.discovery.node.record import NodeRecord
from topo.discovery.node.workers import Workers
from topo.discovery.sources import SOURCES, SourceStates
from topo.discovery.state import Discovery
from topo.discovery.tree.conflicts import ConflictList, Topic
from topo.discovery.tree.node_status import NO_WORKER, judge_reported
from topo.discovery.tree.placed import PlacedNodes
from topo.model.conditions.tree import ConflictCondition
from topo.model.errors import BrokenInvariantError
from topo.model.forest import Conflict, Node, PathGroup, Reason, Status
from topo.model.ids import DRAGONFLY, GroupName, NodeName
from topo.model.observation import (
    CLUSTER_MANAGER,
    WORKERS,
    ManagerReported,
    SourceFailed,
    WorkerRefused,
)

SETTINGS = DiscoverySettings(Mode.SWITCHBOX, stale_beats=3, beat_s=10.0, forget_s=100.0)
A, B, C = NodeName("a"), NodeName("b"), NodeName("c")
SWITCHBOXES = tiers_of(Mode.SWITCHBOX, (CLUSTER_MANAGER,))


def record(node: str, *peers: str) -> NodeRecord:
    """A node whose worker has spoken once, at second 0."""
    stated = facts(node, peers)
    made = NodeRecord.first(stated, SETTINGS, 0.0)
    made.take(stated, SETTINGS)
    return made


def group(name: str) -> PathGroup:
    """A group on a path."""
    return PathGroup(DRAGONFLY, name, GroupName(name), WORKERS)


def well(node: NodeName) -> Node:
    """A Ready node."""
    return Node(node, Status.READY)


def wired(*records: NodeRecord) -> Membership:
    """The indices after these nodes have spoken and the links were settled."""
    membership = Membership(SETTINGS)
    for one in records:
        membership.update(one)
    membership.wiring.settle(0.0)
    membership.begin_generation()
    return membership


def test_settled_machines_move_all_reporters_after_a_list_and_only_the_wired_after_a_join():
    """Nothing to settle moves nobody, and says that no list needs to be made again."""
    membership = wired(record("a", "b"), record("b", "a"), record("c"))
    assert membership.settle_machines([A, B, C]) is None
    membership.machines.replace(managed({"box": ["a", "late"]}), 0.0)
    assert membership.settle_machines([A, B, C]) == {A, B, C}
    membership.update(record("late"))
    membership.wiring.settle(1.0)
    assert membership.settle_machines([A, B, C]) == {"late"}
    assert membership.settle_machines([A, B, C]) is None


def test_a_position_is_the_path_of_all_tiers_and_the_reason_of_the_missing_one():
    """The manager's tier alone, then both."""
    membership = wired(record("a", "b"), record("b", "a"), record("c"))
    membership.machines.replace(managed({"box": ["a", "b", "c"]}), 0.0)
    membership.settle_machines([])
    both = position(membership, SWITCHBOXES, A)
    assert [g.kind for g in both.path] == ["switchbox", "dragonfly"]
    assert both.missing is None
    alone = position(membership, SWITCHBOXES, C)
    assert [g.kind for g in alone.path] == ["switchbox"]
    assert alone.missing == Reason("no-peer", "its worker sees no peer")


def test_placing_and_showing_leave_what_they_do_not_touch_the_same_object():
    """Groups beside the change, and the list of the unplaced."""
    placed = PlacedNodes()
    for node, path in ((A, (group("f1"),)), (B, (group("f2"),)), (C, ())):
        placed.place(node, Position(path, None if path else NO_WORKER))
        placed.show(well(node))
    (one, two), unplaced = placed.build(), placed.unplaced
    assert [entry.node.name for entry in unplaced] == [C]
    placed.show(Node(A, Status.NOT_READY, (Reason("gpu-unhealthy", "GPU 0"),)))
    again = placed.build()
    assert again[0] != one
    assert again[1] is two
    assert placed.unplaced is unplaced
    placed.remove(C)
    assert placed.unplaced == ()


def test_a_missing_tier_counts_for_a_node_in_the_tree_only():
    """An unplaced node's reason stands in its own list."""
    placed = PlacedNodes()
    why = Reason("no-peer", "alone")
    placed.place(A, Position((group("box"),), why))
    placed.place(B, Position((), why))
    assert placed.missing_tier(A) == why
    assert placed.missing_tier(B) is None


def test_a_judged_node_lists_silence_the_manager_the_tier_and_its_hardware_in_this_order():
    """Each reason once."""
    membership = wired(record("a", "b"), record("b", "a"))
    node = record("a", "b")
    assert (
        judge_reported(membership, SETTINGS, node, missing_tier=None, expected_gpus=0).status
        is Status.READY
    )
    node.stale = True
    for _ in range(2):
        node.take(facts("a", sick=[3]), SETTINGS)
    alone = Reason("no-peer", "alone")
    found = judge_reported(membership, SETTINGS, node, missing_tier=alone, expected_gpus=9).reasons
    assert [reason.code for reason in found] == [
        "worker-stale",
        "no-peer",
        "gpu-unhealthy",
        "link-down",
        "gpus-fewer",
    ]
    assert "the link to b is down" in found[-2].text


def test_conflicts_are_put_in_order_once_per_change():
    """The same object while nobody has anything else to say."""
    listed, wiring = ConflictList(), Membership(SETTINGS).wiring
    late, early = Conflict("z", ("a",), "late"), Conflict("b", ("a",), "early")
    listed.set_node(A, (late,))
    listed.put(Topic.MACHINES, (early,))
    first = listed.listed(wiring)
    assert [conflict.code for conflict in first] == ["b", "z"]
    listed.set_node(A, (late,))
    assert listed.listed(wiring) is first
    listed.refuse(WorkerRefused(B, ConflictCondition.DUPLICATE_WORKER, "two of them"), 5.0)
    assert len(listed.listed(wiring)) == 3
    listed.expire(5.0)
    assert len(listed.listed(wiring)) == 3, "as old as the limit is not too old"
    listed.expire(5.1)
    assert listed.listed(wiring) == first


def test_silence_is_stale_after_three_beats_and_long_after_a_day_each_told_once():
    """A word in between starts the count again."""
    workers = Workers(SETTINGS)
    one, other = record("a"), record("b")
    workers.add(one)
    workers.add(other)
    assert not workers.note_report(other, 10.0)
    assert [r.name for r in workers.mark_stale(30.0)] == [A]
    assert list(workers.mark_stale(30.0)) == []
    assert workers.note_report(one, 31.0)
    assert [r.name for r in workers.mark_stale(41.0)] == [B]
    assert list(workers.take_long_silent(140.0)) == []
    assert list(workers.take_long_silent(141.0)) == [B]
    assert list(workers.take_long_silent(141.0)) == []


def test_a_failing_source_keeps_its_last_good_time_and_its_first_failure():
    """What the mode needs has answered when all of it has."""
    states = SourceStates(SOURCES, Mode.SWITCHBOX)
    assert [state.source for state in states.all] == [WORKERS, CLUSTER_MANAGER]
    states.note_answer(WORKERS)
    states.settle(1.0)
    complete = [states.needed_have_answered]
    states.note_answer(CLUSTER_MANAGER)
    states.settle(2.0)
    assert [*complete, states.needed_have_answered] == [False, True]
    for now_s in (3.0, 4.0):
        states.note_failure(SourceFailed(CLUSTER_MANAGER, "500"), now_s)
    (_, manager) = states.all
    assert (manager.last_good_at_s, manager.failing_since_s) == (2.0, 3.0)
    assert manager.trouble == "500"


def _lose_a_link(state: Discovery) -> None:
    del state._membership.wiring._links[A][B]


def _forget_a_join(state: Discovery) -> None:
    state._membership.machines._joined.popitem()


def _lose_a_node(state: Discovery) -> None:
    state._placed.remove(A)


def _make_up_a_conflict(state: Discovery) -> None:
    state._conflicts.set_node(A, (Conflict("made-up", ("a",), "nobody found it"),))


def _judge_of_old(state: Discovery) -> None:
    state._placed.show(Node(A, Status.NOT_READY, (Reason("gpu-unhealthy", "long ago"),)))


def _lose_silence(state: Discovery) -> None:
    state._workers._fresh.popitem()


@pytest.mark.parametrize(
    "damage",
    [
        _lose_a_link,
        _forget_a_join,
        _lose_a_node,
        _make_up_a_conflict,
        _judge_of_old,
        _lose_silence,
    ],
)
def test_validate_finds_every_index_that_is_out_of_date(damage: Callable[[Discovery], None]):
    """A sound state passes; each damage alone is found."""
    state = discovery(Mode.SWITCHBOX)
    state.advance(
        0.0, ManagerReported(managed({"box": ["a", "b"]})), *ring(["a", "b"]), report("c")
    )
    state.validate()
    damage(state)
    with pytest.raises(BrokenInvariantError):
        state.validate()
