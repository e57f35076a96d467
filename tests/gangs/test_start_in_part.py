"""Gangs of which fewer pods suffice to start (`minAvailable`): the others follow with more room."""

import pytest

from tests.gangs.jobs import Job, dragonflies, job
from tests.gangs.leader import Leader
from tests.gangs.world import Cluster
from topo.gangs.machine.gang import Binding, GangId, Selection
from topo.gangs.machine.instructions import Place
from topo.gangs.machine.settings import GangSettings
from topo.gangs.status import GangStatus
from topo.model.conditions.gang_states import GangState

A, B = GangId("a"), GangId("b")


def led(*boxes: int) -> tuple[Cluster, Leader]:
    cluster = Cluster(dragonflies(*boxes))
    return cluster, Leader.over(cluster, GangSettings())


def filled(cluster: Cluster, dragonflies_left: int) -> None:
    """Others have all nodes but those of so many dragonflies."""
    nodes = sorted(host.name for host in cluster.capacity.hosts())
    for node in nodes[2 * dragonflies_left :]:
        cluster.intrude(f"f-{node}", node)


def elastic(pods: int, at_least: int, binding: Binding = Binding.WHOLE) -> Job:
    return job("a", pods, at_least=at_least, binding=binding)


def status(leader: Leader, gang_id: GangId = A) -> GangStatus:
    found = leader.gangs.status(gang_id)
    assert found is not None
    return found


def test_with_room_for_all_they_start_together() -> None:
    cluster, leader = led(4)
    cluster.submit(elastic(8, 4))
    leader.settle()
    assert len(cluster.bound(A)) == 8
    assert len([each for each in leader.given if isinstance(each, Place)]) == 1
    assert status(leader).state is GangState.BOUND


def test_one_whose_pods_come_and_go_is_told_what_its_further_pods_wait_for() -> None:
    """A Deployment that scales: what runs stays, and the others have no room."""
    cluster, leader = led(2)
    filled(cluster, 1)
    cluster.submit(job("a", 2, at_least=1, binding=Binding.PIECEMEAL, is_elastic=True))
    leader.settle()
    before = cluster.bound(A)
    cluster.jobs[A] = job("a", 4, at_least=1, binding=Binding.PIECEMEAL, is_elastic=True)
    for rank in (2, 3):
        cluster.create(A, rank)
    leader.settle()
    assert cluster.bound(A) == before
    found = status(leader)
    assert found.state is GangState.GROWING
    assert found.text.startswith("2 of 4 pods run; for the others: ")
    for name in sorted(cluster.foreign):
        cluster.leave(name)
    leader.settle()
    assert len(cluster.bound(A)) == 4


@pytest.mark.parametrize(("at_least", "started"), [(2, 2), (3, 4), (4, 4)])
def test_without_it_whole_groups_of_enough_pods_start_and_the_others_follow_by_groups(
    at_least: int, started: int
) -> None:
    cluster, leader = led(4)
    filled(cluster, started // 2)
    cluster.submit(elastic(8, at_least))
    leader.settle()
    assert sorted(cluster.bound(A)) == [*range(started)]
    found = status(leader)
    assert found.state is GangState.GROWING
    assert found.text.startswith(f"{started} of 8 pods run; for the others: ")
    assert all(member.gated for member in cluster.members(A)[started:])
    for name in sorted(cluster.foreign)[:2]:
        cluster.leave(name)
    leader.settle()
    assert sorted(cluster.bound(A)) == [*range(started + 2)]
    for name in sorted(cluster.foreign):
        cluster.leave(name)
    leader.settle()
    assert len(cluster.bound(A)) == 8
    assert {len(homes) for homes in cluster.groups(A).values()} == {1}
    assert status(leader).state is GangState.BOUND
    assert not list(cluster.bookings)


def test_pods_that_are_too_few_to_start_do_not_keep_the_others_from_their_places() -> None:
    """Ranks 0 and 1 run, end, and come again gated: Volcano does not bind rank 2 alone."""
    cluster, leader = led(4)
    filled(cluster, 1)
    cluster.submit(elastic(3, 2))
    leader.settle()
    assert sorted(cluster.bound(A)) == [0, 1]
    cluster.starved = {host.name for host in cluster.capacity.hosts()}
    for name in sorted(cluster.foreign):
        cluster.leave(name)
    leader.settle()
    for uid in cluster.uids(A)[:2]:
        cluster.delete(uid)
    for rank in (0, 1):
        cluster.create(A, rank)
    assert [member.gated for member in cluster.members(A)] == [True, True, False]
    cluster.starved.clear()
    leader.settle()
    assert sorted(cluster.bound(A)) == [0, 1, 2]
    assert {len(homes) for homes in cluster.groups(A).values()} == {1}


def test_pods_that_have_succeeded_count_for_the_start_as_those_that_run() -> None:
    """Else more are opened than it needs, and Volcano splits a group for one that does not fit."""
    cluster, leader = led(4)
    filled(cluster, 2)
    cluster.submit(elastic(6, 4))
    leader.settle()
    for uid in cluster.uids(A)[:2]:
        node = cluster.pods[uid].node
        assert node is not None
        cluster.change(uid, finished=True, succeeded=True)
        cluster.intrude(f"on-{node}", node)
    cluster.starved = {host.name for host in cluster.capacity.hosts()}
    leader.settle()
    again = cluster.uids(A)[3]
    cluster.delete(again)
    cluster.create(A, 3)
    leader.settle()
    for name in sorted(cluster.foreign):
        cluster.leave(name)
    leader.settle()
    assert [member.gated for member in cluster.members(A)[3:]] == [False, True, True]


def test_beside_pods_that_are_too_few_only_as_many_groups_as_are_lacking_are_opened() -> None:
    cluster, leader = led(4)
    filled(cluster, 1)
    cluster.submit(elastic(6, 2))
    leader.settle()
    cluster.starved = {host.name for host in cluster.capacity.hosts()}
    for name in sorted(cluster.foreign):
        cluster.leave(name)
    first, second = cluster.uids(A)[:2]
    for uid in (first, second):
        cluster.delete(uid)
    cluster.create(A, 0, gated=False, selection=Selection("gone"))
    cluster.create(A, 1)
    leader.settle()
    opened = [member.rank for member in cluster.members(A) if not member.gated]
    assert opened == [0, 1]


def test_with_less_room_than_that_none_starts_and_the_numbers_are_those_of_the_start() -> None:
    cluster, leader = led(4)
    filled(cluster, 1)
    cluster.submit(elastic(8, 4))
    leader.settle()
    found = status(leader)
    assert found.state is GangState.NO_ROOM
    assert found.text == "the job needs 32 GPUs, 16 are free on nodes that it may use"
    assert all(member.gated for member in cluster.members(A))
    assert not cluster.labels.get(A)


def test_a_start_larger_than_the_cluster_never_fits_and_a_smaller_one_only_has_to_wait() -> None:
    cluster, leader = led(2)
    filled(cluster, 0)
    cluster.submit(elastic(8, 4))
    leader.settle()
    assert status(leader).state is GangState.NO_ROOM
    other, second = led(2)
    other.submit(elastic(8, 6))
    second.settle()
    assert status(second).state is GangState.NEVER_FITS


def test_a_gang_whose_equal_was_refused_starts_in_part_too() -> None:
    cluster, leader = led(4)
    filled(cluster, 2)
    cluster.submit(job("b", 8, created_s=1.0))
    cluster.submit(job("a", 8, at_least=4, created_s=2.0, priority=0))
    leader.settle()
    assert status(leader, B).state is GangState.NO_ROOM
    assert status(leader).state in {GangState.BEHIND, GangState.GROWING}
    cluster.end(B)
    leader.settle()
    assert sorted(cluster.bound(A)) == [0, 1, 2, 3]


def test_a_new_leader_goes_on_with_a_start_that_was_planned() -> None:
    cluster, leader = led(4)
    filled(cluster, 2)
    cluster.submit(elastic(8, 4))
    for each in leader.take(*leader.news()):
        cluster.write(each)
    planned = [member.nominated for member in cluster.members(A)]
    assert planned.count(None) == 4
    leader = Leader.over(cluster, GangSettings())
    leader.settle()
    assert list(cluster.bound(A).values()) == planned[:4]


def test_a_lost_node_moves_the_start_to_other_nodes_without_the_pods_that_wait() -> None:
    cluster, leader = led(2, 2)
    filled(cluster, 3)
    cluster.submit(elastic(8, 4))
    leader.settle(schedule=False)
    lost = cluster.members(A)[0].nominated
    assert lost is not None
    cluster.intrude("taker", lost)
    leader.settle()
    assert sorted(cluster.bound(A)) == [0, 1, 2, 3], "there is no whole group for more"
    assert {len(homes) for homes in cluster.groups(A).values()} == {1}


def test_a_gang_that_is_bound_pod_by_pod_starts_with_all_of_its_pods() -> None:
    cluster, leader = led(4)
    filled(cluster, 2)
    cluster.submit(elastic(8, 4, binding=Binding.PIECEMEAL))
    leader.settle()
    assert not cluster.bound(A)
    assert status(leader).state is GangState.NO_ROOM
