"""GPUManager's ways to choose cards, on its published examples and on random trees."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.shared_cards.cards import Amount
from topo.shared_cards.tree import fragment, link, share, tree

PIX, PHB, SOC = 1, 2, 3
PUBLISHED = [
    [0, PIX, PHB, PHB, SOC, SOC],
    [PIX, 0, PHB, PHB, SOC, SOC],
    [PHB, PHB, 0, PIX, SOC, SOC],
    [PHB, PHB, PIX, 0, SOC, SOC],
    [SOC, SOC, SOC, SOC, 0, PIX],
    [SOC, SOC, SOC, SOC, PIX, 0],
]
"""The matrix of its tests: pairs behind one bridge, two of them on one host bridge."""
ALL = frozenset(range(6))


@pytest.mark.parametrize(
    ("idle", "number", "chosen"),
    [
        (ALL, 3, (0, 1, 2)),
        (ALL - {2}, 2, (0, 1)),
        (ALL - {0, 3}, 2, (4, 5)),
        (ALL, 6, (0, 1, 2, 3, 4, 5)),
    ],
)
def test_link_takes_the_cards_with_the_shortest_way_between_them(
    idle: frozenset[int], number: int, chosen: tuple[int, ...]
) -> None:
    """The first two are published (TestLink)."""
    assert link(tree(PUBLISHED), idle, number) == chosen


@pytest.mark.parametrize(
    ("idle", "number", "chosen"),
    [(ALL, 2, (4, 5)), (ALL - {4}, 1, (5,)), (ALL - {4, 5, 0}, 1, (1,))],
)
def test_fragment_takes_cards_where_the_fewest_are_free(
    idle: frozenset[int], number: int, chosen: tuple[int, ...]
) -> None:
    """The first two are published (TestFragment)."""
    assert fragment(tree(PUBLISHED), idle, number) == chosen


def test_fragment_takes_the_only_card() -> None:
    """Published (TestFragmentOnlyOne)."""
    assert fragment(tree([[0]]), {0}) == (0,)


def test_share_takes_the_fullest_card_that_fits() -> None:
    """Published (TestShare): 50 of any card, then 60 where card 0 has 50 left."""
    free = [Amount(0, 100, 1024)] * 6
    assert share(free, Amount(0, 50, 0)) == 0
    free[0] = Amount(0, 50, 1024)
    assert share(free, Amount(0, 60, 0)) == 1
    assert share(free, Amount(0, 50, 0)) == 0
    assert share(free, Amount(0, 101, 0)) is None


@st.composite
def matrices(draw: st.DrawFn) -> list[list[int]]:
    """Ways of a machine: cards in boards in sockets, so that levels make a tree."""
    size = draw(st.integers(1, 8))
    places = [(draw(st.integers(0, 1)), draw(st.integers(0, 2))) for _ in range(size)]
    return [
        [
            0
            if a == b
            else PIX
            if places[a] == places[b]
            else PHB
            if places[a][0] == places[b][0]
            else SOC
            for b in range(size)
        ]
        for a in range(size)
    ]


@given(levels=matrices(), data=st.data())
def test_no_idle_cards_are_nearer_to_each_other_than_those_of_link(
    levels: list[list[int]], data: st.DataObject
) -> None:
    size = len(levels)
    idle = data.draw(st.sets(st.integers(0, size - 1)))
    number = data.draw(st.integers(1, size))
    chosen = link(tree(levels), idle, number)
    if len(idle) < number:
        assert chosen is None
        return
    assert chosen is not None
    assert set(chosen) <= idle

    def width(cards: tuple[int, ...]) -> int:
        return max((levels[a][b] for a, b in combinations(cards, 2)), default=0)

    assert width(chosen) == min(width(cards) for cards in combinations(sorted(idle), number))


@given(levels=matrices(), data=st.data())
def test_fragment_takes_an_idle_card_wherever_one_is(
    levels: list[list[int]], data: st.DataObject
) -> None:
    idle = data.draw(st.sets(st.integers(0, len(levels) - 1)))
    chosen = fragment(tree(levels), idle)
    assert (chosen is None) == (not idle)
    assert chosen is None or set(chosen) <= idle
