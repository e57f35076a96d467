"""Which GPUs of one node: against brute force, and on matrices whose answer is known."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topo.placement.gpus.gpu_sets import (
    BEST,
    EXACT_GPUS,
    WORST_LOSS,
    BestSets,
    Weights,
    best_sets,
    scale,
)


def islands(*sizes: int, inside: int = BEST, across: int = 2) -> Weights:
    """Full meshes side by side."""
    home = [island for island, size in enumerate(sizes) for _ in range(size)]
    return tuple(
        tuple(0 if a == b else inside if home[a] == home[b] else across for b in range(len(home)))
        for a in range(len(home))
    )


def value(weights: Weights, gpus: tuple[int, ...]) -> int:
    return sum(weights[a][b] for a, b in combinations(gpus, 2))


def brute(weights: Weights, free: tuple[int, ...], count: int) -> tuple[tuple[int, ...], int, int]:
    """The set, its value and its loss by the definition: every set is looked at."""
    whole = value(weights, free)

    def left(gpus: tuple[int, ...]) -> int:
        return value(weights, tuple(gpu for gpu in free if gpu not in gpus))

    best = min(combinations(free, count), key=lambda s: (-value(weights, s), -left(s), s))
    return best, value(weights, best), whole - left(best)


@st.composite
def machines(draw: st.DrawFn, most: int = 9) -> tuple[Weights, tuple[int, ...]]:
    """Any symmetric weights, few different ones so that sets are often equal, and a free set."""
    size = draw(st.integers(0, most))
    kinds = draw(st.lists(st.integers(0, BEST), min_size=1, max_size=3))
    pairs = {pair: draw(st.sampled_from(kinds)) for pair in combinations(range(size), 2)}
    weights = tuple(
        tuple(0 if a == b else pairs[min(a, b), max(a, b)] for b in range(size))
        for a in range(size)
    )
    free = draw(st.sets(st.sampled_from(range(size)))) if size else set()
    return weights, tuple(sorted(free))


def sets(found: BestSets) -> list[tuple[int, ...]]:
    return [choice.gpus for choice in found.sets]


@given(machines())
def test_every_choice_is_the_one_that_looking_at_every_set_finds(machine):
    weights, free = machine
    found = best_sets(weights, free)
    assert found.exact
    assert found.free == free
    assert [(c.gpus, c.value, c.lost) for c in found.sets] == [
        brute(weights, free, count) for count in range(1, len(free) + 1)
    ]


@given(machines(), st.data())
def test_of_equal_sets_the_one_with_most_wanted_rails_is_chosen_then_the_lowest_rails(
    machine, data
):
    """Rails never change a score or a loss."""
    weights, free = machine
    rail = st.none() | st.integers(0, 4)
    rails = data.draw(st.lists(rail, min_size=len(weights), max_size=len(weights)))
    wanted = data.draw(st.sets(st.integers(0, 4)))

    def preference(gpu: int) -> tuple[bool, bool, int, int]:
        return rails[gpu] not in wanted, rails[gpu] is None, rails[gpu] or 0, gpu

    order = sorted(free, key=preference)

    def key(gpus: tuple[int, ...]) -> tuple[int, int, int, list[int]]:
        left = value(weights, tuple(gpu for gpu in free if gpu not in gpus))
        on_wanted = sum(rails[gpu] in wanted for gpu in gpus)
        return -value(weights, gpus), -left, -on_wanted, sorted(map(order.index, gpus))

    found = best_sets(weights, free, rails=rails, wanted=wanted)
    assert sets(found) == [
        min(combinations(free, count), key=key) for count in range(1, len(free) + 1)
    ]
    plain = best_sets(weights, free)
    assert (found.scores, found.losses) == (plain.scores, plain.losses)


@given(machines())
def test_a_score_never_falls_with_more_gpus_nor_rises_with_fewer_free(machine):
    weights, free = machine
    some, whole = best_sets(weights, free), best_sets(weights)
    values = [choice.value for choice in some.sets]
    assert values == sorted(values)
    for choice, among_all in zip(some.sets, whole.sets, strict=False):
        assert choice.value <= among_all.value


@given(machines())
def test_every_number_of_gpus_has_a_score_and_a_loss_in_range(machine):
    weights, free = machine
    found = best_sets(weights, free)
    everyone = list(range(1, len(weights) + 1))
    assert list(found.scores) == list(found.losses) == everyone
    assert all(0 <= number <= 2000 for number in (*found.scores.values(), *found.losses.values()))
    for count in everyone[len(free) :]:
        assert (found.scores[count], found.losses[count]) == (0, WORST_LOSS)
        assert found.of_size(count) is None


@given(machines(), st.randoms(use_true_random=False))
def test_the_order_in_which_free_gpus_are_named_is_nothing(machine, random):
    weights, free = machine
    shuffled = [*free, *free]
    random.shuffle(shuffled)
    assert best_sets(weights, shuffled) == best_sets(weights, free)


@given(machines(most=7), st.integers(1, 7))
def test_taking_the_choice_costs_what_its_loss_says(machine, count):
    """The loss is what all free GPUs are worth before, less what they are worth after."""
    weights, free = machine
    found = best_sets(weights, free)
    choice = found.of_size(count)
    if choice is None:
        return
    after = best_sets(weights, set(free) - set(choice.gpus))
    left = after.sets[-1].value if after.sets else 0
    assert choice.lost == found.sets[-1].value - left


def test_four_of_two_islands_are_one_island_and_no_other_four_cost_less():
    weights = islands(4, 4)
    found = best_sets(weights)
    four = found.of_size(4)
    assert four is not None
    assert four.gpus == (0, 1, 2, 3)
    assert (four.score, four.loss) == (6 * 16, 6 * 16 + 16 * 2)
    whole = value(weights, tuple(range(8)))
    costs = {
        gpus: whole - value(weights, tuple(set(range(8)) - set(gpus)))
        for gpus in combinations(range(8), 4)
    }
    assert min(costs.values()) == four.loss
    assert [s for s, cost in costs.items() if cost == four.loss] == [(0, 1, 2, 3), (4, 5, 6, 7)]


@pytest.mark.parametrize(
    ("free", "count", "taken"),
    [
        ((0, 1, 2, 4, 5, 6, 7), 2, (0, 1)),
        ((0, 4, 5, 6, 7), 1, (0,)),
        ((0, 1, 2, 3, 5, 6, 7), 3, (5, 6, 7)),
        ((0, 1, 2, 3, 6, 7), 2, (6, 7)),
        ((1, 2, 3, 4, 5, 6, 7), 4, (4, 5, 6, 7)),
    ],
)
def test_a_broken_island_is_used_before_a_whole_one(free, count, taken):
    choice = best_sets(islands(4, 4), free).of_size(count)
    assert choice is not None
    assert choice.gpus == taken


def test_four_gpus_cost_least_where_others_want_them_least():
    """What HAMi's binpack compares: a node with one island left, two islands, a mesh of eight."""
    left = best_sets(islands(4, 4), range(4, 8)).losses[4]
    two_islands = best_sets(islands(4, 4)).losses[4]
    mesh = best_sets(islands(8)).losses[4]
    assert 2000 - left > 2000 - two_islands > 2000 - mesh


def test_the_scale_is_the_sum_up_to_sixteen_gpus_and_keeps_the_order_above():
    assert scale(0) == 0
    assert best_sets(islands(16)).scores[16] == scale(1920) == 1920
    assert scale(1921) == 1921
    steps = [scale(total) for total in range(0, 140_000, 7)]
    assert steps == sorted(steps)
    assert scale(BEST * 128 * 127 // 2) == steps[-1] == 2000


@pytest.mark.parametrize("size", [EXACT_GPUS + 1, 32])
def test_above_sixteen_it_is_greedy_and_still_right_in_islands_and_meshes(size):
    mesh = best_sets(islands(size))
    assert not mesh.exact
    assert [c.gpus for c in mesh.sets] == [tuple(range(n)) for n in range(1, size + 1)]
    assert [c.value for c in mesh.sets] == [BEST * n * (n - 1) // 2 for n in range(1, size + 1)]
    split = best_sets(islands(size - 4, 4))
    assert sets(split)[3] == tuple(range(size - 4, size)), "the small island costs the least"
    assert sets(split)[4] == (0, 1, 2, 3, 4)


@settings(max_examples=25)
@given(st.integers(EXACT_GPUS + 1, 20), st.randoms(use_true_random=False))
def test_the_greedy_choices_are_what_they_say_and_never_beat_the_best(size, random):
    pairs = {pair: random.choice((1, 2, 5, 16)) for pair in combinations(range(size), 2)}
    weights = tuple(
        tuple(0 if a == b else pairs[min(a, b), max(a, b)] for b in range(size))
        for a in range(size)
    )
    found = best_sets(weights)
    everyone = set(range(size))
    for count, choice in enumerate(found.sets, 1):
        assert len(set(choice.gpus)) == count
        assert choice.value == value(weights, choice.gpus)
        assert choice.lost == value(weights, tuple(everyone)) - value(
            weights, tuple(everyone - set(choice.gpus))
        )
    assert found.sets[1].value == max(pairs.values()), "the best pair is found from its start"
    assert found == best_sets(weights)


def test_no_gpus_no_choices():
    assert best_sets(()) == BestSets(0, (), (), exact=True)
    assert best_sets(islands(4), ()).sets == ()


@pytest.mark.slow
def test_sixteen_gpus_with_uneven_links_are_exact_too():
    """All 65,535 sets by hand, with weights that leave few sets equal."""
    weights = tuple(
        tuple(0 if a == b else (a * b + 7 * (a + b)) % (BEST + 1) for b in range(16))
        for a in range(16)
    )
    found = best_sets(weights)
    assert [(c.gpus, c.value, c.lost) for c in found.sets] == [
        brute(weights, tuple(range(16)), count) for count in range(1, 17)
    ]
