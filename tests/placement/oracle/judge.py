"""An answer of the engine beside the oracle's: equal, worse from some stage on, or wrong."""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.placement.oracle import cpsat
from tests.placement.oracle.model import Model, Vector, models, vector, violations
from tests.placement.oracle.solution import Solution
from topo.placement.capacity.capacity import Capacity
from topo.placement.engine import place
from topo.placement.job.objective import first_difference, values
from topo.placement.job.plan import NoFit, Plan
from topo.placement.job.request import Request
from topo.placement.quality.measure import measure

SPAN = ("top_groups", "tier1_groups")


@dataclass(frozen=True)
class Verdict:
    """The first stage at which the oracle was better, "" for none; the names that were proven."""

    worse_at: str
    certified: frozenset[str]


def judged(
    capacity: Capacity, request: Request, oracle: Callable[[Model], Solution | None] = cpsat.best
) -> Verdict | None:
    """The verdict on a plan, None where both refuse; everything false is an AssertionError."""
    answer = place(capacity, request)
    model, solution = _oracle(capacity, request, oracle)
    if isinstance(answer, NoFit):
        assert solution is None, f"refused ({answer.text}) where {solution} fits: {request}"
        return None
    assert model is not None, f"placed where nothing fits: {request}: {answer.groups}"
    assert solution is not None
    assert answer.gpu_type == model.hosts[0].gpu_type
    groups = [group.pods for group in answer.groups]
    assert violations(model, groups) == []
    mine, best = vector(model, groups), vector(model, solution)
    _measures_alike(capacity, answer, solution, (mine, best))
    worse_at = _first_worse(mine, best)
    _certificate_holds(answer, model, (mine, best))
    _bounds_hold(answer, (mine, best))
    return Verdict(worse_at, frozenset(name for name, sure in answer.certified.items() if sure))


def _oracle(
    capacity: Capacity, request: Request, oracle: Callable[[Model], Solution | None]
) -> tuple[Model | None, Solution | None]:
    for model in models(capacity, request):
        solution = oracle(model)
        if solution is not None:
            assert violations(model, solution) == []
            return model, solution
    return None, None


def _measures_alike(
    capacity: Capacity, answer: Plan, solution: Solution, both: tuple[Vector, Vector]
) -> None:
    """The engine's measure gives the numbers counted here and parts two plans at the same stage."""
    best = measure(capacity, answer.request, solution)
    for objective, counted in zip((answer.objective, best), both, strict=True):
        told = values(objective)
        for name, value in counted.stages():
            if isinstance(value, int):
                expected = -value if name == "whole_groups_left" else value
                assert told[name] == expected, f"{name} is {told[name]}, counted {expected}"
    parted = first_difference(answer.objective, best)
    here = _first_different(*both)
    assert (parted is None or parted[0] == "order") if not here else parted == here


def _first_different(one: Vector, other: Vector) -> tuple[str, int] | None:
    for (name, mine), (_, theirs) in zip(one.stages(), other.stages(), strict=True):
        if mine != theirs:
            return name, -1 if mine < theirs else 1  # type: ignore[operator]
    return None


def _first_worse(mine: Vector, best: Vector) -> str:
    parted = _first_different(mine, best)
    assert parted is None or parted[1] == 1, f"the oracle's {best} is beaten by {mine}"
    return parted[0] if parted else ""


def _certificate_holds(answer: Plan, model: Model, both: tuple[Vector, Vector]) -> None:
    """What is called proven is the best possible, given the values of the stages before it."""
    mine, best = both
    numbers = (mine.split, *mine.span, mine.groups_lost)
    for at, (name, value) in enumerate(mine.stages()):
        if not answer.certified.get(name):
            continue
        ideal = best.stages()[at][1]
        if mine.stages()[:at] != best.stages()[:at]:
            given = numbers[: at - (len(mine.span) == 1 and at > 1)]
            if len(given) == len(numbers):
                continue  # the oracle cannot be given profiles
            solution = cpsat.best(model, given)
            assert solution is not None
            ideal = dict(vector(model, solution).stages())[name]
        assert value == ideal, f"{name} is certified at {value} and could be {ideal}"


def _bounds_hold(answer: Plan, both: tuple[Vector, Vector]) -> None:
    """No placement, here the engine's and the oracle's, is better than a bound says."""
    for counted in both:
        for name, value in counted.stages():
            bound = answer.bounds.get(name)
            if bound is not None and isinstance(value, int):
                least = -bound if name == "whole_groups_left" else bound
                assert value >= least, f"{name} of {value} beats its bound {bound}"


@dataclass
class Tally:
    """How many of the plans equal the optimum up to each stage, and are proven to."""

    name: str
    plans: int = 0
    refusals: int = 0
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
            f"{self.name}: {self.plans} plans, {self.refusals} refusals; first worse at: {worse}; "
            f"certified on spans: {self.certified}"
        )
