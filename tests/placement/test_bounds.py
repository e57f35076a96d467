"""Bounds are never beaten, and what is called proven is."""

from itertools import combinations
from unittest.mock import patch

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.capacity import cluster
from topo.placement.capacity.layout import children
from topo.placement.engine import place
from topo.placement.exact.fewest_children import fewest_children
from topo.placement.exact.knapsack import Knapsack
from topo.placement.job.plan import Plan, objective_values
from topo.placement.job.policy import Policy
from topo.placement.job.request import PlacementMode, Request
from topo.placement.quality.certificate import least_domains, least_inside
from topo.placement.quality.measure import candidate_of
from topo.placement.search import domain_bounds as bounds_module
from topo.placement.search.domain_bounds import domain_bounds
from topo.placement.search.group_shares import FEW, fewest_domains
from topo.placement.search.window_rule import fewest, window
from topo.placement.view import view_of
from topo.placement.whole_groups import best_whole

EVERY = 1_000
"""More domains than any test has: no bound stops early because it says as many."""
free_slots = st.lists(st.integers(0, 12), min_size=1, max_size=8)


@given(free_slots, st.integers(1, 30))
def test_the_window_leaves_the_largest_capacities_of_all_choices_of_as_few(capacities, need):
    ranked = sorted(capacities, reverse=True)
    count = fewest(ranked, need)
    if count is None:
        assert sum(ranked) < need
        return
    chosen = [ranked[i] for i in window(ranked, ranked, count, need)]
    ways = [each for each in combinations(ranked, count) if sum(each) >= need]
    assert not any(sum(each) >= need for each in combinations(ranked, count - 1))
    assert sorted(chosen, reverse=True) == min(sorted(each, reverse=True) for each in ways)


def fits(free: tuple[int, ...], k: int, m: int, r: int) -> bool:
    """Whether domains with so much free hold m groups and a tail, by trying each as its host."""
    whole = sum(slots // k for slots in free)
    if not r:
        return whole >= m
    return any(slots >= r and whole - slots // k + (slots - r) // k >= m for slots in free)


@given(free_slots, st.integers(1, 4), st.integers(0, 5), st.integers(0, 3))
def test_a_job_takes_the_fewest_domains_that_hold_it(free, k, m, r):
    r %= k
    if not m and not r:
        return
    ways = [*fewest_domains(range(len(free)), np.array(free), k, (m, r))]
    among_many = np.array(free + [0] * FEW)
    assert [*fewest_domains(range(len(among_many)), among_many, k, (m, r))] == ways
    sizes = range(1, len(free) + 1)
    least = next((q for q in sizes if any(fits(w, k, m, r) for w in combinations(free, q))), None)
    assert bool(ways) == (least is not None)
    for shares in ways:
        used = [share for share in shares if share.groups or share.tail]
        assert len(used) == least
        assert sum(share.groups for share in used) == m
        assert sum(share.tail for share in used) == (r > 0)
        for share in used:
            assert share.groups * k + (r if share.tail else 0) <= free[share.domain]


@given(
    st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=4), min_size=1, max_size=4),
    st.integers(1, 4),
    st.integers(1, 14),
)
@example([[1, 10], [2]], 3, 11)
def test_bounds_of_each_tier_are_reached_or_lower_by_every_choice(tops, k, pods):
    capacity = cluster(*tops, policy=Policy(canonical_gpus=32))
    request = Request(pods=pods, gpus_per_pod=8, group_size=8 * k)
    answer = place(capacity, request)
    if not isinstance(answer, Plan):
        return
    view = view_of(capacity, request, "A")
    least = [least_domains(view, tier, EVERY, split=False) for tier in (2, 1)]
    assert list(answer.objective.span) >= least
    assert answer.objective.span[0] == least[0]
    assert answer.certified["top_groups"]


@given(st.lists(free_slots, min_size=1, max_size=5), st.integers(1, 20))
def test_the_fewest_children_are_counted_for_all_domains_at_once(rows, need):
    caps = np.array([cap for row in rows for cap in row])
    starts = np.cumsum([0, *map(len, rows[:-1])])
    able = np.array([i for i, row in enumerate(rows) if sum(row) >= need], np.intp)
    if not able.size:
        return
    found = least_inside(caps, children(starts, len(caps)), able, np.full(len(able), need))
    assert found.tolist() == [fewest(sorted(rows[i], reverse=True), need) for i in able]


@given(st.lists(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9)), max_size=3), max_size=4))
def test_the_knapsack_finds_the_cheapest_and_can_say_how(items):
    knapsack = Knapsack(5, 0)
    options = [[(x, 0, cost) for x, cost in item] for item in items]
    costs = {0: 0}
    for item in options:
        knapsack.add(item)
        more = {(g + x): c + cost for g, c in costs.items() for x, _, cost in item if g + x <= 5}
        for g, c in list(costs.items()):
            for x, _, cost in item:
                if g + x <= 5:
                    more[g + x] = min(more.get(g + x, 1 << 30), c + cost)
        costs = {g: min(costs.get(g, 1 << 30), more.get(g, 1 << 30)) for g in costs | more}
    assert {g: c for g, c in enumerate(knapsack.table) if c is not None} == costs
    for groups, cost in costs.items():
        picks = knapsack.picks(groups, 0)
        assert sum(x for _, x, _ in picks) == groups
        least = [min(c for x, _, c in options[i] if x == y) for i, y, _ in picks]
        assert sum(least) == cost


def test_fewer_children_are_found_where_the_window_of_the_top_tier_misses_them():
    capacity = cluster((24,), (24,), (8, 8, 8, 8), (8, 8, 8, 8))
    view = view_of(capacity, Request(pods=48, gpus_per_pod=8, group_size=64), "A")
    wanted, exact = fewest_children(view, 2, (2, 8))
    assert exact
    assert wanted == [(0, (3, False)), (1, (3, False))]
    assert fewest_children(view, 2, (2, 2)) == ([], True)


def test_a_split_plan_is_bounded_by_slots_alone():
    capacity = cluster((4, 4), (4, 4), size=8)
    request = Request(pods=8, gpus_per_pod=8, group_size=64, mode=PlacementMode.PREFERRED)
    plan = place(capacity, request)
    assert isinstance(plan, Plan)
    assert (plan.bounds["split_groups"], plan.certified["split_groups"]) == (1, True)
    assert (plan.bounds["top_groups"], plan.bounds["tier1_groups"]) == (1, 2)
    assert plan.certified["tier1_groups"]


def test_bounds_have_the_names_of_the_objective_in_its_order():
    plan = place(cluster((8, 8), (8,)), Request(pods=8, gpus_per_pod=8, group_size=64))
    assert isinstance(plan, Plan)
    assert list(plan.bounds) == list(plan.certified) == list(objective_values(plan.objective))
    assert all(plan.certified.values())


@given(
    st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=4), min_size=2, max_size=4),
    st.integers(1, 4),
    st.integers(2, 14),
    st.sampled_from((64, 32, 16, 128)),
)
@example([[11, 8, 9], [11, 9, 9]], 3, 12, 64)
@example([[8, 8, 4], [8, 8, 8]], 8, 20, 64)
def test_nothing_better_is_in_a_domain_that_is_said_to_improve_nothing(tops, k, pods, canonical):
    capacity = cluster(*tops, policy=Policy(canonical_gpus=canonical))
    view = view_of(capacity, Request(pods=pods, gpus_per_pod=8, group_size=8 * k), "A")
    if not view.group_can_fit:
        return
    able = (view.holds(2) >= view.shape.m).nonzero()[0]
    if not able.size:
        return
    firsts = view.layout.firsts[2]
    keys = {}
    bounds = domain_bounds(view, 2, able)
    for bound in bounds:
        free = view.free * 0
        inside = slice(firsts[bound.domain], firsts[bound.domain + 1])
        free[inside] = view.free[inside]
        found = best_whole(view.only(free), 2)
        assert found is not None
        keys[bound.domain] = candidate_of(view, found.allocation).key[:6]
    for bound in bounds:
        for key in keys.values():
            assert not bound.cannot_improve(key) or key <= keys[bound.domain]


@given(
    st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=5), min_size=1, max_size=4),
    st.sampled_from((1, 2, 3, 4)),
    st.integers(1, 20),
    st.sampled_from((16, 24, 32, 64)),
    st.integers(0, 3),
)
def test_bounds_of_a_few_domains_are_those_that_numpy_finds(tops, k, pods, canonical_gpus, kept):
    capacity = cluster(*tops, policy=Policy(canonical_gpus=canonical_gpus))
    view = view_of(capacity, Request(pods=pods, gpus_per_pod=8, group_size=8 * k), "A")
    view = view.only(np.maximum(view.free - kept, 0)) if kept else view
    able = np.flatnonzero(view.holds(2) >= view.shape.m)
    if view.shape.tier != 1 or not able.size or view.free.max() >= pods:
        return
    listed = [*domain_bounds(view, 2, able)]
    with patch.object(bounds_module, "FEW", 0):
        assert [*domain_bounds(view, 2, able)] == listed
