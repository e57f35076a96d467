"""What becomes of gangs, in the vendor's shape: dragonflies of two nodes of eight GPUs."""

import pytest

from tests.gangs.jobs import dragonflies, job
from tests.gangs.leader import Leader
from tests.gangs.schedulers import scheduled
from tests.gangs.world import Cluster
from topo.gangs.machine.gang import Binding, GangId, Note
from topo.gangs.machine.instructions import Nominate, Open, OpenUnplanned, Place
from topo.gangs.machine.pending_queue import QueueOrder
from topo.gangs.machine.settings import GangSettings
from topo.model.conditions.gang_states import GangState
from topo.model.ids import NodeName

A, B, C = GangId("a"), GangId("b"), GangId("c")
N1, N2, N3 = NodeName("n1-1-1"), NodeName("n1-1-2"), NodeName("n1-2-1")


def led(*boxes: int, order: QueueOrder = QueueOrder.RESERVE) -> tuple[Cluster, Leader]:
    cluster = Cluster(dragonflies(*boxes))
    return cluster, Leader.over(cluster, GangSettings(order=order))


def reason(leader: Leader, gang_id: GangId) -> GangState:
    found = leader.gangs.status(gang_id)
    assert found is not None
    return found.state


def test_the_sample_of_eight_pods_gets_whole_dragonflies_in_the_order_of_ranks() -> None:
    cluster, leader = led(4, 4)
    cluster.submit(job("a", 8, 16))
    leader.settle()
    assert [len(homes) for homes in cluster.groups(A).values()] == [1, 1, 1, 1]
    assert reason(leader, A) is GangState.BOUND


def test_a_group_of_64_gpus_stays_inside_one_switchbox() -> None:
    cluster, leader = led(2, 4, 2)
    cluster.submit(job("a", 8, 64))
    leader.settle()
    assert {node.split("-")[0] for node in cluster.bound(A).values()} == {"n2"}


def test_all_is_nominated_before_any_gate_is_opened() -> None:
    cluster, leader = led(4)
    cluster.submit(job("a", 8))
    leader.settle()
    kinds = [type(each) for each in leader.given if isinstance(each, Nominate | Open)]
    assert kinds == [Nominate] * 8 + [Open] * 8


def test_a_gang_waits_for_all_of_its_pods_and_for_its_queue() -> None:
    cluster, leader = led(4)
    asked = job("a", 4, awaits="queue q1 has 8 of 32 GPUs left")
    cluster.submit(asked)
    last = cluster.uids(A)[-1]
    cluster.delete(last)
    leader.settle()
    assert reason(leader, A) is GangState.QUEUE
    asked.awaits = ""
    leader.settle()
    assert reason(leader, A) is GangState.PODS_MISSING
    cluster.create(A, 3)
    leader.settle()
    assert reason(leader, A) is GangState.BOUND


def test_what_does_not_fit_stays_gated_and_is_placed_when_there_is_room() -> None:
    cluster, leader = led(2)
    cluster.intrude("f", N1)
    cluster.submit(job("a", 4))
    leader.settle()
    assert reason(leader, A) is GangState.NO_ROOM
    asks = sum(isinstance(each, Place) for each in leader.given)
    leader.now_s += 1e6
    leader.settle()
    assert sum(isinstance(each, Place) for each in leader.given) == asks, "never by time alone"
    cluster.leave("f")
    leader.settle()
    assert reason(leader, A) is GangState.BOUND


def test_after_its_wait_a_group_may_be_split() -> None:
    cluster, leader = led(2)
    cluster.intrude("f", N1)
    cluster.intrude("g", N3)
    cluster.submit(job("a", 2, wait_s=600.0))
    leader.settle()
    assert reason(leader, A) is GangState.NO_ROOM
    assert leader.gangs.next_s is not None
    assert leader.gangs.next_s <= 600.0
    leader.now_s = 600.0
    leader.settle()
    assert len(cluster.bound(A)) == 2


def test_the_head_is_not_delayed_by_smaller_gangs_behind_it() -> None:
    for order, first in ((QueueOrder.RESERVE, A), (QueueOrder.GREEDY, B), (QueueOrder.FIFO, A)):
        cluster, leader = led(2, order=order)
        cluster.intrude("f", N1)
        cluster.submit(job("a", 4, created_s=1.0))
        leader.settle()
        cluster.submit(job("b", 2, created_s=2.0))
        leader.settle()
        assert bool(cluster.bound(B)) == (first is B)
        if first is A:
            assert reason(leader, B) is GangState.BEHIND
        cluster.leave("f")
        leader.settle()
        assert bool(cluster.bound(A)) == (first is A)


def test_a_gang_before_the_head_has_what_is_kept_though_others_that_ask_the_same_have_not() -> None:
    cluster, leader = led(2)
    cluster.intrude("f", N1)
    cluster.submit(job("a", 4, created_s=1.0))
    cluster.submit(job("b", 2, created_s=2.0))
    leader.settle()
    assert reason(leader, B) is GangState.BEHIND
    cluster.submit(job("c", 2, created_s=3.0, priority=5))
    leader.settle()
    assert len(cluster.bound(C)) == 2
    assert reason(leader, A) is GangState.NO_ROOM


def test_a_gang_that_comes_before_the_head_is_the_head_though_others_were_refused_the_same() -> (
    None
):
    cluster, leader = led(2, 1)
    for number, node in enumerate((N1, N3, NodeName("n2-1-1"))):
        cluster.intrude(f"f{number}", node)
    cluster.submit(job("a", 4, created_s=1.0))
    cluster.submit(job("b", 2, created_s=2.0))
    leader.settle()
    cluster.submit(job("c", 2, created_s=3.0, priority=5))
    leader.settle()
    assert leader.gangs.state().head == C


def test_small_gangs_go_where_they_do_not_delay_the_head() -> None:
    cluster, leader = led(2, 1)
    cluster.intrude("f", N1)
    cluster.submit(job("a", 4, 32, created_s=1.0))
    cluster.submit(job("b", 2, created_s=2.0))
    leader.settle()
    assert {node.split("-")[0] for node in cluster.bound(B).values()} == {"n2"}
    cluster.leave("f")
    leader.settle()
    assert len(cluster.bound(A)) == 4


def test_a_gang_that_never_fits_holds_up_nobody() -> None:
    for order in QueueOrder:
        cluster, leader = led(2, order=order)
        cluster.submit(job("a", 6, created_s=1.0))
        cluster.submit(job("b", 2, created_s=2.0))
        leader.settle()
        assert reason(leader, B) is GangState.BOUND, order


def test_a_lost_node_is_replaced_in_the_same_domain_without_a_pod_deleted() -> None:
    cluster = Cluster(dragonflies(2, 2))
    leader = Leader.over(cluster)
    cluster.submit(job("a", 3, 32))
    uids = cluster.uids(A)
    leader.settle(schedule=False)
    assert all(member.opened for member in cluster.members(A))
    lost = cluster.members(A)[2].nominated
    assert lost is not None
    cluster.intrude("f", lost)
    leader.settle()
    assert cluster.uids(A) == uids
    assert len(cluster.bound(A)) == 3
    assert len({node.split("-")[0] for node in cluster.bound(A).values()}) == 1
    assert set(cluster.labels[A]) == set(cluster.bound(A).values())


def test_a_gang_whose_group_has_no_other_room_is_planned_anew_while_nothing_of_it_runs() -> None:
    cluster, leader = led(2)
    cluster.submit(job("a", 2))
    leader.settle(schedule=False)
    cluster.intrude("f", N1)
    leader.settle()
    assert set(cluster.bound(A).values()) == {"n1-2-1", "n1-2-2"}


def test_a_gang_half_bound_is_said_so_and_completed_when_there_is_room() -> None:
    cluster, leader = led(1)
    cluster.submit(job("a", 2, binding=Binding.PIECEMEAL))
    leader.settle(schedule=False)
    cluster.intrude("f", N1)
    scheduled(cluster)
    leader.settle()
    assert reason(leader, A) is GangState.HALF_BOUND
    cluster.leave("f")
    leader.settle()
    assert reason(leader, A) is GangState.BOUND


def test_a_pod_that_comes_again_goes_back_into_its_group() -> None:
    cluster, leader = led(2, 2)
    cluster.submit(job("a", 4))
    leader.settle()
    before = cluster.bound(A)
    cluster.delete(cluster.uids(A)[2])
    cluster.create(A, 2)
    leader.settle()
    assert cluster.bound(A) == before


def test_pods_that_did_their_work_are_not_awaited_and_what_is_left_of_groups_stays_whole() -> None:
    """The first rank has ended; the others lost their nodes all at once, or were suspended."""
    for binding in Binding:
        cluster, leader = led(3)
        cluster.submit(job("a", 4, binding=binding))
        leader.settle()
        first, *others = cluster.uids(A)
        cluster.change(first, finished=True, succeeded=True)
        for uid in others:
            cluster.delete(uid)
        leader.settle()
        for rank in (1, 2, 3):
            cluster.create(A, rank)
        leader.settle()
        nodes = [member.node for member in cluster.members(A) if member.live]
        assert None not in nodes
        assert len({node.rsplit("-", 1)[0] for node in nodes[1:] if node}) == 1, binding
        assert reason(leader, A) is GangState.BOUND
        for uid in cluster.uids(A):
            cluster.change(uid, finished=True, succeeded=True)
        leader.settle()
        assert reason(leader, A) is GangState.BOUND, "a gang that has ended waits for nothing"


def test_a_pod_that_comes_again_when_the_rest_of_its_group_has_ended_is_placed() -> None:
    cluster, leader = led(3)
    cluster.submit(job("a", 4))
    leader.settle()
    first, second, *_ = cluster.uids(A)
    cluster.change(first, finished=True, succeeded=True)
    cluster.delete(second)
    leader.settle()
    assert reason(leader, A) is GangState.PODS_MISSING
    cluster.create(A, 1)
    leader.settle()
    assert reason(leader, A) is GangState.BOUND
    assert all(member.node for member in cluster.members(A))


def test_a_gang_that_grows_gets_whole_groups_more() -> None:
    cluster, leader = led(3)
    cluster.submit(job("a", 2))
    leader.settle()
    before = cluster.bound(A)
    cluster.jobs[A].request = job("a", 4).request
    cluster.create(A, 2)
    leader.settle()
    assert cluster.bound(A) == before, "a group waits for all of its pods"
    cluster.create(A, 3)
    leader.settle()
    assert cluster.bound(A).items() > before.items()
    assert all(len(homes) == 1 for homes in cluster.groups(A).values())


def test_a_gang_deleted_midway_leaves_nothing() -> None:
    cluster, leader = led(2)
    cluster.submit(job("a", 4))
    leader.turn()
    leader.turn()
    cluster.end(A)
    leader.settle()
    assert not cluster.labels[A]
    assert not cluster.capacity.bookings()


def test_a_pod_that_another_gate_keeper_placed_is_opened_and_not_planned() -> None:
    cluster, leader = led(2)
    cluster.submit(job("a", 2))
    for uid, node in zip(cluster.uids(A), (N1, N2), strict=True):
        cluster.change(uid, fixed=node)
    leader.turn()
    assert not any(member.gated for member in cluster.members(A))
    assert not any(isinstance(each, Place) for each in leader.given)


def test_somebody_elses_gate_is_awaited() -> None:
    cluster, leader = led(2)
    cluster.submit(job("a", 2))
    for uid in cluster.uids(A):
        cluster.change(uid, other_gates=True)
    leader.settle()
    assert reason(leader, A) is GangState.OTHER_GATE


def test_gates_are_opened_by_order_without_a_plan_and_all_is_given_back() -> None:
    cluster, leader = led(2)
    asked = job("a", 2)
    cluster.submit(asked)
    leader.turn()
    asked.ungated = "opened by hand"
    leader.settle(schedule=False)
    assert not any(member.gated or member.selection for member in cluster.members(A))
    assert any(isinstance(each, OpenUnplanned) for each in leader.given)
    assert not list(cluster.bookings)
    assert not cluster.labels[A]


def test_whoever_takes_over_goes_on_from_any_write() -> None:
    for writes in range(30):
        cluster, leader = led(2, 2)
        cluster.submit(job("a", 4))
        done, sent = 0, leader.take(*leader.news())
        while done < writes and sent:
            done += 1
            cluster.write(sent.pop(0))
            sent = sent or leader.take(*leader.news())
        after = Leader.over(cluster)
        after.settle()
        assert len(cluster.bound(A)) == 4
        assert all(len(homes) == 1 for homes in cluster.groups(A).values())
        after.settle()
        assert not list(cluster.bookings)


def test_notes_of_two_plans_are_checked_before_anything_is_written() -> None:
    """A leader died while it moved a group from one dragonfly to another."""
    cluster, leader = led(2)
    cluster.submit(job("a", 2))
    leader.settle(schedule=False)
    uid = cluster.uids(A)[0]
    note = cluster.pods[uid].note
    assert isinstance(note, Note)
    moved = Note(N3, 0, note.hold, note.selection, 1, certified=True)
    cluster.change(uid, nominated=N3, note=moved)
    Leader.over(cluster).settle()
    assert len(cluster.bound(A)) == 2
    assert all(len(homes) == 1 for homes in cluster.groups(A).values())


def test_priority_comes_before_age() -> None:
    cluster, leader = led(1)
    cluster.intrude("f", N1)
    cluster.submit(job("a", 2, created_s=1.0))
    cluster.submit(job("b", 2, created_s=2.0, priority=5))
    leader.settle()
    cluster.leave("f")
    leader.settle()
    assert cluster.bound(B)
    assert not cluster.bound(A)


def preempting(*boxes: int, after_s: float = 60.0) -> tuple[Cluster, Leader]:
    cluster = Cluster(dragonflies(*boxes), preempts=True)
    return cluster, Leader.over(cluster, GangSettings(preempt_s=after_s))


@pytest.mark.parametrize("binding", list(Binding))
def test_after_its_time_in_line_a_gang_is_opened_over_the_cheapest_pods_of_lower_priority(
    binding: Binding,
) -> None:
    cluster, leader = preempting(3)
    for number, priority in enumerate((7, 7, 3, 3, 9, 1)):
        node = NodeName(f"n1-{number // 2 + 1}-{number % 2 + 1}")
        cluster.intrude(f"f{number}", node, priority=priority)
    cluster.submit(job("a", 2, priority=8, binding=binding))
    leader.settle()
    assert reason(leader, A) is GangState.NO_ROOM
    leader.now_s = 59.0
    leader.settle()
    assert len(cluster.foreign) == 6
    assert leader.gangs.next_s == 60.0
    leader.now_s = 60.0
    leader.settle()
    assert set(cluster.bound(A).values()) == {"n1-2-1", "n1-2-2"}
    assert sorted(cluster.foreign) == ["f0", "f1", "f4", "f5"]
    leader.settle()
    assert not list(cluster.bookings)


@pytest.mark.parametrize("binding", list(Binding))
def test_pods_over_others_are_nominated_where_they_are_bound_one_by_one(binding: Binding) -> None:
    """Volcano takes the nomination of a pod for room that it has made for it already."""
    cluster, leader = preempting(1)
    cluster.preempts = False
    cluster.intrude("f", N1, priority=0)
    cluster.submit(job("a", 2, priority=8, binding=binding))
    leader.settle()
    leader.now_s = 60.0
    leader.settle()
    assert reason(leader, A) is GangState.PREEMPTS
    given = [each for each in leader.given if isinstance(each, Nominate)]
    assert len({each.pod.uid for each in given}) == 2
    nominees = {each.node for each in given}
    assert nominees == ({None} if binding.is_together else {"n1-1-1", "n1-1-2"})
    assert {each.note.node for each in given} == {"n1-1-1", "n1-1-2"}


def test_nobody_is_evicted_for_a_gang_that_fits_or_is_of_no_higher_priority() -> None:
    cluster, leader = preempting(2)
    cluster.intrude("f", N1, priority=0)
    cluster.submit(job("a", 2, priority=8))
    cluster.submit(job("b", 2, priority=0, created_s=1.0))
    leader.settle()
    leader.now_s = 100.0
    leader.settle()
    assert len(cluster.bound(A)) == 2
    assert reason(leader, B) is GangState.NO_ROOM
    assert sorted(cluster.foreign) == ["f"]


def test_where_no_scheduler_evicts_the_gang_says_so_and_takes_the_room_that_comes() -> None:
    cluster, leader = preempting(2)
    cluster.preempts = False
    for name, node in (("f", N1), ("g", N3)):
        cluster.intrude(name, node, priority=int(node == N3))
    cluster.submit(job("a", 2, priority=8))
    leader.settle()
    leader.now_s = 60.0
    leader.settle()
    assert reason(leader, A) is GangState.PREEMPTS
    stands = leader.gangs.status(A)
    assert stands is not None
    assert "pod/other/f/f" in stands.text
    cluster.leave("g")
    leader.settle()
    assert set(cluster.bound(A).values()) == {"n1-2-1", "n1-2-2"}
    assert "f" in cluster.foreign


def test_several_groups_are_not_opened_over_others_where_their_scheduler_might_mix_them() -> None:
    for binding, opened in ((Binding.WHOLE, False), (Binding.PIECEMEAL, True)):
        cluster, leader = preempting(2)
        for number in range(4):
            node = NodeName(f"n1-{number // 2 + 1}-{number % 2 + 1}")
            cluster.intrude(f"f{number}", node, priority=0)
        cluster.submit(job("a", 4, priority=8, binding=binding))
        leader.settle()
        leader.now_s = 60.0
        leader.settle()
        assert bool(cluster.bound(A)) is opened
        assert all(len(homes) == 1 for homes in cluster.groups(A).values())


def test_who_takes_over_goes_on_with_a_gang_that_is_opened_over_others() -> None:
    for writes in range(14):
        cluster, leader = preempting(1)
        cluster.intrude("f", N1, priority=0)
        cluster.submit(job("a", 2, priority=8))
        leader.settle()
        leader.now_s = 60.0
        done, sent = 0, leader.take(*leader.news())
        while done < writes and sent:
            done += 1
            cluster.write(sent.pop(0))
            sent = sent or leader.take(*leader.news())
        after = Leader.over(cluster, GangSettings(preempt_s=60.0))
        after.settle()
        after.now_s = 60.0
        after.settle()
        assert len(cluster.bound(A)) == 2
        after.settle()
        assert not list(cluster.bookings)


def test_a_gang_that_comes_to_ask_for_something_else_keeps_its_turn() -> None:
    """What it asked for before is still in the order of turns, under the same rank."""
    cluster, leader = preempting(2)
    cluster.preempts = False
    for number in range(4):
        node = NodeName(f"n1-{number // 2 + 1}-{number % 2 + 1}")
        cluster.intrude(f"f{number}", node)
    cluster.submit(job("b", 2, priority=9))
    cluster.submit(job("a", 2, priority=8, wait_s=30.0))
    leader.settle()
    for now_s in (30.0, 60.0, 90.0):
        leader.now_s = now_s
        leader.settle()
    for number in range(4):
        cluster.leave(f"f{number}")
    leader.settle()
    assert len(cluster.bound(A)) == 2
    assert len(cluster.bound(B)) == 2
