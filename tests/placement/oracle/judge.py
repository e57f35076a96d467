"""An answer of the engine beside the oracle's: equal, worse from some stage on, or wrong."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from tests.placement.oracle import cpsat
from tests.placement.oracle.model import (
    Model,
    Vector,
    joint,
    models,
    spends_reserve,
    vector,
    violations,
)
from tests.placement.oracle.solution import Solution
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.engine import place
from topo.placement.job.plan import NoFit, Plan, first_difference, objective_values
from topo.placement.job.request import Request
from topo.placement.quality.measure import measure

SPAN = ("top_groups", "tier1_groups")


@dataclass(frozen=True)
class Verdict:
    """The first stage at which the oracle was better, "" for none; the names that were proven."""

    worse_at: str
    certified: frozenset[str]


@dataclass(frozen=True)
class Placed:
    """Groups on the hosts of one of several models, one for each GPU type."""

    every: tuple[Model, ...]
    on: Model
    groups: Solution

    @cached_property
    def vector(self) -> Vector:
        """The vector counted over all types."""
        return joint(self.every, self.on, self.groups)

    @cached_property
    def stages(self) -> tuple[tuple[str, object], ...]:
        """Name and value of each stage, in the order of comparison."""
        spends = ("reserve", spends_reserve(self.on, self.groups))
        return (("mode", self.vector.split > 0), spends, *self.vector.stages())


def judged(
    capacity: CapacityView,
    request: Request,
    oracle: Callable[[Model], Solution | None] = cpsat.best,
) -> Verdict | None:
    """The verdict on a plan, None where both refuse; everything false is an AssertionError."""
    answer = place(capacity, request)
    every = tuple(models(capacity, request))
    best = _oracle(every, oracle)
    if isinstance(answer, NoFit):
        assert best is None, f"refused ({answer.text}) where {best.groups} fits: {request}"
        return None
    assert best is not None, f"placed where nothing fits: {request}: {answer.groups}"
    groups = tuple(group.pods for group in answer.groups)
    on = next(model for model in every if model.request.eligible.gpu_type == answer.gpu_type)
    mine = Placed(every, on, groups)
    assert violations(on, groups) == []
    assert answer.used_reserve == spends_reserve(on, groups)
    _measures_alike(capacity, answer, (mine, best))
    worse_at = _first_worse(mine, best)
    if not worse_at and not any(host.penalty for model in every for host in model.hosts):
        assert on is best.on, "the order of types decides last"
    _certificate_holds(answer, mine, best)
    _bounds_hold(answer, (mine, best))
    return Verdict(worse_at, frozenset(name for name, sure in answer.certified.items() if sure))


def _oracle(every: tuple[Model, ...], oracle: Callable[[Model], Solution | None]) -> Placed | None:
    """The best on any type, the first of equals."""
    found = [(model, oracle(model)) for model in every]
    placed = [Placed(every, model, groups) for model, groups in found if groups is not None]
    assert all(violations(each.on, each.groups) == [] for each in placed)
    return min(placed, key=lambda each: each.stages, default=None)


def _measures_alike(capacity: CapacityView, answer: Plan, both: tuple[Placed, Placed]) -> None:
    """The engine's measure gives the numbers counted here and parts two plans at the same stage."""
    measured = []
    for placed in both:
        objective = measure(capacity, answer.request, placed.groups)
        measured.append(objective)
        told = objective_values(objective)
        for name, value in vector(placed.on, placed.groups).stages():
            if isinstance(value, int):
                expected = -value if name == "whole_groups_left" else value
                assert told[name] == expected, f"{name} is {told[name]}, counted {expected}"
    assert measured[0] == answer.objective
    if both[0].on is both[1].on:
        parted = first_difference(*measured)
        here = _first_different(*(placed.vector.stages() for placed in both))
        assert (parted is None or parted[0] == "order") if not here else parted == here


Stages = tuple[tuple[str, object], ...]


def _first_different(one: Stages, other: Stages) -> tuple[str, int] | None:
    for (name, mine), (_, theirs) in zip(one, other, strict=True):
        if mine != theirs:
            return name, -1 if mine < theirs else 1  # type: ignore[operator]
    return None


def _first_worse(mine: Placed, best: Placed) -> str:
    parted = _first_different(mine.stages, best.stages)
    assert parted is None or parted[1] == 1, (
        f"the oracle's {best.groups} is beaten by {mine.groups}"
    )
    return parted[0] if parted else ""


def _certificate_holds(answer: Plan, mine: Placed, best: Placed) -> None:
    """What is called proven is the best possible, given the values of the stages before it."""
    stages = mine.vector.stages()
    numbers = (mine.vector.split, *mine.vector.span, mine.vector.groups_lost)
    for at, (name, value) in enumerate(stages):
        if not answer.certified.get(name):
            continue
        ideal = best.vector.stages()[at][1]
        if stages[:at] != best.vector.stages()[:at] or mine.on.policy.reserves:
            given = numbers[: at - (len(mine.vector.span) == 1 and at > 1)]
            if len(given) == len(numbers):
                continue  # the oracle cannot be given profiles
            ideal = min(each.vector for each in _given(mine.every, given)).stages()[at][1]
        assert value == ideal, f"{name} is certified at {value} and could be {ideal}"


def _given(every: tuple[Model, ...], numbers: tuple[int, ...]) -> Iterator[Placed]:
    """The best placement on each type whose first numbers, counted over all types, are these."""
    for model in every:
        others = sum(vector(each, ()).groups_lost for each in every if each is not model)
        last = 2 + model.tiers
        own = (*numbers[: last - 1], *(lost - others for lost in numbers[last - 1 :]))
        groups = cpsat.best(model, own)
        if groups is not None:
            yield Placed(every, model, groups)


def _bounds_hold(answer: Plan, both: tuple[Placed, Placed]) -> None:
    """No placement, here the engine's and the oracle's, is better than a bound says."""
    mine = both[0]
    others = sum(vector(each, ()).groups_lost for each in mine.every if each is not mine.on)
    for placed in both:
        for name, value in placed.vector.stages():
            bound = answer.bounds.get(name)
            if bound is not None and isinstance(value, int):
                least = others - bound if name == "whole_groups_left" else bound
                assert value >= least, f"{name} of {value} beats its bound {bound}"


@dataclass
class Tally:
    """How many of the plans equal the optimum up to each stage, and are proven to."""

    name: str
    plans: int = 0
    refusals: int = 0
    unjudged: int = 0
    worse_at: Counter[str] = field(default_factory=Counter)
    certified: int = 0

    def add(self, verdict: Verdict | None) -> None:
        """Counts one verdict."""
        if verdict is None:
            self.refusals += 1
            return
        self.plans += 1
        self.worse_at[verdict.worse_at] += 1
        self.certified += verdict.certified.issuperset(SPAN)

    def worse(self, stages: Iterable[str]) -> int:
        """Plans that are worse than the optimum at one of the stages."""
        return sum(self.worse_at[stage] for stage in stages)

    def allowed(self, share: float) -> int:
        """How many plans may miss when so many must not."""
        return math.floor((1 - share) * self.plans + 1e-9)

    def __str__(self) -> str:
        worse = ", ".join(f"{stage} {n}" for stage, n in self.worse_at.items() if stage) or "none"
        return (
            f"{self.name}: {self.plans} plans, {self.refusals} refusals, {self.unjudged} too hard "
            f"for the oracle; first worse at: {worse}; certified on spans: {self.certified}"
        )
