"""The fewest domains for pods that may use different nodes, beside a search through all ways."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topo.gangs.decisions.seat_search import (
    Cost,
    SeatNode,
    SeatQuestion,
    Seeker,
    cost_of,
    find_seats,
    judge_seats,
)
from topo.model.ids import NodeName

MANY = 1_000_000
"""More steps than any of these searches takes."""


def node(number: int, seats: int, kinds: int) -> SeatNode:
    """The vendor's shape: a node of a dragonfly of two, in a switchbox of two dragonflies."""
    return SeatNode(NodeName(f"n{number}"), seats, kinds, (number // 4, number // 2))


nodes = st.lists(st.tuples(st.integers(0, 2), st.sampled_from((1, 2, 3, 3))), max_size=8)
seekers = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=5)


@st.composite
def questions(draw: st.DrawFn) -> SeatQuestion:
    """Few kinds and few numbers of seats, so that many domains are alike."""
    found = draw(nodes)
    stay = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 7)), max_size=2))
    return SeatQuestion(
        seekers=[Seeker(*each) for each in sorted(draw(seekers))],
        nodes=[node(at, *each) for at, each in enumerate(found) if each[0]],
        whole_at=draw(st.integers(0, 1)),
        is_required=draw(st.booleans()),
        stay=[(group, (at // 4, at // 2)) for group, at in stay],
    )


def costs(asked: SeatQuestion) -> Iterator[Cost]:
    """The cost of each way that is allowed."""
    stay = list(asked.stay)
    for way in product(asked.nodes, repeat=len(asked.seekers)):
        if any(way.count(each) > each.seats for each in way):
            continue
        pairs = list(zip(asked.seekers, way, strict=True))
        if not all(each.kinds >> seeker.kind & 1 for seeker, each in pairs):
            continue
        new = [(seeker.group, each.homes) for seeker, each in pairs]
        is_near = all(
            any(homes[asked.whole_at] == there[asked.whole_at] for of, there in stay if of == group)
            for group, homes in new
            if any(of == group for of, _ in stay)
        )
        groups = {group for group, _ in new} - {group for group, _ in stay}
        is_whole = all(
            len({homes[asked.whole_at] for of, homes in new if of == group}) == 1
            for group in groups
        )
        if not asked.is_required or (is_near and is_whole):
            yield cost_of([*stay, *new], asked.whole_at)


@settings(max_examples=300)
@given(questions())
def test_the_way_found_is_the_best_of_all_and_none_is_found_where_there_is_none(
    asked: SeatQuestion,
) -> None:
    found, best = find_seats(asked, None, MANY), min(costs(asked), default=None)
    assert found.complete
    assert (found.nodes is None) == (best is None)
    assert judge_seats(asked, MANY).is_able == (best is not None)
    if found.nodes is None or best is None:
        return
    at = {each.name: each for each in asked.nodes}
    new = [(s.group, at[name].homes) for s, name in zip(asked.seekers, found.nodes, strict=True)]
    assert found.cost == best == cost_of([*asked.stay, *new], asked.whole_at)
    assert all(found.nodes.count(name) <= at[name].seats for name in found.nodes)
    allowed = zip(asked.seekers, found.nodes, strict=True)
    assert all(at[name].kinds >> seeker.kind & 1 for seeker, name in allowed)
    assert find_seats(asked, best, MANY).nodes is None, "nothing costs less"


@given(questions(), st.lists(st.integers(0, 2), min_size=8, max_size=8))
def test_penalties_of_nodes_change_nothing_else_of_the_best_way(
    asked: SeatQuestion, penalties: list[int]
) -> None:
    nodes = [
        each._replace(penalty=penalty)
        for each, penalty in zip(asked.nodes, penalties, strict=False)
    ]
    healthy = find_seats(asked, None, MANY)
    found = find_seats(replace(asked, nodes=nodes), None, MANY)
    assert found.complete
    assert (found.nodes is None) == (healthy.nodes is None)
    if found.nodes is not None:
        assert found.cost[:-1] == healthy.cost[:-1]
        assert found.cost[-1] == sum({n.name: n.penalty for n in nodes}[n] for n in found.nodes)


def test_of_a_thousand_alike_domains_one_is_looked_into() -> None:
    """Two pairs, of which one pod is tied: a try for each idle dragonfly would take too long."""
    idle = [node(number, 1, 0b01) for number in range(2_000)]
    tied = [node(2_000, 1, 0b10), node(2_001, 1, 0b01)]
    asked = SeatQuestion(
        seekers=[Seeker(0, 0), Seeker(0, 1), Seeker(1, 0), Seeker(1, 0)],
        nodes=[*idle, *tied],
        whole_at=1,
        is_required=True,
    )
    found = find_seats(asked, None, 20_000)
    assert found.complete
    assert found.nodes is not None
    assert found.nodes[:2] == ("n2001", "n2000")
    assert found.cost == (0, 2, 2, 0)


@pytest.mark.parametrize("most_steps", [0, 1, 5, 30])
def test_a_search_that_is_cut_off_says_so_and_what_it_has_found_is_so(most_steps: int) -> None:
    asked = SeatQuestion(
        seekers=[Seeker(group, 0) for group in (0, 0, 1, 1, 2, 2)],
        nodes=[node(number, 1 + number % 2, 1) for number in range(40)],
        whole_at=1,
        is_required=True,
    )
    found = find_seats(asked, None, most_steps)
    assert not found.complete
    assert found.steps <= most_steps + 22, "those of one more pod, in 20 domains"
    assert judge_seats(asked, most_steps).is_able, "what is not judged counts as able"
    if found.nodes is not None:
        assert len(found.nodes) == len(asked.seekers)


def test_where_groups_may_be_split_there_are_seats_without_a_step() -> None:
    """A matching is a way of its own, so that no small gang is refused for want of steps."""
    pods = [Seeker(group, kind) for group, kind in enumerate((0, 1, 0, 1, 0, 1))]
    seats = [node(number, 1, 0b11 if number % 2 else 0b01) for number in range(12)]
    found = find_seats(SeatQuestion(pods, seats, whole_at=1, is_required=False), None, 0)
    assert found.nodes is not None
    assert len({*found.nodes}) == len(pods)
    few = [node(0, 3, 0b01), node(1, 2, 0b11)]
    none = find_seats(SeatQuestion(pods, few, whole_at=1, is_required=True), None, 0)
    assert none.complete, "too few seats are a proof"
    assert none.nodes is None


def test_a_domain_beside_pods_that_stay_is_not_like_one_far_from_them() -> None:
    """Both switchboxes have the same nodes, and a pod of the gang runs in the second one."""
    seats = [node(number, 1, 1) for number in range(8)]
    asked = SeatQuestion([Seeker(1, 0)], seats, whole_at=1, is_required=True, stay=[(0, (1, 3))])
    found = find_seats(asked, None, MANY)
    assert found.cost == (0, 1, 1, 0)
    assert found.nodes is not None
    assert found.nodes[0] in {"n6", "n7"}
    full = replace(asked, stay=[(0, (1, 9))])
    found = find_seats(full, None, MANY)
    assert found.cost == (0, 1, 2, 0), "the dragonfly of that pod has no seat, its switchbox has"
    assert found.nodes is not None
    assert found.nodes[0] in {"n4", "n5", "n6", "n7"}
