"""What a node is worth by its two annotations, beside the same arithmetic on the table itself."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.publish.test_gpu_annotations import host
from topo.placement.gpus.gpu_sets import WORST_LOSS
from topo.placement.gpus.node_worth import OF_MANUAL, Weights, node_worth
from topo.publish.gpu_annotations import gpu_annotations

WEIGHTS = st.builds(Weights, st.floats(0, 10), st.floats(0, 10))


@given(st.sets(st.integers(0, 7)), st.integers(1, 9), WEIGHTS)
def test_it_is_the_weighted_score_less_the_weighted_loss(
    sick: set[int], gpus: int, weights: Weights
) -> None:
    """Read by Python's own JSON here; a number of GPUs that is missing counts as the worst."""
    found = gpu_annotations(host("node-1", gpus=8, sick=sick))
    assert found is not None
    scores, losses = json.loads(found.scores), json.loads(found.losses)
    score, loss = scores.get(str(gpus), 0), losses.get(str(gpus), WORST_LOSS)
    expected = weights.score * score - weights.loss * loss
    assert node_worth(found.scores, found.losses, gpus, weights) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "no JSON", "[1]", "{}", '{"4": "9"}', '{"4": 2001}', '{"4": -1}', '{"4": true}'),
        *('{"4": 1.5}', '{"+4": 9}', '{"04000": 9}', "[" * 5000, '{"4": 96' + " " * 9000 + "}"),
    ],
)
def test_what_somebody_else_wrote_wrongly_counts_as_the_worst(text: str) -> None:
    assert node_worth(text, text, 4, OF_MANUAL) == -0.5 * WORST_LOSS


def test_an_island_that_is_left_over_is_worth_more_than_one_of_two() -> None:
    """The example of the module."""
    assert node_worth('{"4":96}', '{"4":128}', 4, OF_MANUAL) == 32
    assert node_worth('{"4":96}', '{"4":96}', 4, OF_MANUAL) == 48
