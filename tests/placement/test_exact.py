"""What exact search finds and proves where groups are split, or live above the lowest tier."""

import pytest

from bench.placement.instances import nested, torn
from tests.support.capacity import cluster, host
from topo.placement.capacity.capacity import Capacity
from topo.placement.engine import place
from topo.placement.job.plan import Plan
from topo.placement.job.policy import Policy
from topo.placement.job.request import PlacementMode, Request

SEEDS = range(40)


def split(capacity: Capacity, pods: int, k: int) -> Plan:
    preferred = PlacementMode.PREFERRED
    plan = place(capacity, Request(pods=pods, gpus_per_pod=8, group_size=8 * k, mode=preferred))
    assert isinstance(plan, Plan)
    assert plan.objective.split_groups
    return plan


@pytest.mark.parametrize(
    ("tops", "pods", "k", "span"),
    [
        pytest.param(((1, 1), (0, 2)), 3, 3, (2, 2), id="dragonflies of two nodes"),
        pytest.param(((0, 2), (2, 1, 2)), 6, 3, (2, 3), id="a group whole, a group split"),
        pytest.param(((1, 1, 1), (1, 0, 0)), 4, 2, (2, 4), id="dragonflies of one node"),
        pytest.param(((5, 3), (4, 1)), 12, 4, (2, 3), id="where a group fits in a dragonfly"),
    ],
)
def test_split_groups_take_the_fewest_switchboxes_and_dragonflies_and_that_is_proven(
    tops, pods, k, span
):
    size = max(max(top) for top in tops)
    plan = split(cluster(*tops, policy=Policy(canonical_gpus=16), size=size), pods, k)
    assert plan.objective.span == span
    assert all(plan.certified.values())


@pytest.mark.parametrize("instance", [nested, torn])
def test_most_plans_on_dragonflies_of_two_are_proven_to_the_last_number(instance):
    asked = [instance(seed) for seed in SEEDS]
    plans = [place(each.capacity, each.request) for each in asked]
    found = [plan for plan in plans if isinstance(plan, Plan)]
    proven = sum(all(plan.certified.values()) for plan in found)
    assert proven >= 0.9 * len(found)


def test_a_split_job_on_ten_thousand_equal_dragonflies_is_placed():
    capacity = Capacity()
    for number in range(10_000):
        capacity.upsert(host(f"n{number}", (f"s{number // 100}", f"d{number}")))
    plan = split(capacity, 512, 128)
    assert plan.objective.span == (6, 512)
