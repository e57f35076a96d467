"""Groups that are kept for others: when they are spent, and when not."""

import pytest

from tests.placement.asked import job, planned, two_types
from tests.support.capacity import cluster, shares
from topo.model.ids import GroupName, GroupPath
from topo.placement.job.policy import Policy
from topo.placement.job.request import PlacementMode


def test_a_reserve_of_one_type_is_not_spent_where_the_job_fits_on_another():
    kept = ((GroupPath((GroupName("s1"),)), 1),)
    policy = Policy(canonical_gpus=16, reserves=kept)
    capacity = two_types(cluster((2,), policy=policy), (2,))
    plan = planned(capacity, job(2, group_size=16))
    assert (plan.gpu_type, plan.used_reserve) == ("B", False)


def test_a_reserve_is_used_only_when_nothing_else_fits():
    path = GroupPath((GroupName("s1"), GroupName("d1")))
    capacity = cluster((8,), (16,), policy=Policy(reserves=((path, 1),)))
    first = planned(capacity, job(8))
    assert (shares(first), first.used_reserve) == ({"2/1": 8}, False)
    capacity.book("first", {name: 8 for name, _ in first.groups[0].pods})
    second = planned(capacity, job(16))
    assert (shares(second), second.used_reserve) == ({"1/1": 8, "2/1": 8}, True)
    outer = GroupPath((GroupName("s2"),))
    capacity = cluster((8,), (16,), policy=Policy(reserves=((outer, 1),)))
    assert shares(planned(capacity, job(16))) == {"1/1": 8, "2/1": 8}


@pytest.mark.parametrize(
    ("tops", "pods", "k", "taken"),
    [
        pytest.param(((2, 2, 1, 1), (2,)), 4, 2, 32, id="dragonflies of two nodes"),
        pytest.param(((3, 2), (2,)), 5, 3, 16, id="a tail that fits elsewhere"),
    ],
)
def test_a_reserve_is_not_spent_where_another_choice_of_what_is_kept_leaves_room(
    tops, pods, k, taken
):
    kept = ((GroupPath((GroupName("s1"),)), 1),)
    capacity = cluster(*tops, policy=Policy(canonical_gpus=taken, reserves=kept))
    plan = planned(capacity, job(pods, group_size=8 * k))
    assert not plan.used_reserve
    assert plan.objective.span[0] == 2


def test_a_reserve_of_a_thousand_dragonflies_is_kept_like_one_of_two():
    kept = ((GroupPath((GroupName("s1"),)), 1050),)
    capacity = cluster((2,) * 1100, (2,), policy=Policy(canonical_gpus=16, reserves=kept))
    plan = planned(capacity, job(102, group_size=16))
    assert (plan.used_reserve, plan.objective.span) == (False, (2, 51))
    assert shares(plan)["2/1"] == 2
    plan = planned(capacity, job(104, group_size=16))
    assert (plan.used_reserve, plan.objective.span) == (True, (1, 52))


def test_a_group_kept_in_a_part_of_a_reserve_counts_for_it_too():
    s1, d1 = GroupPath((GroupName("s1"),)), GroupPath((GroupName("s1"), GroupName("d1")))
    policy = Policy(canonical_gpus=16, reserves=((s1, 1), (d1, 1)))
    plan = planned(cluster((2, 2), (1,), policy=policy), job(2, group_size=16))
    assert (shares(plan), plan.used_reserve) == ({"1/2": 2}, False)
    plan = planned(cluster((2, 2, 2), (1,), policy=policy), job(5, group_size=16))
    assert (plan.used_reserve, plan.objective.span) == (False, (2, 3))


def test_a_reserve_binds_only_the_plans_that_would_break_it():
    capacity = cluster((16, 8), policy=Policy(reserves=((GroupPath((GroupName("s1"),)), 1),)))
    for size, mode in (
        (64, PlacementMode.REQUIRED),
        (128, PlacementMode.REQUIRED),
        (128, PlacementMode.PREFERRED),
    ):
        plan = planned(capacity, job(16, group_size=size, mode=mode))
        assert (shares(plan), plan.used_reserve) == ({"1/1": 16}, False), "1/2 is kept free"
        assert all(plan.certified.values())


def test_a_reserve_is_spent_before_a_group_is_split():
    kept = ((GroupPath((GroupName("s1"), GroupName("d1"))), 1),)
    capacity = cluster((8, 4, 4), policy=Policy(reserves=kept))
    plan = planned(capacity, job(8, mode=PlacementMode.PREFERRED))
    assert (shares(plan), plan.used_reserve) == ({"1/1": 8}, True)
    assert plan.objective.split_groups == 0
