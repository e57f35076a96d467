"""Opened pods that their scheduler refuses are placed elsewhere, or give their places up."""

import re

import pytest

from tests.gangs.jobs import dragonflies, job
from tests.gangs.leader import Leader
from tests.gangs.world import Cluster
from topo.gangs.machine.gang import Binding, GangId
from topo.gangs.machine.settings import GangSettings
from topo.model.conditions.gang_states import GangState
from topo.model.ids import NodeName

A, B = GangId("g1"), GangId("g2")
SETTINGS = GangSettings()
EITHER = pytest.mark.parametrize("binding", list(Binding))


def refused(binding: Binding, *boxes: int) -> tuple[Cluster, Leader, NodeName]:
    """A gang of one dragonfly is opened, and its scheduler refuses the node of its first pod."""
    cluster = Cluster(dragonflies(*boxes))
    leader = Leader.over(cluster, SETTINGS)
    cluster.submit(job("g1", 2, binding=binding))
    leader.settle(schedule=False)
    node = cluster.members(A)[0].nominated
    assert node is not None
    cluster.starved.add(node)
    leader.settle()
    return cluster, leader, node


def later(leader: Leader, seconds: float) -> None:
    leader.now_s += seconds
    leader.settle()


def state(leader: Leader) -> tuple[GangState, str]:
    found = leader.gangs.status(A)
    assert found is not None
    return found.state, found.text


def test_a_gang_that_volcano_refuses_is_placed_elsewhere_after_a_while():
    cluster, leader, node = refused(Binding.WHOLE, 2)
    later(leader, SETTINGS.bind_s - 1)
    assert not cluster.bound(A)
    later(leader, 1)
    assert len(cluster.bound(A)) == 2
    assert node not in cluster.bound(A).values()
    (homes,) = cluster.groups(A).values()
    assert len(homes) == 1


def test_without_other_room_the_gang_says_what_volcano_said_and_keeps_nothing_from_others():
    cluster, leader, _ = refused(Binding.WHOLE, 1)
    later(leader, SETTINGS.bind_s)
    found, text = state(leader)
    assert found is GangState.DISPLACED
    assert re.search(r"lost: n1-1-. \(the scheduler says of g1-.: no node has enough\)", text)
    assert not cluster.capacity.bookings()
    cluster.starved.clear()
    cluster.submit(job("g2", 1))
    leader.settle()
    assert len(cluster.bound(B)) == 1


def test_a_half_bound_gang_of_kube_scheduler_says_what_its_scheduler_said():
    cluster, leader, node = refused(Binding.PIECEMEAL, 2)
    assert len(cluster.bound(A)) == 1
    later(leader, SETTINGS.bind_s)
    found, text = state(leader)
    assert found is GangState.HALF_BOUND
    assert text.startswith("1 of 2 pods run: ")
    assert cluster.capacity.used(node) == 0


@EITHER
def test_refused_nodes_are_tried_again_after_a_while(binding: Binding):
    cluster, leader, _ = refused(binding, 1)
    later(leader, SETTINGS.bind_s)
    cluster.starved.clear()
    later(leader, SETTINGS.avoid_s - 1)
    assert len(cluster.bound(A)) < 2
    later(leader, 1)
    assert len(cluster.bound(A)) == 2


@EITHER
def test_a_scheduler_that_says_nothing_leaves_the_gang_its_places(binding: Binding):
    """It does not run, or has not come to the pods yet."""
    cluster = Cluster(dragonflies(2))
    leader = Leader.over(cluster, SETTINGS)
    cluster.submit(job("g1", 2, binding=binding))
    leader.settle(schedule=False)
    planned = [member.nominated for member in cluster.members(A)]
    for _ in range(10):
        leader.now_s += 100.0
        leader.settle(schedule=False)
    assert [member.nominated for member in cluster.members(A)] == planned
    assert state(leader)[0] is GangState.OPENED
    leader.settle()
    assert list(cluster.bound(A).values()) == planned


def test_a_pod_for_which_kube_scheduler_evicts_others_keeps_its_place():
    cluster = Cluster(dragonflies(1))
    leader = Leader.over(cluster, SETTINGS)
    cluster.submit(job("g1", 2, binding=Binding.PIECEMEAL))
    leader.settle(schedule=False)
    for uid in cluster.uids(A):
        cluster.change(uid, unscheduled="preemption: 1 victim")
    for _ in range(3):
        leader.now_s += 100.0
        leader.settle(schedule=False)
    assert all(member.nominated for member in cluster.members(A))


@EITHER
def test_a_nomination_of_its_scheduler_to_a_node_that_the_pod_selects_is_not_written_over(
    binding: Binding,
):
    """As Volcano's `gangpreempt` nominates where it evicts: two writers would never agree."""
    cluster = Cluster(dragonflies(2))
    leader = Leader.over(cluster, SETTINGS)
    cluster.submit(job("g1", 2, binding=binding))
    leader.settle(schedule=False)
    first, second = cluster.members(A)
    assert first.opened
    assert {first.nominated, second.nominated} == {"n1-1-1", "n1-1-2"}
    given = len(leader.given)
    cluster.change(first.uid, nominated=second.nominated)
    cluster.change(second.uid, nominated=first.nominated)
    leader.settle(schedule=False)
    assert leader.given[given:] == []
    cluster.change(first.uid, nominated=NodeName("n1-2-1"))
    leader.settle(schedule=False)
    assert cluster.members(A)[0].nominated == first.nominated, "it may not run there"
