"""One more domain where that leaves more whole groups, if the operator wants it so."""

import random

import pytest

from tests.support.capacity import cluster, shares
from topo.placement.advice.explain import explain
from topo.placement.capacity.capacity import Capacity
from topo.placement.engine import place
from topo.placement.job.plan import Plan
from topo.placement.job.policy import Policy
from topo.placement.job.request import Request
from topo.placement.quality.measure import measure

TAIL = Request(pods=12, gpus_per_pod=8, group_size=64)
"""A whole group of eight nodes and half of one."""
TOPS_OF_PAIRS = ((2,) * 8, (2, 2, 1, 1), (2,) * 4)


def allowing(extra: int, *tops: tuple[int, ...], size: int = 0) -> Capacity:
    return cluster(*tops, policy=Policy(extra_domains=extra), size=size)


def planned(capacity: Capacity, request: Request = TAIL) -> Plan:
    found = place(capacity, request)
    assert isinstance(found, Plan)
    return found


def test_pairs_of_nodes_keep_a_group_whole_in_their_switchbox_by_one_more_switchbox() -> None:
    """Groups of 64 GPUs live in switchboxes here: A has two of them, B none but rests."""
    tight, loose = (planned(allowing(extra, *TOPS_OF_PAIRS[:2], size=2)) for extra in (0, 1))
    assert (tight.objective.span, tight.objective.whole_groups_left) == ((1, 6), 0)
    assert (loose.objective.span[0], loose.objective.whole_groups_left) == (2, 1)


def test_the_tail_goes_to_a_rest_elsewhere_and_a_dragonfly_stays_whole() -> None:
    tops = ((8, 8), (5,))
    tight, loose = planned(allowing(0, *tops)), planned(allowing(1, *tops))
    assert shares(tight) == {"1/1": 8, "1/2": 4}
    assert shares(loose) == {"1/1": 8, "2/1": 4}
    assert loose.objective.whole_groups_left == tight.objective.whole_groups_left + 1
    assert not loose.certified["top_groups"], "it is more than there need be, and says so"


def test_why_a_plan_uses_more_than_it_must_is_said_with_the_setting() -> None:
    capacity = allowing(1, (8, 8), (5,))
    said = explain(capacity, planned(capacity))
    assert said[1] == (
        "2 switchboxes: 1 more than the fewest may be used where that keeps more groups whole "
        "(--extra-domains); the bound is 1."
    )


def test_a_tail_may_lie_in_the_rest_of_its_own_groups_domain() -> None:
    plan = planned(allowing(1, (16, 12, 12)))
    assert plan.objective.whole_groups_left == 3
    assert plan.objective.split_groups == 0


def test_groups_smaller_than_those_kept_whole_go_to_rests() -> None:
    pairs = Request(pods=6, gpus_per_pod=8, group_size=16)
    tops = ((8, 4, 2),)
    assert shares(planned(allowing(0, *tops), pairs)) == {"1/1": 6}
    assert shares(planned(allowing(1, *tops), pairs)) == {"1/2": 4, "1/3": 2}


def random_tops(seed: int) -> tuple[tuple[int, ...], ...]:
    choice = random.Random(seed)  # noqa: S311  # seeded, no secret
    most = choice.choice((2, 8, 12, 16))
    return tuple(
        tuple(choice.randint(0, most) for _ in range(choice.randint(2, 8)))
        for _ in range(choice.randint(2, 4))
    )


@pytest.mark.parametrize("extra", [1, 2])
def test_a_plan_uses_no_more_extra_domains_than_it_may_and_only_to_keep_more_groups(
    extra: int,
) -> None:
    """Of dragonflies of two nodes and of larger ones."""
    fewer_lost = 0
    for seed in range(120):
        tops = random_tops(seed)
        choice = random.Random(seed)  # noqa: S311  # seeded, no secret
        size = choice.choice((16, 32, 64))
        job = Request(pods=choice.randint(1, 30), gpus_per_pod=8, group_size=size)
        tight, loose = place(allowing(0, *tops), job), place(allowing(extra, *tops), job)
        assert isinstance(tight, Plan) == isinstance(loose, Plan), "the same jobs fit"
        if not isinstance(tight, Plan) or not isinstance(loose, Plan):
            continue
        groups = [group.pods for group in loose.groups]
        assert measure(allowing(extra, *tops), job, groups) == loose.objective
        assert tuple(sum(pods for _, pods in group) for group in groups) == job.group_pods
        assert loose.objective.split_groups == 0
        if loose.objective == tight.objective:
            continue
        fewer_lost += 1
        assert loose.objective.whole_groups_left > tight.objective.whole_groups_left
        spans = zip(loose.objective.span, tight.objective.span, strict=True)
        assert all(now <= then + extra for now, then in spans)
    assert fewer_lost > 5
