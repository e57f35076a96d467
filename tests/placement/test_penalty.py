"""Of equal placements the one on nodes of the least penalty is taken, in every tier."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.placement.asked import job, planned
from tests.placement.oracle.worlds import capacities, policies, requests
from tests.support.capacity import capacity_of, host
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.penalties import Penalties
from topo.placement.engine import find_best
from topo.placement.job.policy import Policy
from topo.placement.quality.measure import effect_of
from topo.placement.search.equal_domains import _Exchange, with_least_penalty
from topo.placement.view import view_of

PAIRS = Policy(canonical_gpus=16)


def boxes(*penalties: tuple[int, ...], size: int = 2) -> Capacity:
    """A switchbox for each sequence, a dragonfly of `size` nodes for each penalty in it."""
    return capacity_of(
        (
            host(f"n{s}-{d}-{n}", (f"s{s}", f"d{s}-{d}"), penalty=penalty)
            for s, inside in enumerate(penalties, start=1)
            for d, penalty in enumerate(inside, start=1)
            for n in range(size)
        ),
        PAIRS,
    )


def penalty(capacity: Capacity, pods: int, group_size: int = 16) -> int:
    return planned(capacity, job(pods, group_size=group_size)).objective.penalty


def test_pairs_go_to_the_dragonflies_of_a_switchbox_that_have_the_least_penalty() -> None:
    assert penalty(boxes((1, 1, 0, 2, 0)), 4) == 0
    assert penalty(boxes((1, 1, 0, 2, 0)), 6) == 2


def test_of_three_dragonflies_of_one_node_two_of_them_hybrid_a_job_takes_one_hybrid_node() -> None:
    assert penalty(boxes((1, 1, 0), size=1), 2, 8) == 1


def test_of_equal_switchboxes_the_one_with_the_least_penalty_is_taken() -> None:
    assert penalty(boxes((1, 0, 1), (0, 0, 1), (1, 1, 1)), 6) == 2
    assert penalty(boxes((1, 0, 1), (1, 1, 1), (0, 0, 1)), 4) == 0


def test_a_job_beyond_the_budget_of_exact_search_takes_the_switchboxes_without_a_penalty() -> None:
    hybrid, training = ((1,) * 8,) * 30, ((0,) * 8,) * 10
    assert penalty(boxes(*hybrid, *training), 160) == 0


def test_a_pod_that_is_alone_in_its_dragonfly_goes_where_it_costs_least() -> None:
    capacity = boxes((1, 1, 0, 1))
    plan = planned(capacity, job(5, group_size=16))
    assert plan.objective.penalty == 3
    assert planned(boxes((3, 0, 1)), job(3, group_size=16)).objective.penalty == 1


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_equal_domains_change_places_and_no_number_but_the_penalty_changes(data) -> None:
    capacity = data.draw(capacities(data.draw(policies), 20))
    request = data.draw(requests(20))
    for gpu_type in capacity.types_for(request.eligible):
        view = view_of(capacity, request, gpu_type)
        assume(request.within is None and view.penalties is not None)
        found = find_best(view, request)
        if found is None:
            continue
        before = found.found.allocation
        after = with_least_penalty(found.view, before)
        one, other = (effect_of(found.view, each.tier1_pods) for each in (before, after))
        assert one[:-1] == other[:-1]
        assert other.penalty <= one.penalty
        assert sorted(s[1:] for s in before.shares) == sorted(s[1:] for s in after.shares)
        shape = found.view.shape
        of = found.view.layout.of[shape.tier]
        for share in after.shares:
            inside = sum(n for at, n in after.tier1_pods.items() if of[at] == share.domain)
            assert inside == shape.pods_in(share)
        assert all(found.view.free[at] >= pods for at, pods in after.tier1_pods.items())


def flat(penalties: Sequence[int], size: int = 2) -> Capacity:
    """A dragonfly of `size` nodes for each penalty, in no switchbox."""
    return capacity_of(
        (
            host(f"n{d}-{n}", (f"d{d}",), penalty=penalty)
            for d, penalty in enumerate(penalties)
            for n in range(size)
        ),
        PAIRS,
    )


def test_of_hundreds_of_equal_dragonflies_the_last_is_taken_if_it_alone_has_no_penalty() -> None:
    assert penalty(flat([1] * 64 + [0]), 2) == 0
    assert penalty(flat([1] * 299 + [0]), 2) == 0


@pytest.mark.parametrize("pods", [2, 40, 80, 81, 200])
def test_no_pod_is_on_a_hybrid_node_while_the_last_half_of_the_dragonflies_is_training(pods):
    assert penalty(flat([1] * 100 + [0] * 100), pods) == 0


def test_of_hundreds_of_nodes_in_no_group_those_without_a_penalty_are_taken() -> None:
    capacity = capacity_of((host(f"n{n}", penalty=n < 200) for n in range(400)), PAIRS)
    assert penalty(capacity, 200, 8) == 0
    assert penalty(capacity, 250, 8) == 50


def test_each_dragonfly_is_looked_at_a_few_times_however_many_the_job_uses(monkeypatch) -> None:
    looks = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def look(*args: object) -> object:
            nonlocal looks
            looks += 1
            return function(*args)

        return look

    monkeypatch.setattr(Penalties, "of", counted(Penalties.of))
    monkeypatch.setattr(_Exchange, "placed", counted(_Exchange.placed))
    capacity = flat([n % 3 for n in range(600)])
    # 401 pods: 200 dragonflies give a pair, and one a single pod. 200 cost nothing.
    assert penalty(capacity, 401) == 1
    assert penalty(capacity, 801) == 2 * 200 * 1 + 2
    assert looks < 2 * 24 * 600


@given(st.lists(st.integers(0, 3), min_size=2, max_size=6), st.integers(1, 6))
def test_equal_shares_are_on_the_cheapest_of_equal_dragonflies(penalties, groups) -> None:
    assume(groups <= len(penalties))
    assert penalty(flat(penalties), 2 * groups) == 2 * sum(sorted(penalties)[:groups])
