"""Plans a job on the capacity, now or under assumptions, with an explanation if asked."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from master.booking.advice import UNASKED, Advice, Adviser, advice_on
from master.booking.state import BookingState
from topo.kit.executors import LoopQueue, SingleThreadExecutor
from topo.model.errors import BadInputError, Refusal
from topo.model.rest.placements import RoomDocument
from topo.placement.advice.explain import explain
from topo.placement.booking.confirm import confirm_groups
from topo.placement.booking.holds import Hold
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.other_fabrics import shared_group
from topo.placement.capacity.what_if import Assumptions, apply_assumptions
from topo.placement.engine import place
from topo.placement.job.plan import NoFit, Plan, PlannedGroup, Pods
from topo.placement.job.request import OtherGroup, Request
from topo.placement.quality.measure import group_usage

LARGE_PODS = 1000
"""Placing more, with the words about it, takes the loop for longer than a few milliseconds."""
MANY_TYPES = 16
"""A job that names no type is placed on each: on so many at once that takes as long."""

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Question:
    """A job to be placed; `explain` if the reasons for a plan are wanted in words."""

    request: Request
    explain: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """A plan or a refusal with its words, and the hold if it was booked.

    The reasons for a plan are empty unless they were asked for. `inside` is the group of the kind
    that the job must be within. `replanned` is None if no groups were given.
    """

    result: Plan | NoFit
    generation: int
    advice: Advice = UNASKED
    usage: Sequence[RoomDocument] = ()
    inside: OtherGroup | None = None
    hold: Hold | None = None
    replanned: str | None = None


@dataclass(frozen=True, slots=True)
class ThreadPlan:
    """An outcome found on a copy of the capacity, and the version of that copy."""

    outcome: Outcome
    version: int


class Planner:
    """Places jobs and books nothing.

    Callers wait in `loop_queue` before any work on the loop, and long work goes to `executor`.
    """

    def __init__(self, state: BookingState) -> None:
        self._state = state
        self.adviser = Adviser(lambda: state.capacity)
        self.loop_queue, self.executor = LoopQueue(), SingleThreadExecutor()

    def plan(self, request: Request) -> Outcome:
        """Return the best placement now, without words; `explain_outcome` adds them."""
        return self._on(self._state.capacity, request)

    def needs_thread(self, request: Request) -> bool:
        """Return whether placing a job would block the event loop too long."""
        if request.pods > LARGE_PODS:
            return True
        return request.eligible.gpu_type is None and (
            len(self._state.capacity.gpu_types()) > MANY_TYPES
        )

    async def plan_in_thread(self, request: Request) -> ThreadPlan:
        """Find the best placement on a copy, in a thread; raise `QueueFullError` if it is full."""

        def prepare() -> Callable[[], ThreadPlan]:
            copy, generation = self._state.capacity.copy(), self._state.generation
            return lambda: ThreadPlan(
                replace(self._on(copy, request), generation=generation), copy.version
            )

        return await self.executor.run(prepare)

    def confirm_or_replan(self, request: Request, found: ThreadPlan) -> Outcome:
        """Return a plan found in a thread if it can still be had, else the best placement now.

        If the capacity has changed, nothing is proven of the plan: something better may be free.
        """
        capacity, best = self._state.capacity, found.outcome.result
        if capacity.version == found.version:
            return found.outcome
        if isinstance(best, NoFit):
            return self.plan(request)
        given = [group.pods for group in best.groups]
        # Without its groups the plan is not taken for what would be planned now.
        then = replace(best, groups=(), bounds=dict.fromkeys(best.bounds))
        plan = confirm_groups(capacity, request, given, then)
        if isinstance(plan, str):
            return self.plan(request)
        return _planned(capacity, plan, self._state.generation)

    def inside(self, hold: Hold) -> OtherGroup | None:
        """Return the group of the kind its job named that the nodes of a hold share now."""
        return _inside(self._state.capacity, hold.wish.request, hold.groups)

    def copy_to_explain(self, question: Question) -> CapacityView | None:
        """Return a copy of the capacity before a plan is booked, if its reasons are wanted."""
        if not question.explain:
            return None
        return self._state.capacity.copy()

    async def what_if(
        self, question: Question, assumptions: Assumptions, render: Callable[[Outcome], R]
    ) -> R:
        """Return the rendered placement under assumptions. All of it runs in a thread.

        Raises `BadInputError` for unknown nodes, `QueueFullError` if too many wait.
        """

        def prepare() -> Callable[[], R]:
            state, owned = self._state, self.adviser.owned()
            return partial(find, state.capacity.copy(), state.generation, owned)

        def find(copy: CapacityView, generation: int, owned: Mapping[str, str]) -> R:
            seen = apply_assumptions(copy, assumptions)
            if isinstance(seen, Refusal):
                raise BadInputError(seen)
            outcome = replace(self._on(seen, question.request), generation=generation)
            if isinstance(outcome.result, NoFit):
                outcome = replace(outcome, advice=advice_on(seen, outcome.result, owned))
            elif question.explain:
                outcome = replace(outcome, advice=Advice(explain(seen, outcome.result)))
            return render(outcome)

        return await self.executor.run(prepare)

    async def explain_outcome(self, outcome: Outcome, seen: CapacityView | None) -> Outcome:
        """Add the words: why the job does not fit and what would help, or why the plan is as it is.

        `seen` is the capacity that the plan was made on, None if its reasons are not wanted.
        """
        if isinstance(outcome.result, NoFit):
            return replace(outcome, advice=await self.adviser.advice(outcome.result))
        if seen is None:
            return outcome
        words = await self.adviser.explanation(seen, outcome.result)
        return replace(outcome, advice=Advice(words))

    def prefer_groups(self, request: Request, outcome: Outcome, given: Sequence[Pods]) -> Outcome:
        """Return the given groups as the plan if they still fit, else the best ones and why."""
        capacity, best = self._state.capacity, outcome.result
        plan = best if isinstance(best, Plan) else None
        found = confirm_groups(capacity, request, given, plan)
        if isinstance(found, str):
            return replace(outcome, replanned=found)
        if found is best:
            return replace(outcome, replanned="")
        return replace(_planned(capacity, found, outcome.generation), replanned="")

    def _on(self, capacity: CapacityView, request: Request) -> Outcome:
        began_s = time.perf_counter()
        result = place(capacity, request)
        self._state.metrics.placed(result, time.perf_counter() - began_s)
        if isinstance(result, Plan):
            return _planned(capacity, result, self._state.generation)
        return Outcome(result, self._state.generation, Advice((result.text,)))


def _planned(capacity: CapacityView, plan: Plan, generation: int) -> Outcome:
    usage, inside = group_usage(capacity, plan), _inside(capacity, plan.request, plan.groups)
    return Outcome(plan, generation, usage=usage, inside=inside)


def _inside(
    capacity: CapacityView, request: Request, groups: Iterable[PlannedGroup]
) -> OtherGroup | None:
    """Return the group of the kind named that all nodes share; None where none is. O(nodes)."""
    if request.within is None:
        return None
    hosts = (capacity.host(node) for group in groups for node, _ in group.pods)
    return shared_group(filter(None, hosts), request.within, capacity.kinds())
