"""What is planned can be bound, and what could be bound is planned: beside every way there is."""

import random

import pytest

from tests.gangs.small_worlds import intrude, world
from topo.gangs.decisions.placed import Placed

DEALT = [
    range(300),
    *(pytest.param(range(at, at + 500), marks=pytest.mark.deep) for at in range(300, 5_300, 500)),
]
"""Seeds of worlds: 300 always, 5,000 more by `make test-deep`."""


@pytest.mark.parametrize("seeds", DEALT)
def test_a_gang_is_planned_exactly_where_all_of_its_pods_can_be_bound(seeds: range) -> None:
    """In CPUs, memory, ports and pods as in GPUs, beside its pods that run or have places."""
    wrong: dict[int, object] = {}
    for seed in seeds:
        made = world(seed)
        found = made.answer()
        if isinstance(found, Placed):
            if faults := made.faults(found):
                wrong[seed] = faults
        elif (way := next(made.every_way(), None)) is not None:
            wrong[seed] = found.text, way
    assert wrong == {}


@pytest.mark.parametrize("seeds", DEALT)
def test_a_plan_is_lost_exactly_where_its_pods_cannot_be_bound_any_more(seeds: range) -> None:
    """Somebody takes what is left of a node, or closes it, between the plan and the gates."""
    wrong: dict[int, object] = {}
    for seed in seeds:
        made = world(seed)
        found = made.answer()
        if not isinstance(found, Placed):
            continue
        assert made.lost(found) == set(), seed
        intrude(made, random.Random(seed))
        faults = {node for node in made.left if any(node in each for each in made.faults(found))}
        if (lost := made.lost(found)) != faults:
            wrong[seed] = lost, faults
    assert wrong == {}


@pytest.mark.parametrize("seeds", DEALT)
def test_a_gang_of_pods_that_differ_is_in_the_fewest_groups_of_each_tier(seeds: range) -> None:
    """Fewest split first, then switchboxes, then dragonflies; and so it is certified."""
    wrong: dict[int, object] = {}
    for seed in seeds:
        made = world(seed)
        found = made.answer() if made.request.by_rank else None
        if isinstance(found, Placed):
            cost = made.cost(made.all_places(found))
            best = min(map(made.cost, made.every_way()))
            if cost != best or not found.certified:
                wrong[seed] = cost, best, found.certified
    assert wrong == {}
