"""Ranks of pods that consume a request: each once, and of its group once a pod is placed."""

from hypothesis import given
from hypothesis import strategies as st

from topo.gangs.consumers import Consumer, consumer_ranks

PODS = st.lists(
    st.tuples(st.integers(0, 3), st.none() | st.integers(0, 4)), min_size=1, max_size=12
)


def test_a_new_pod_takes_the_rank_that_is_left_and_no_placed_one_changes_its_group():
    placed = [Consumer("a", "a", 0, 0), Consumer("b", "b", 0, 0), Consumer("c", "c", 0, 1)]
    new = Consumer("d", "d", 0, None)
    assert consumer_ranks([*placed, new], 2) == {"a": 0, "b": 1, "c": 2, "d": 3}
    after = [*placed[1:], new, Consumer("e", "e", 0, None)]
    assert consumer_ranks(after, 2) == {"b": 0, "c": 2, "d": 1, "e": 3}


@given(PODS, st.integers(1, 4))
def test_each_rank_is_given_once_in_any_order_and_within_the_group_of_a_placed_pod(pods, size):
    made = [
        Consumer(f"uid-{number}", f"pod-{number}", index, group)
        for number, (index, group) in enumerate(pods)
    ]
    ranks = consumer_ranks(made, size)
    assert consumer_ranks(reversed(made), size) == ranks
    assert len(set(ranks.values())) == len(made)
    for group in {pod.group for pod in made if pod.group is not None}:
        of_group = [ranks[pod.uid] for pod in made if pod.group == group]
        inside = [rank for rank in of_group if rank // size == group]
        assert len(inside) >= min(size, len(of_group))
