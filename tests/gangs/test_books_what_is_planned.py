"""GPUs are booked where pods are planned, not where they are nominated."""

import pytest

from tests.gangs.jobs import dragonflies, job
from tests.gangs.leader import Leader
from tests.gangs.world import Cluster
from topo.gangs.machine.gang import Binding, GangId
from topo.gangs.machine.settings import GangSettings
from topo.model.conditions.gang_states import GangState
from topo.model.ids import NodeName
from topo.placement.booking.events import HoldReleased

A, B = GangId("g1"), GangId("g2")


def led(*boxes: int) -> tuple[Cluster, Leader]:
    cluster = Cluster(dragonflies(*boxes))
    return cluster, Leader.over(cluster, GangSettings())


def nominated(*boxes: int) -> tuple[Cluster, Leader]:
    """Gang A has its nominations and its hold, and no gate is opened."""
    cluster, leader = led(*boxes)
    cluster.submit(job("g1", 2))
    for each in leader.take(*leader.news()):
        cluster.write(each)
    assert all(member.nominated and member.gated for member in cluster.members(A))
    return cluster, leader


def never_booked_twice(cluster: Cluster) -> None:
    for host in cluster.capacity.hosts():
        assert cluster.capacity.used(host.name) <= host.gpus, host.name


def test_a_gang_that_lost_its_plan_takes_its_nominations_back() -> None:
    cluster, leader = nominated(1)
    node = cluster.members(A)[0].nominated
    assert node is not None
    cluster.intrude("f1", node)
    leader.settle()
    found = leader.gangs.status(A)
    assert found is not None
    assert found.state is GangState.NO_ROOM
    assert not any(member.nominated for member in cluster.members(A))
    assert not cluster.labels[A]
    assert cluster.capacity.used(node) == 8
    assert not list(cluster.bookings)


@pytest.mark.parametrize("lost", ["a pod", "the hold"])
def test_a_gated_gang_stands_in_nobodys_way(lost: str) -> None:
    cluster, leader = nominated(2)
    if lost == "a pod":
        cluster.delete(cluster.uids(A)[0])
        cluster.create(A, 0)
    else:
        cluster.bookings.advance(0.0, *(HoldReleased(hold.id) for hold in cluster.bookings))
    cluster.submit(job("g2", 4, priority=1))
    if lost == "the hold":
        leader = Leader.over(cluster, GangSettings())
    leader.settle()
    assert len(cluster.bound(B)) == 4
    never_booked_twice(cluster)


@pytest.mark.parametrize("binding", list(Binding))
def test_an_opened_pod_whose_nomination_is_cleared_keeps_its_node(binding: Binding) -> None:
    cluster, leader = led(2)
    cluster.submit(job("g1", 2, binding=binding))
    leader.settle(schedule=False)
    first, second = cluster.uids(A)
    planned = [member.nominated for member in cluster.members(A)]
    assert not any(member.gated for member in cluster.members(A))
    cluster.change(second, nominated=None)
    cluster.delete(first)
    cluster.create(A, 0)
    leader.settle(schedule=False)
    assert cluster.capacity.used(NodeName(planned[1] or "")) == 8
    cluster.submit(job("g2", 2))
    leader.settle(schedule=False)
    places = [m.note.node for gang in (A, B) for m in cluster.members(gang) if m.note]
    assert len(places) == len(set(places)) == 4
    never_booked_twice(cluster)


def test_an_opened_gang_without_other_room_gives_up_all_of_its_places() -> None:
    """One node is lost, so that the gang cannot start: the others may have the rest of its nodes.

    Once there is room again, it is planned anew and bound, by the same or by a later leader.
    """
    cluster, leader = led(2)
    cluster.submit(job("g1", 4))
    leader.settle(schedule=False)
    assert not any(member.gated for member in cluster.members(A))
    cluster.intrude("f1", NodeName("n1-1-1"))
    leader.settle(schedule=False)
    found = leader.gangs.status(A)
    assert found is not None
    assert found.state is GangState.DISPLACED
    assert "n1-1-1" in found.text
    assert all(member.nominated is None for member in cluster.members(A))
    assert not cluster.labels[A]
    assert cluster.capacity.bookings().keys() == {"pod/other/f1/f1"}
    cluster.submit(job("g2", 2))
    leader.settle()
    assert sorted(cluster.bound(B).values()) == ["n1-2-1", "n1-2-2"]
    never_booked_twice(cluster)
    leader = Leader.over(cluster, GangSettings())
    cluster.leave("f1")
    cluster.end(B)
    leader.settle()
    assert len(cluster.bound(A)) == 4


def test_a_group_that_lost_a_node_leaves_the_other_groups_their_places() -> None:
    """kube-scheduler binds pods one by one: the group that is whole goes on."""
    cluster, leader = led(2)
    cluster.submit(job("g1", 4, binding=Binding.PIECEMEAL))
    leader.settle(schedule=False)
    lost = cluster.members(A)[0].nominated
    assert lost is not None
    cluster.intrude("f1", lost)
    leader.settle()
    found = leader.gangs.status(A)
    assert found is not None
    assert found.state is GangState.HALF_BOUND
    assert cluster.bound(A).keys() >= {2, 3}
    assert cluster.capacity.used(lost) == 8
    never_booked_twice(cluster)


def test_a_refused_place_that_is_given_up_is_not_held_beside_the_places_of_opened_pods() -> None:
    cluster, leader = led(2)
    cluster.submit(job("g1", 2, mode="preferred", binding=Binding.PIECEMEAL))
    leader.settle(schedule=False)
    _, second = cluster.members(A)
    for host in list(cluster.capacity.hosts()):
        if host.name != second.nominated:
            cluster.intrude(f"f-{host.name}", host.name)
    leader.settle(schedule=False)
    notes = [member.note for member in cluster.members(A)]
    assert [note is not None and note.withdrawn for note in notes] == [True, False]
    assert not list(cluster.bookings), "the opened pod books for itself"
    never_booked_twice(cluster)


def test_a_nomination_to_a_node_that_an_opened_pod_does_not_select_is_mended() -> None:
    cluster, leader = led(2)
    cluster.submit(job("g1", 2))
    leader.settle(schedule=False)
    first, second = cluster.members(A)
    other = next(
        host.name
        for host in cluster.capacity.hosts()
        if host.name not in {first.nominated, second.nominated}
    )
    cluster.change(first.uid, nominated=other)
    leader.settle(schedule=False)
    assert cluster.members(A)[0].nominated == first.nominated
    cluster.change(first.uid, nominated=second.nominated)
    leader.settle(schedule=False)
    assert cluster.members(A)[0].nominated == second.nominated, "it selects that node, too"
