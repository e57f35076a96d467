"""The worked examples at the head of the files of placement, played."""

from dataclasses import replace

from tests.support.capacity import cluster
from topo.model.ids import GroupName, GroupPath, NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.engine import place
from topo.placement.job.plan import Plan
from topo.placement.job.policy import Policy
from topo.placement.job.request import Eligibility, Request
from topo.placement.quality.certificate import certified_by
from topo.placement.quality.measure import measure
from topo.placement.search.policies import reserve_taken_from, ways_to_keep
from topo.placement.view import view_of

PAIR = Request(pods=2, gpus_per_pod=8, group_size=16, eligible=Eligibility(gpu_type="A"))
SWITCHBOX = GroupPath((GroupName("s1"),))


def pairs(*switchboxes: tuple[int, ...]) -> Capacity:
    """Dragonflies of two nodes, so many of each free; a pair is what the policy keeps whole."""
    return cluster(*switchboxes, policy=Policy(canonical_gpus=16), size=2)


def test_a_reserve_is_kept_where_it_costs_the_job_least_and_missed_when_no_pair_is_left() -> None:
    capacity = cluster((8, 6, 5, 4), policy=Policy(canonical_gpus=32), size=8)
    threes = replace(PAIR, pods=6, group_size=24)
    ways = [way.tolist() for way in ways_to_keep(view_of(capacity, threes, "A"), [(SWITCHBOX, 1)])]
    assert ways == [[8, 6, 5, 0], [8, 6, 1, 4], [4, 6, 5, 4], [8, 2, 5, 4]]
    reserves = [(SWITCHBOX, 1)]
    view = view_of(pairs((2, 2, 1, 0)), PAIR, "A")
    assert [way.tolist() for way in ways_to_keep(view, reserves)] == [[0, 2, 1, 0]]
    assert reserve_taken_from(view, {1: 2}, reserves) is None
    assert reserve_taken_from(view, {0: 2, 1: 1}, reserves) == SWITCHBOX


def test_a_plan_that_meets_its_bounds_is_proven_and_one_that_spans_more_is_not() -> None:
    best = place(pairs((2, 2, 2, 2), (2, 2, 2, 2)), replace(PAIR, pods=6))
    assert isinstance(best, Plan)
    named = ("top_groups", "tier1_groups", "whole_groups_left")
    assert [best.bounds[name] for name in named] == [1, 3, 5]
    assert all(best.certified[name] for name in named)
    worse = certified_by(best.bounds, replace(best.objective, span=(2, 3)))
    assert not any(worse[name] for name in named)


def test_a_pod_goes_where_no_pair_is_lost() -> None:
    capacity = pairs((2, 2, 1))
    first, third = (
        measure(capacity, PAIR, [((NodeName(name), 1),)]) for name in ("n1-1-1", "n1-3-1")
    )
    assert (first.profile_tier1, first.newly_broken) == (((2, -1), (1, 1)), 1)
    assert (third.profile_tier1, third.newly_broken) == (((1, -1), (0, 1)), 0)
    assert third.whole_groups_left == first.whole_groups_left + 1
