"""Gangs whose controller makes some pods only once others run: their places are kept."""

from hypothesis import given
from hypothesis import strategies as st

from tests.gangs.jobs import dragonflies, job
from tests.gangs.leader import Leader
from tests.gangs.world import Cluster
from topo.gangs.machine.gang import Binding, GangId
from topo.model.conditions.gang_states import GangState

A, B = GangId("a"), GangId("b")


def begun(*boxes: int, pods: int) -> tuple[Cluster, Leader]:
    """A late gang of which only the first pod was made."""
    cluster = Cluster(dragonflies(*boxes))
    cluster.jobs[A] = job("a", pods, binding=Binding.PIECEMEAL, is_late=True)
    cluster.create(A, 0)
    return cluster, Leader.over(cluster)


def state(leader: Leader, gang_id: GangId) -> GangState:
    found = leader.gangs.status(gang_id)
    assert found is not None
    return found.state


def test_the_first_pod_runs_and_the_places_of_the_others_are_kept_from_other_jobs() -> None:
    cluster, leader = begun(2, pods=4)
    leader.settle()
    assert cluster.bound(A).keys() == {0}
    assert state(leader, A) is GangState.PODS_MISSING
    cluster.submit(job("b", 2, binding=Binding.PIECEMEAL))
    leader.settle()
    assert state(leader, B) is GangState.NO_ROOM
    for rank in (1, 2, 3):
        cluster.create(A, rank)
    leader.settle()
    assert [len(homes) for homes in cluster.groups(A).values()] == [1, 1]
    assert state(leader, A) is GangState.BOUND


def test_without_room_for_all_not_even_the_first_pod_starts() -> None:
    cluster, leader = begun(1, pods=4)
    leader.settle()
    assert cluster.bound(A) == {}
    assert state(leader, A) in {GangState.NO_ROOM, GangState.NEVER_FITS}


def test_the_place_of_a_pod_that_is_lost_is_kept_until_it_is_made_again() -> None:
    cluster, leader = begun(2, pods=2)
    cluster.create(A, 1)
    leader.settle()
    before = cluster.bound(A)
    cluster.delete(cluster.uids(A)[1])
    leader.settle()
    cluster.submit(job("b", 4, binding=Binding.PIECEMEAL))
    leader.settle()
    cluster.create(A, 1)
    leader.settle()
    assert cluster.bound(A) == before


@given(st.permutations(range(1, 6)), st.lists(st.booleans(), min_size=5, max_size=5))
def test_in_whatever_order_pods_come_and_leaders_change_groups_are_whole(
    order: list[int], changes: list[bool]
) -> None:
    cluster, leader = begun(2, 2, pods=6)
    for rank, is_changed in zip(order, changes, strict=True):
        leader.settle()
        cluster.create(A, rank)
        if is_changed:
            leader = Leader.over(cluster)
    leader.settle()
    assert cluster.bound(A).keys() == set(range(6))
    assert [len(homes) for homes in cluster.groups(A).values()] == [1, 1, 1]


def test_the_holds_of_a_late_gang_go_with_it() -> None:
    cluster, leader = begun(2, pods=4)
    leader.settle()
    cluster.end(A)
    leader.settle()
    assert not list(cluster.bookings)
    assert not any(cluster.labels.values())


def test_places_that_are_kept_no_longer_are_those_of_other_jobs_and_what_runs_stays() -> None:
    cluster, leader = begun(2, pods=4)
    leader.settle()
    before = cluster.bound(A)
    cluster.submit(job("b", 2, binding=Binding.PIECEMEAL))
    leader.settle()
    assert state(leader, B) is GangState.NO_ROOM
    cluster.jobs[A] = job("a", 4, binding=Binding.PIECEMEAL)
    leader.settle()
    assert state(leader, B) is GangState.BOUND
    assert cluster.bound(A) == before
    cluster.end(B)
    cluster.create(A, 1)
    leader.settle()
    assert [len(homes) for homes in cluster.groups(A).values()] == [1]
