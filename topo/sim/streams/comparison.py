"""One request, every policy: what each would choose on the same cluster, by one measure."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TypeVar

from topo.placement.capacity.capacity import Capacity
from topo.placement.engine import place
from topo.placement.job.plan import NoFit, Objective
from topo.placement.job.request import Request
from topo.placement.quality.measure import measure
from topo.sim.baselines import BASELINES
from topo.sim.baselines.cluster import BaselineCluster
from topo.sim.streams.stream import OURS

CALLS = 5
"""The quickest of so many calls is shown: the others were disturbed."""
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class StreamOutcome:
    """What a policy chose and how long it took; `objective` is None where it found no place.

    `why` is ours alone: baselines do not say why.
    """

    policy: str
    objective: Objective | None
    took_us: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ours first. The baselines' times are without counting nodes, which takes `counting_us`."""

    outcomes: tuple[StreamOutcome, ...]
    counting_us: float


def compare(capacity: Capacity, request: Request) -> Comparison:
    """Return what every policy chooses on the cluster as it is.

    Raises `BadInputError` for a request that is meaningless on any cluster.
    """
    answer, took_us = _timed(lambda: place(capacity, request))
    if isinstance(answer, NoFit):
        outcomes = [StreamOutcome(OURS, None, took_us, answer.text)]
    else:
        outcomes = [StreamOutcome(OURS, answer.objective, took_us)]
    cluster, counting_us = _timed(lambda: _counted(capacity, request))
    for policy, baseline in BASELINES.items():
        groups, took_us = _timed(partial(cluster.place, request, baseline))
        objective = measure(capacity, request, groups) if groups is not None else None
        outcomes.append(StreamOutcome(policy, objective, took_us))
    return Comparison(tuple(outcomes), counting_us)


def _counted(capacity: Capacity, request: Request) -> BaselineCluster:
    cluster = BaselineCluster(capacity)
    for _ in cluster.views(request):
        pass
    return cluster


def _timed(call: Callable[[], R]) -> tuple[R, float]:
    best_s = float("inf")
    found = call()
    for _ in range(CALLS):
        began_s = perf_counter()
        call()
        best_s = min(best_s, perf_counter() - began_s)
    return found, best_s * 1e6
