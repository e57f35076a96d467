"""Ranks of pods that nobody numbers."""

from hypothesis import given
from hypothesis import strategies as st

from topo.gangs.ranks import Unranked, assign_ranks

SIZE = st.integers(1, 4)
PODS = st.lists(
    st.builds(Unranked, first_rank=st.integers(0, 12), group=st.none() | st.integers(0, 5)),
    max_size=20,
)


@given(PODS, SIZE)
def test_each_pod_has_a_rank_of_its_own(pods: list[Unranked], size: int) -> None:
    ranks = assign_ranks(pods, size)
    assert len(set(ranks)) == len(ranks) == len(pods)


@given(PODS, SIZE)
def test_a_placed_pod_stays_in_its_group_as_long_as_that_has_room(
    pods: list[Unranked], size: int
) -> None:
    placed = [pod.group for pod in pods if pod.group is not None]
    for pod, rank in zip(pods, assign_ranks(pods, size), strict=True):
        if pod.group is not None and placed.count(pod.group) <= size:
            assert rank // size == pod.group


@given(st.lists(st.integers(0, 9), max_size=20), SIZE)
def test_no_rank_is_left_out_before_anything_is_placed(sizes: list[int], size: int) -> None:
    pods = [Unranked(first_rank=0) for _ in sizes]
    assert assign_ranks(pods, size) == tuple(range(len(pods)))


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 6), SIZE)
def test_a_template_that_grew_takes_no_rank_of_a_later_one(
    first: int, second: int, more: int, size: int
) -> None:
    grown = [Unranked(first_rank=0)] * (first + more)
    later = [Unranked(first_rank=first)] * second
    ranks = assign_ranks([*grown, *later], size)
    assert set(ranks[len(grown) :]) == set(range(first, first + second))


def test_a_pod_that_replaces_another_takes_its_rank() -> None:
    left = [Unranked(first_rank=0, group=group) for group in (0, 1, 1)]
    assert assign_ranks([*left, Unranked(first_rank=0)], 2) == (0, 2, 3, 1)


def test_ranks_that_others_state_are_taken() -> None:
    assert assign_ranks([Unranked(first_rank=0)] * 2, 2, taken=[0, 2]) == (1, 3)
