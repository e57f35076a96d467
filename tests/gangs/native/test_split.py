"""A gang that does not stand as its job requires is told as split, whoever placed it."""

from dataclasses import replace

import pytest

from tests.gangs.jobs import Job, dragonflies, job
from tests.gangs.leader import Leader
from tests.gangs.world import Cluster
from topo.gangs.decisions.check import apart_groups, split_groups
from topo.gangs.machine.gang import Binding, GangId, Member, PodUid
from topo.gangs.machine.instructions import Check
from topo.gangs.status import GangStatus
from topo.model.conditions.gang_states import GangState
from topo.model.ids import SWITCHBOX, GroupPath, Kind, NodeName
from topo.placement.job.request import PlacementMode, Request

A = GangId("a")
WHOLE = ("n1-1-1", "n1-1-2", "n1-2-1", "n1-2-2")
SPLIT = ("n1-1-1", "n1-2-1", "n1-1-2", "n1-2-2")
APART = ("n1-1-1", "n1-1-2", "n2-1-1", "n2-1-2")
BOTH = [Binding.PIECEMEAL, Binding.WHOLE]


def within(pods: int = 4, size: int | None = 16, **more: object) -> Request:
    return Request(
        pods=pods,
        gpus_per_pod=8,
        group_size=size,
        within=SWITCHBOX,
        **more,  # type: ignore[arg-type]
    )


def look(request: Request, bound: tuple[str, ...], waiting: tuple[str, ...] = ()) -> Check:
    ahead = enumerate(waiting, start=len(bound))
    return Check(
        id=A,
        ask=1,
        request=request,
        waiting=tuple(
            (Member(uid=PodUid(f"p{at}"), name=f"p{at}", rank=at, version="1"), NodeName(node))
            for at, node in ahead
        ),
        bound=tuple((at, NodeName(node)) for at, node in enumerate(bound)),
        holds=(),
    )


@pytest.mark.parametrize("mode", PlacementMode)
def test_groups_outside_of_the_switchbox_that_most_pods_run_in_are_apart_in_any_mode(
    mode: PlacementMode,
) -> None:
    capacity, request = dragonflies(3, 3), within(mode=mode)
    assert apart_groups(capacity, look(request, WHOLE)) == ()
    assert apart_groups(capacity, look(request, APART)) == (1,)
    assert apart_groups(capacity, look(request, APART[2:], APART[:2])) == (1,)
    assert apart_groups(capacity, look(request, ("n2-1-1", *APART[:3]))) == (0, 1)
    assert split_groups(capacity, look(request, APART)) == ()


def test_a_node_in_no_switchbox_is_apart_and_one_that_nobody_knows_is_not_judged() -> None:
    capacity = dragonflies(2)
    loose = NodeName("n1-2-2")
    host = capacity.host(loose)
    assert host is not None
    capacity.upsert(replace(host, path=GroupPath(()), kinds=(), tiers=()))
    assert apart_groups(capacity, look(within(), WHOLE)) == (1,)
    assert apart_groups(capacity, look(within(), (*WHOLE[:3], "n9"))) == ()


def test_what_is_asked_to_be_within_nothing_is_apart_nowhere() -> None:
    assert apart_groups(dragonflies(2, 2), look(job("a", 4).request, APART)) == ()


def slipped(asked: Job, nodes: tuple[str, ...]) -> tuple[Cluster, Leader]:
    """A job whose pods were made without a gate, and that its scheduler has bound to these."""
    cluster = Cluster(dragonflies(3, 3))
    leader = Leader.over(cluster)
    cluster.jobs[A] = asked
    uids = [cluster.create(A, rank, gated=False) for rank in range(len(nodes))]
    leader.settle(schedule=False)
    assert stands(leader).state is GangState.OPENED, "none of it runs yet"
    for uid, node in zip(uids, nodes, strict=True):
        cluster.bind(uid, NodeName(node))
    leader.settle()
    return cluster, leader


def stands(leader: Leader) -> GangStatus:
    found = leader.gangs.status(A)
    assert found is not None
    return found


@pytest.mark.parametrize("binding", BOTH)
def test_a_gang_of_which_every_pod_passed_the_webhook_by_is_told_as_split_where_it_is(
    binding: Binding,
) -> None:
    cluster, leader = slipped(job("a", 4, binding=binding), SPLIT)
    assert stands(leader).state is GangState.SPLIT
    assert stands(leader).text == "pods of group 0 and 1 run in several domains"
    assert [each.state for each in leader.said].count(GangState.SPLIT) == 1
    assert stands_after_takeover(cluster).state is GangState.SPLIT


@pytest.mark.parametrize("binding", BOTH)
@pytest.mark.parametrize("mode", ["required", "preferred"])
def test_one_that_was_bound_whole_or_prefers_groups_is_bound(binding: Binding, mode: str) -> None:
    nodes = WHOLE if mode == "required" else SPLIT
    cluster, leader = slipped(job("a", 4, binding=binding, mode=mode), nodes)
    assert stands(leader).state is GangState.BOUND
    assert stands_after_takeover(cluster).state is GangState.BOUND


def stands_after_takeover(cluster: Cluster) -> GangStatus:
    leader = Leader.over(cluster)
    leader.settle()
    return stands(leader)


@pytest.mark.parametrize("binding", BOTH)
def test_whole_groups_in_other_switchboxes_than_one_are_told_as_split(binding: Binding) -> None:
    _, leader = slipped(Job(A, within(), binding=binding), APART)
    assert stands(leader).state is GangState.SPLIT
    assert stands(leader).text == "its pods share no switchbox: those of group 1 are elsewhere"


def test_a_pod_that_was_bound_outside_of_the_gangs_switchbox_is_told() -> None:
    cluster = Cluster(dragonflies(3, 3))
    leader = Leader.over(cluster)
    cluster.submit(Job(A, within(6), binding=Binding.PIECEMEAL))
    leader.settle(schedule=False)
    uids = cluster.uids(A)
    homes = {member.nominated.split("-")[0] for member in cluster.members(A) if member.nominated}
    assert len(homes) == 1
    far = "n2" if homes == {"n1"} else "n1"
    for uid in uids[:4]:
        nominated = cluster.pods[uid].nominated
        assert nominated is not None
        cluster.bind(uid, nominated)
    for uid, node in zip(uids[4:], (f"{far}-1-1", f"{far}-1-2"), strict=True):
        cluster.bind(uid, NodeName(node))
    leader.settle()
    assert stands(leader).state is GangState.SPLIT
    assert "its pods share no switchbox: those of group 2" in stands(leader).text


@pytest.mark.parametrize("binding", BOTH)
@pytest.mark.parametrize("gated", [True, False])
def test_a_gang_that_runs_is_judged_anew_where_its_nodes_come_into_other_groups(
    binding: Binding,
    gated: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    cluster, leader = slipped(job("a", 4, binding=binding), WHOLE)
    if gated:
        cluster.end(A)
        cluster.submit(job("a", 4, binding=binding))
        leader.settle()
    assert stands(leader).state is GangState.BOUND
    ran = cluster.bound(A)
    elsewhere = next(node for node in cluster.homes() if node not in ran.values())
    cluster.swap(ran[0], elsewhere)
    leader.settle()
    assert stands(leader).state is GangState.SPLIT
    assert stands(leader).text == "pods of group 0 run in several domains"
    cluster.swap(ran[0], elsewhere)
    leader.settle()
    assert stands(leader).state is GangState.BOUND
    assert cluster.bound(A) == ran, "what runs is not moved for it"
    said = [each.state for each in leader.said]
    assert said.count(GangState.SPLIT) == 1


@pytest.mark.parametrize("size", [16, 32])
@pytest.mark.parametrize("kind", [None, SWITCHBOX])
def test_of_a_gang_that_others_bound_apart_the_rest_is_bound_and_it_is_told_once(
    size: int, kind: Kind | None
) -> None:
    """What runs is a fact: the others are not moved for it again and again."""
    cluster = Cluster(dragonflies(3, 3))
    leader = Leader.over(cluster)
    cluster.submit(Job(A, replace(within(4, size), within=kind), binding=Binding.PIECEMEAL))
    leader.settle(schedule=False)
    for uid, node in zip(cluster.uids(A), ("n1-3-1", "n1-3-2", "n2-3-1"), strict=False):
        cluster.bind(uid, NodeName(node))
    leader.settle(schedule=False)
    leader.settle()
    assert len(cluster.bound(A)) == 4
    assert stands(leader).state is (GangState.SPLIT if size == 32 or kind else GangState.BOUND)
    assert [each.state for each in leader.said].count(GangState.SPLIT) <= 1
