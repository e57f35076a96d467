"""What a node is worth to a pod by the links between its GPUs, as the vendor's `gpu-aware` has it.

    worth(n) = weight * scores[n] - loss.weight * losses[n]

for a pod of n GPUs, from the two annotations of the node (`topo.publish.gpu_annotations`): the best
value that n of its GPUs have together, less what those that remain lose. The weights are the
arguments of the vendor's plugin in the configuration of Volcano's scheduler, 1 and 0.5 in its
manual. Who wrote the annotations does not matter: MetaX's extensions write the same two.

What is missing or cannot be read counts as the worst, a score of 0 and a loss of 2000, so that a
node of which nothing is known is taken last and never kept from a pod.

Example: a pod of 4 GPUs; a whole island of four is left on both nodes (score 96), and nothing else
on the second. Weights 1 and 0.5.
    8 free   loss 128   96 - 64 = 32
    4 free   loss 96    96 - 48 = 48, so it is taken
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from topo.placement.gpus.gpu_sets import WORST_LOSS

_KEPT = 1024
_MOST_CHARS = 8192
"""128 GPUs have some 2,000 characters."""


class Weights(NamedTuple):
    """Arguments `weight` and `loss.weight` of the plugin."""

    score: float
    loss: float


OF_MANUAL = Weights(1.0, 0.5)


def node_worth(scores: str, losses: str, gpus: int, weights: Weights) -> float:
    """Return the worth of a node with these annotations to a pod of so many GPUs; O(1)."""
    score, loss = _numbers(scores).get(gpus, 0), _numbers(losses).get(gpus, WORST_LOSS)
    return weights.score * score - weights.loss * loss


@lru_cache(maxsize=_KEPT)
def _numbers(text: str) -> Mapping[int, int]:
    """Return an annotation's numbers from 0 to 2000 by the number of GPUs; empty if it has none."""
    try:
        found = json.loads(text) if len(text) <= _MOST_CHARS else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return {}
    return {
        int(count): number
        for count, number in found.items()
        if count.isdecimal()
        and len(count) <= 3
        and type(number) is int
        and 0 <= number <= WORST_LOSS
    }
