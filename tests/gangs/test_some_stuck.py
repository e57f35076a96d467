"""Gangs of which some pods were made without a gate, or lost their node with no room beside."""

import pytest

from tests.gangs.jobs import dragonflies, job
from tests.gangs.leader import Leader
from tests.gangs.schedulers import schedule_pod
from tests.gangs.world import Cluster
from topo.gangs.machine.gang import Binding, GangId
from topo.gangs.machine.instructions import LabelNodes, Nominate, UnlabelNodes
from topo.gangs.machine.settings import GangSettings
from topo.model.conditions.gang_states import GangState
from topo.model.ids import NodeName

A = GangId("a")
N111, N112, N121, N122 = (NodeName(f"n1-{at}") for at in ("1-1", "1-2", "2-1", "2-2"))


def led(*boxes: int) -> tuple[Cluster, Leader]:
    cluster = Cluster(dragonflies(*boxes))
    return cluster, Leader.over(cluster, GangSettings())


def reason(leader: Leader) -> GangState:
    found = leader.gangs.status(A)
    assert found is not None
    return found.state


@pytest.mark.parametrize("slipped", [{0}, {1}, {1, 2}, {2, 3}, {0, 1, 2}])
def test_pods_without_a_gate_of_a_gang_that_is_bound_whole_go_into_its_plan(
    slipped: set[int],
) -> None:
    cluster, leader = led(4)
    cluster.intrude("f", N111)
    cluster.submit(job("a", 4))
    for rank in slipped:
        cluster.change(cluster.uids(A)[rank], gated=False)
    leader.settle()
    assert reason(leader) is GangState.BOUND
    assert [len(homes) for homes in cluster.groups(A).values()] == [1, 1]
    leader.settle()
    assert not list(cluster.bookings)


def test_pods_without_a_gate_have_places_of_their_own_after_all_others_were_opened() -> None:
    """Else their scheduler puts them on the nodes of their siblings, which can be bound nowhere."""
    cluster, leader = led(4)
    cluster.submit(job("a", 4))
    slipped = cluster.uids(A)[0]
    cluster.change(slipped, gated=False)
    leader.settle(schedule=False)
    for rank in (1, 2, 3):
        assert cluster.members(A)[rank].opened
    cluster.delete(slipped)
    cluster.create(A, 0, gated=False)
    leader.settle(schedule=False)
    assert len({member.nominated for member in cluster.members(A)} - {None}) == 4
    leader.settle()
    assert reason(leader) is GangState.BOUND
    assert [len(homes) for homes in cluster.groups(A).values()] == [1, 1]


def test_a_gang_that_was_never_gated_is_left_to_its_scheduler() -> None:
    cluster, leader = led(2)
    cluster.submit(job("a", 2))
    for uid in cluster.uids(A):
        cluster.change(uid, gated=False)
    leader.settle(schedule=False)
    assert not any(isinstance(each, Nominate) for each in leader.given)


def test_groups_that_can_be_whole_are_let_go_though_one_has_no_room_beside_its_pod() -> None:
    """Rank 0 was made without a gate, and bound where the other node is somebody else's."""
    cluster, leader = led(3)
    cluster.intrude("f", N112)
    cluster.submit(job("a", 4, binding=Binding.PIECEMEAL))
    first = cluster.uids(A)[0]
    cluster.change(first, gated=False)
    cluster.bind(first, N111)
    leader.settle()
    assert sorted(cluster.bound(A)) == [0, 2, 3]
    assert [len(homes) for homes in cluster.groups(A).values()] == [1, 1]
    assert reason(leader) is GangState.HALF_BOUND
    said = len(leader.said)
    for name in ("g", "h"):  # room comes and goes elsewhere: it is looked for in vain
        cluster.intrude(name, NodeName("n1-3-1"))
        leader.settle()
        cluster.leave(name)
        leader.settle()
    assert not leader.said[said:], "what stays as it is is not told again"
    cluster.leave("f")
    leader.settle()
    assert reason(leader) is GangState.BOUND
    assert [len(homes) for homes in cluster.groups(A).values()] == [1, 1]


def test_of_two_groups_that_lost_a_node_the_one_that_has_room_is_let_go() -> None:
    cluster, leader = led(2)
    cluster.submit(job("a", 4, binding=Binding.PIECEMEAL))
    ranks = {0: N111, 2: N121}
    for rank, node in ranks.items():
        uid = cluster.uids(A)[rank]
        cluster.change(uid, gated=False)
        cluster.bind(uid, node)
    cluster.intrude("f", N112)
    leader.settle()
    assert cluster.bound(A) == {0: N111, 2: N121, 3: N122}
    cluster.leave("f")
    leader.settle()
    assert cluster.bound(A) == {0: N111, 1: N112, 2: N121, 3: N122}


def test_a_group_of_which_nothing_runs_is_placed_anew_beside_those_that_run() -> None:
    """Its dragonfly has no third node for the pod whose node was taken."""
    cluster, leader = led(4)
    cluster.submit(job("a", 4, binding=Binding.PIECEMEAL))
    leader.settle(schedule=False)
    uids = cluster.uids(A)
    for uid in uids[:2]:
        assert schedule_pod(cluster, uid)
    taken = cluster.pods[uids[2]].nominated
    assert taken is not None
    cluster.intrude("f", taken)
    leader.settle()
    assert reason(leader) is GangState.BOUND
    assert [len(homes) for homes in cluster.groups(A).values()] == [1, 1]


def test_a_group_that_lost_its_node_before_the_gates_were_opened_holds_up_no_other() -> None:
    cluster, leader = led(3)
    cluster.submit(job("a", 6, binding=Binding.PIECEMEAL))
    first = cluster.uids(A)[0]
    cluster.change(first, gated=False)
    cluster.bind(first, N111)
    leader.turn()
    assert all(member.nominated for member in cluster.members(A)[1:])
    cluster.intrude("f", N112)
    leader.settle()
    assert sorted(cluster.bound(A)) == [0, 2, 3, 4, 5]
    assert all(len(homes) == 1 for homes in cluster.groups(A).values())


def test_a_gang_that_moves_loses_its_old_label_before_it_gets_the_new_one() -> None:
    cluster = Cluster(dragonflies(2, 2))
    leader = Leader.over(cluster)
    cluster.submit(job("a", 3, 32))
    leader.turn()  # labels and nominations, no gate is open
    lost = cluster.members(A)[2].nominated
    assert lost in cluster.labels[A]
    cluster.intrude("f", lost)
    first = leader.take(*leader.news())
    assert any(lost in each.nodes for each in first if isinstance(each, UnlabelNodes))
    assert not [each for each in first if isinstance(each, LabelNodes)]
    for each in first:
        cluster.write(each)
    leader.settle()
    assert set(cluster.labels[A]) == set(cluster.bound(A).values())
