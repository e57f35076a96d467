"""Where a job would go, now or under assumptions, with words about it if asked for."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from master.booking.advice import Advice, Adviser, advice_on
from master.booking.executors import LoopQueue, SingleThreadExecutor
from master.booking.state import BookingState
from topo.model.errors import BadInputError, Refusal
from topo.placement.advice.explain import explain
from topo.placement.advice.suggestion import Suggestion
from topo.placement.booking.confirm import confirmed
from topo.placement.booking.holds import Hold
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.what_if import Assumptions, assumed
from topo.placement.engine import place
from topo.placement.job.plan import NoFit, Plan, Pods
from topo.placement.job.request import Request
from topo.placement.report.usage import GroupUsage, group_usage

LARGE_PODS = 1000
"""Placing more, with the words about it, takes the loop for longer than a few milliseconds."""

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Question:
    """A job to be placed; `explain` if the reasons for a plan are wanted in words."""

    request: Request
    explain: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """A plan or a refusal, in words; `hold` where it was booked.

    `explanation` is empty for a plan unless it was asked for. `replanned` is None where no groups
    were given to take.
    """

    result: Plan | NoFit
    generation: int
    explanation: Sequence[str] = ()
    would_fit: Sequence[Suggestion] = ()
    rooms: Sequence[GroupUsage] = ()
    hold: Hold | None = None
    replanned: str | None = None


class Planner:
    """Places jobs and books nothing.

    Callers wait in `loop_queue` before any work on the loop, and long work goes to `executor`.
    """

    def __init__(self, state: BookingState) -> None:
        self._state = state
        self._adviser = Adviser(state.capacity)
        self.loop_queue, self.executor = LoopQueue(), SingleThreadExecutor()

    def plan(self, question: Question) -> Outcome:
        """The best placement now. A refusal has no advice yet: see `advised`."""
        self._state.advance()
        return self._on(self._state.capacity, question)

    async def what_if(
        self, question: Question, assumptions: Assumptions, render: Callable[[Outcome], R]
    ) -> R:
        """The placement on a copy under assumptions, rendered; all of it in a thread.

        Raises `BadInputError` for unknown nodes, `QueueFullError` when too many wait.
        """

        def prepare() -> Callable[[], R]:
            self._state.advance()
            return partial(find, self._state.capacity.copy(), self._state.generation)

        def find(copy: Capacity, generation: int) -> R:
            seen = assumed(copy, assumptions)
            if isinstance(seen, Refusal):
                raise BadInputError(seen)
            outcome = replace(self._on(seen, question), generation=generation)
            if isinstance(outcome.result, NoFit):
                outcome = _with(advice_on(seen, outcome.result), outcome)
            return render(outcome)

        return await self.executor.run(prepare)

    async def advised(self, outcome: Outcome) -> Outcome:
        """The same with why the job does not fit, if so, and the changes under which it would."""
        if isinstance(outcome.result, Plan):
            return outcome
        return _with(await self._adviser.advice(outcome.result), outcome)

    def with_groups(self, question: Question, outcome: Outcome, given: Sequence[Pods]) -> Outcome:
        """The groups given instead of the best ones; or the best ones, and why not those given."""
        capacity, best = self._state.capacity, outcome.result
        plan = best if isinstance(best, Plan) else None
        found = confirmed(capacity, question.request, given, plan)
        if isinstance(found, str):
            return replace(outcome, replanned=found)
        if found is best:
            return replace(outcome, replanned="")
        return replace(_planned(capacity, question, found, outcome.generation), replanned="")

    def _on(self, capacity: Capacity, question: Question) -> Outcome:
        began_s = time.perf_counter()
        result = place(capacity, question.request)
        self._state.metrics.placed(result, time.perf_counter() - began_s)
        if isinstance(result, Plan):
            return _planned(capacity, question, result, self._state.generation)
        return Outcome(result, self._state.generation, (result.text,))


def _planned(capacity: Capacity, question: Question, plan: Plan, generation: int) -> Outcome:
    words = explain(capacity, plan) if question.explain else ()
    return Outcome(plan, generation, words, rooms=group_usage(capacity, plan))


def _with(advice: Advice, outcome: Outcome) -> Outcome:
    return replace(outcome, explanation=advice.reasons, would_fit=advice.would_fit)
