import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.placement.asked import planned
from tests.placement.oracle.worlds import capacities, policies, requests
from tests.support.capacity import partly_free
from topo.model.ids import DRAGONFLY, SWITCHBOX, GroupName, GroupPath, NodeName
from topo.placement.advice.explain import MOST_PODS, explain
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.host import Host
from topo.placement.engine import place
from topo.placement.job.plan import Plan, Rejected, objective_names, objective_values
from topo.placement.job.request import PlacementMode, Request

NUMBER = re.compile(r"(?<![\w/-])\d+(?![\w/-])")
"""A number that stands alone: those in names of nodes and groups prove nothing."""
LACK = re.compile(r"the fullest (?:one has|(\d+) \S+ have) room for (\d+) of (\d+) (pod|group)")

OTHER = re.compile(r"the best alternative, .*, (?:(takes|splits|leaves|has)|(breaks into)) (\d+)")
FEWER = re.compile(r"would leave (-?\d+) ")


def sentence(capacity: Capacity, plan: Plan, name: str) -> str:
    found = explain(capacity, plan)
    return found[objective_names(len(plan.objective.span)).index(name)]


@settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(st.data(), policies)
def test_every_objective_has_a_sentence_and_no_sentence_is_without_its_number(data, policy):
    capacity = data.draw(capacities(policy))
    plan = place(capacity, data.draw(requests()))
    assume(isinstance(plan, Plan))
    assert isinstance(plan, Plan)
    told = explain(capacity, plan)
    assert len(told) == len(objective_names(capacity.tiers))
    for text in told:
        assert NUMBER.search(text), text
        assert text.endswith(".")
    assert told == explain(capacity.copy(), plan)


@settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(st.data(), policies)
def test_an_alternative_is_named_with_a_number_that_is_worse_than_the_plans(data, policy):
    capacity = data.draw(capacities(policy))
    plan = place(capacity, data.draw(requests()))
    assume(isinstance(plan, Plan))
    assert isinstance(plan, Plan)
    own = objective_values(plan.objective)
    for name, text in zip(objective_names(capacity.tiers), explain(capacity, plan), strict=True):
        if found := OTHER.search(text):
            worse, number = found[1] or found[2], int(found[3])
            assert number < own[name] if worse == "leaves" else number > own[name], text
        if found := FEWER.search(text):
            assert int(found[1]) > 0, text


@given(
    st.lists(
        st.lists(st.integers(0, 8), min_size=1, max_size=4).map(tuple), min_size=1, max_size=4
    ),
    st.integers(1, 40),
    st.sampled_from((16, 32, 64)),
)
def test_what_the_fullest_groups_have_room_for_is_what_a_count_by_hand_gives(free, pods, size):
    capacity = partly_free(*free)
    plan = place(capacity, Request(pods=pods, gpus_per_pod=8, group_size=size))
    assume(isinstance(plan, Plan))
    assert isinstance(plan, Plan)
    k = size // 8
    rooms = {
        "top_groups": ([sum(n // k for n in top) for top in free], [sum(top) for top in free]),
        "tier1_groups": ([n // k for top in free for n in top], [n for top in free for n in top]),
    }
    for name, (groups, slots) in rooms.items():
        found = LACK.search(sentence(capacity, plan, name))
        if found is None:
            continue
        several, room, needed, unit = int(found[1] or 1), int(found[2]), int(found[3]), found[4]
        counts = groups if unit == "group" else slots
        assert room == sum(sorted(counts)[-several:]) < needed
        assert needed == (pods // k if unit == "group" else pods)


def test_two_switchboxes_are_explained_by_the_room_of_the_fullest_one():
    capacity = partly_free((8, 8, 8, 8, 8), (8, 8, 8))
    plan = planned(capacity, Request(pods=64, gpus_per_pod=8, group_size=64))
    assert sentence(capacity, plan, "top_groups") == (
        "2 switchboxes: the fullest one has room for 5 of 8 groups, so 1 cannot do."
    )
    assert sentence(capacity, plan, "tier1_groups") == (
        "8 dragonflies: the fullest 7 dragonflies have room for 7 of 8 groups, so 7 cannot do."
    )


def test_a_single_group_is_named_and_needs_no_further_proof():
    capacity = partly_free((3, 8), (8,))
    plan = planned(capacity, Request(pods=3, gpus_per_pod=8, group_size=64))
    assert explain(capacity, plan)[:3] == (
        "0 of 1 group is split over several dragonflies; 0 is the least there is.",
        "1 switchbox, s1; 1 is the least there is.",
        "1 dragonfly, s1/d1; 1 is the least there is.",
    )


def test_split_groups_are_explained_by_the_whole_groups_there_is_room_for():
    capacity = partly_free((4, 4), (8,))
    request = Request(pods=16, gpus_per_pod=8, group_size=64, mode=PlacementMode.PREFERRED)
    assert sentence(capacity, planned(capacity, request), "split_groups") == (
        "1 of 2 groups is split over several dragonflies: "
        "there is room for 1 whole group of the 2 needed."
    )


def test_the_free_groups_that_a_plan_takes_are_told_by_how_their_sizes_change():
    capacity = partly_free((8, 8), (8,))
    plan = planned(capacity, Request(pods=8, gpus_per_pod=8, group_size=64))
    text = sentence(capacity, plan, "free_profile_top")
    assert text.startswith("1 switchbox goes from 1 free group to 0")
    assert sentence(capacity, plan, "whole_groups_left").startswith(
        "2 whole groups of 64 GPUs stay free"
    )


def test_a_plan_that_leaves_every_group_alone_says_so_with_a_zero():
    capacity = partly_free((5,))
    plan = planned(capacity, Request(pods=1, gpus_per_pod=8))
    assert sentence(capacity, plan, "free_profile_top").startswith(
        "0 switchboxes change in their free groups"
    )


def refused(plan: Plan, name: str, **changed: object) -> Plan:
    value = replace(plan.objective, **changed)  # type: ignore[arg-type]
    path = GroupPath((GroupName("s2"), GroupName("d1")))
    return replace(plan, rejected=(Rejected(name, (path,), value),))


@pytest.mark.parametrize(
    ("name", "changed", "ending"),
    [
        ("split_groups", {"split_groups": 3}, None),
        ("top_groups", {"span": (4, 8)}, "; the best alternative, s2/d1, takes 4."),
        ("tier1_groups", {"span": (2, 9)}, "; the best alternative, s2/d1, takes 9."),
        ("whole_groups_left", {"whole_groups_left": 0}, "the best alternative, s2/d1, leaves 0."),
        (
            "free_profile_top",
            {"profile_top": ((5, -1), (0, 1))},
            "; s2/d1 would leave 1 switchbox fewer with 5 free groups.",
        ),
        (
            "free_profile_tier1",
            {"profile_tier1": ((8, -9), (0, 9))},
            "; s2/d1 would leave 1 dragonfly fewer with 8 free slots.",
        ),
        ("newly_broken", {"newly_broken": 7}, "; the best alternative, s2/d1, breaks into 7."),
        ("penalty", {"penalty": 12}, "; the best alternative, s2/d1, has 12."),
    ],
)
def test_the_best_alternative_is_named_where_it_lost_with_the_number_that_refused_it(
    name, changed, ending
):
    capacity = partly_free((8, 8, 8, 8, 8), (8, 8, 8, 8))
    plan = planned(capacity, Request(pods=64, gpus_per_pod=8, group_size=64))
    own = replace(
        plan.objective,
        profile_top=((4, -1), (0, 1)),
        profile_tier1=((8, -8), (0, 8)),
    )
    plan = replace(plan, objective=own)
    text = sentence(capacity, refused(plan, name, **changed), name)
    assert text.endswith(ending or "; 0 is the least there is.")


def test_a_value_that_nothing_proves_says_so_with_its_bound():
    capacity = partly_free((8, 8), (8,))
    plan = planned(capacity, Request(pods=8, gpus_per_pod=8, group_size=64))
    loose = replace(
        plan,
        objective=replace(plan.objective, newly_broken=2, penalty=3),
        bounds={**plan.bounds, "newly_broken": 1, "penalty": None},
        certified=dict.fromkeys(plan.certified, False),
    )
    assert sentence(capacity, loose, "newly_broken") == (
        "2 untouched dragonflies are broken into; "
        "the best that was found, without proof: the bound is 1."
    )
    assert sentence(capacity, loose, "penalty") == (
        "The penalty of its nodes is 3; the best that was found, without proof."
    )


def test_a_certified_value_without_a_bound_is_called_proven():
    capacity = partly_free((8,))
    plan = planned(capacity, Request(pods=8, gpus_per_pod=8, group_size=64))
    proven = replace(
        plan,
        bounds=dict.fromkeys(plan.bounds),
        certified=dict.fromkeys(plan.certified, True),
    )
    for name in ("whole_groups_left", "free_profile_top", "free_profile_tier1"):
        assert "proven the best" in sentence(capacity, proven, name)


def test_with_one_tier_both_names_of_it_have_their_sentence():
    capacity = Capacity()
    path = GroupPath((GroupName("d1"),))
    for node in ("n1", "n2"):
        host = Host(name=NodeName(node), path=path, kinds=(DRAGONFLY,), tiers=(1,), gpus=8)
        capacity.upsert(host)
    plan = planned(capacity, Request(pods=2, gpus_per_pod=8))
    told = explain(capacity, plan)
    assert told[1] == told[2] == "1 dragonfly, d1; 1 is the least there is."
    assert len(told) == len(objective_names(1))


def test_of_a_plan_with_many_pods_bounds_alone_are_told():
    capacity = partly_free((8,) * 8, (8,) * 4, (8,) * 5)
    few, many = (
        planned(capacity, Request(pods=pods, gpus_per_pod=8, group_size=64))
        for pods in (MOST_PODS, MOST_PODS + 1)
    )
    assert "alternative" in " ".join(explain(capacity, few))
    assert "alternative" not in " ".join(explain(capacity, many))


def test_the_most_whole_groups_left_are_the_most_of_placements_that_are_as_good_before():
    """A type that would leave more, but needs more switchboxes, makes the sentence no lie."""
    capacity = Capacity()
    for top, (gpu_type, pairs) in enumerate((("A", 2), *[("B", 1)] * 7), start=1):
        for inner in range(1, pairs + 1):
            for number in (1, 2):
                path = GroupPath((GroupName(f"s{top}"), GroupName(f"d{inner}")))
                name = NodeName(f"n-{top}-{inner}-{number}")
                capacity.upsert(Host(name=name, path=path, kinds=(SWITCHBOX, DRAGONFLY),
                                     tiers=(2, 1), gpus=8, gpu_type=gpu_type))  # fmt: skip
    job = Request(pods=4, gpus_per_pod=8, group_size=16)
    plan = planned(capacity, job)
    on_b = planned(capacity, replace(job, eligible=replace(job.eligible, gpu_type="B")))
    assert (plan.gpu_type, plan.objective.span, on_b.objective.span) == ("A", (1, 2), (2, 2))
    assert plan.bounds["whole_groups_left"] == 0 < on_b.objective.whole_groups_left == 5
    assert sentence(capacity, plan, "whole_groups_left") == (
        "0 whole groups of 16 GPUs stay free; 0 is the most there can be, given the numbers before."
    )
