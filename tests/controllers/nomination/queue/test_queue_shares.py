"""What `proportion` of Volcano lets each queue have: dealt out by weight, nothing left lying."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.controllers.nomination.queues.fair_share import QueueClaim, shares

TOTAL = 128
CLAIMS = st.dictionaries(
    st.sampled_from("abcde"),
    st.builds(
        QueueClaim,
        weight=st.integers(1, 5),
        wanted=st.integers(0, 200),
        limit=st.integers(0, 200),
    ),
    min_size=1,
)


@pytest.mark.parametrize(
    ("wanted", "weights", "found"),
    [
        ((128, 96), (1, 1), (64, 64)),
        ((128, 32), (1, 1), (96, 32)),
        ((128, 128, 128), (1, 2, 5), (16, 32, 80)),
        ((128, 8, 128), (2, 1, 2), (60, 8, 60)),
        ((16, 0), (1, 1), (16, 0)),
    ],
)
def test_shares_are_those_of_the_plugin(
    wanted: tuple[int, ...], weights: tuple[int, ...], found: tuple[int, ...]
):
    claims = {
        str(at): QueueClaim(weight, each, TOTAL)
        for at, (each, weight) in enumerate(zip(wanted, weights, strict=True))
    }
    assert tuple(shares(claims, TOTAL).values()) == found


def test_what_is_guaranteed_is_had_whether_it_is_asked_for_or_not():
    claims = {"a": QueueClaim(1, 0, TOTAL, guaranteed=32), "b": QueueClaim(1, 128, TOTAL - 32)}
    assert shares(claims, TOTAL) == {"a": 32, "b": 96}


@given(CLAIMS)
def test_nobody_has_more_than_it_may_and_nothing_is_left_while_somebody_wants(
    claims: dict[str, QueueClaim],
):
    found = shares(claims, TOTAL)
    assert sum(found.values()) <= TOTAL
    assert all(found[name] <= min(each.wanted, each.limit) for name, each in claims.items())
    hungry = [name for name, each in claims.items() if found[name] < min(each.wanted, each.limit)]
    assert not hungry or sum(found.values()) > TOTAL - len(claims)
    for name in hungry:
        level = (found[name] + 1) / claims[name].weight
        assert all(found[other] / each.weight <= level for other, each in claims.items())
