"""Which top domains to take so that the fewest below them are used."""

import tracemalloc
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.capacity import cluster
from topo.placement.capacity.capacity import Capacity
from topo.placement.engine import place
from topo.placement.exact.fewest_children import fewest_children
from topo.placement.job.plan import Plan
from topo.placement.job.request import Request
from topo.placement.view import view_of
from topo.sim.worlds.clusters import cluster as large_cluster


def _fewest(frees: list[list[int]], k: int, need: tuple[int, int], tops: int) -> int | None:
    """By trying every number of groups in every dragonfly, the tail anywhere beside them."""
    m, r = need
    cells = [(s, free) for s, row in enumerate(frees) for free in row]
    best: int | None = None
    for counts in product(*(range(free // k + 1) for _, free in cells)):
        if sum(counts) != m:
            continue
        for tail in range(len(cells)) if r else [None]:
            used = {i for i, x in enumerate(counts) if x} | ({tail} if tail is not None else set())
            if tail is not None and cells[tail][1] - k * counts[tail] < r:
                continue
            if len({cells[i][0] for i in used}) <= tops and (best is None or len(used) < best):
                best = len(used)
    return best


rows = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=3), min_size=2, max_size=3)


@given(rows, st.integers(1, 3), st.integers(1, 6), st.integers(0, 2))
def test_no_choice_of_as_few_top_domains_needs_fewer_children(frees, k, m, r):
    r = min(r, k - 1)
    capacity = cluster(*frees, size=5)
    request = Request(pods=m * k + r, gpus_per_pod=8, group_size=8 * k)
    plan = place(capacity, request)
    if not isinstance(plan, Plan) or plan.objective.span[0] == 1:
        return
    tops = plan.objective.span[0]
    expected = _fewest(frees, k, (m, r), tops)
    assert expected is not None
    wanted, exact = fewest_children(view_of(capacity, request, "A"), 2, (tops, 100))
    assert wanted
    assert exact
    assert sum(groups for _, (groups, _) in wanted) == m
    assert plan.objective.span == (tops, expected)
    assert fewest_children(view_of(capacity, request, "A"), 2, (tops, expected)) == ([], True)


@pytest.fixture(scope="module")
def wide() -> Capacity:
    return large_cluster(6_000, "8", 0.5, 1)


@pytest.mark.parametrize("group_gpus", [1, 3])
def test_a_job_of_most_of_the_cluster_costs_little_memory(wide, group_gpus):
    request = Request(pods=15_000, gpus_per_pod=1, group_size=group_gpus)
    tracemalloc.start()
    try:
        assert isinstance(place(wide, request), Plan)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_groups_over_small_dragonflies_use_fewer_of_them_over_several_switchboxes():
    capacity = cluster((2, 1, 1, 1, 1, 1, 1), (2, 2, 2, 2), (2, 1, 1, 1, 1, 1, 1), (2, 2, 2, 2))
    plan = place(capacity, Request(pods=16, gpus_per_pod=8, group_size=64))
    assert isinstance(plan, Plan)
    assert plan.objective.span == (2, 8)
    assert plan.certified["tier1_groups"]


def test_one_wide_switchbox_beside_many_small_ones_costs_little_memory():
    capacity = cluster([1, 1] + [0] * 1_998, *([1, 1] for _ in range(1_500)), size=1)
    view = view_of(capacity, Request(pods=4, gpus_per_pod=8, group_size=16), "A")
    assert view.groups(2).tolist() == [1] * 1_501
    tracemalloc.start()
    try:
        assert fewest_children(view, 2, (2, 100)) == ([], False)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
