"""Explanations of plans and refusals, found in a thread, because they take longer than a plan."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from topo.kit.executors import SingleThreadExecutor
from topo.placement.advice.explain import explain
from topo.placement.advice.refusal_reasons import reasons
from topo.placement.advice.suggestion import Suggestion, SuggestionKind
from topo.placement.advice.suggestions import (
    find_suggestions,
    largest_possible_pods,
    never_fits_text,
    refusal_on_empty_nodes,
)
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.job.plan import NoFit, Plan
from topo.placement.job.request import Request

AT_ONCE = 16
"""Jobs that may wait for words, each with a copy of the capacity (a megabyte)."""
KEPT = 64
NOT_EXPLAINED = "not explained: too many ask why at once"
_Case = tuple[int, Request]
"""A version of the capacity, and what was asked of it."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Why a plan is as it is, or a job does not fit: a fact a sentence, and what would let it in.

    `largest_ever`: the most pods of such a job that could ever fit, None if this one could; `ever`:
    why it never does, and what would.
    """

    reasons: Sequence[str] = ()
    would_fit: Sequence[Suggestion] = ()
    largest_ever: int | None = None
    ever: Sequence[str] = ()


UNASKED = Advice()
"""Where nobody asked why."""


def advice_on(
    capacity: CapacityView, refused: NoFit, owned: Mapping[str, str] = MappingProxyType({})
) -> Advice:
    """Return the advice on a refusal by this capacity. O(nodes) and some placements.

    `owned` is as of `find_suggestions`.
    """
    why, largest = reasons(capacity, refused), largest_possible_pods(capacity, refused.request)
    fits = find_suggestions(capacity, refused, owned)
    if largest is None:
        return Advice(why, fits)
    why = (why[0], never_fits_text(refused.request, largest), *why[1:])
    return Advice(why, fits, largest, refusal_on_empty_nodes(capacity, refused.request, largest))


def change_in_words(advice: Advice, result: Plan | NoFit, text: str) -> str:
    """Return the smallest change that would let a job in, empty if none is known.

    `result` is the answer of the capacity that the change is for. `text` is the reason that was
    told already; the result does not repeat it, and has its own numbers where they differ from
    those: the capacity may have changed since. Fewer pods are the last thing to suggest.
    """
    if advice.ever:
        why, *smaller = advice.ever
        because = "" if why == text else f": {why}"
        return " ".join((f"With all nodes open and empty it would not fit{because}.", *smaller))
    changes = [each for each in advice.would_fit if each.kind is not SuggestionKind.FEWER_PODS]
    change = next((each.text for each in (*changes, *advice.would_fit)), "")
    if not change or isinstance(result, Plan) or result.text in text:
        return change
    return f"Counted anew by GPUs alone, {result.text}. {change}"


class Adviser:
    """Finds advice in a thread, one job at a time, and caches it by version of the capacity.

    Those who wait for GPUs ask for the same job again and again. If too many ask at once, the later
    ones get only the test that failed.
    """

    def __init__(self, capacity: Callable[[], CapacityView]) -> None:
        self._capacity = capacity
        self.owned: Callable[[], Mapping[str, str]] = dict
        """Returns the jobs of owners that are pods of a job which runs as a whole; O(such pods)."""
        self._known: dict[_Case, Advice] = {}
        self._executor = SingleThreadExecutor(AT_ONCE)

    def __len__(self) -> int:
        """Return how many answers are remembered."""
        return len(self._known)

    async def explanation(self, seen: CapacityView, plan: Plan) -> Sequence[str]:
        """Return why a plan is as it is; `seen` is a copy of the capacity that it was made on."""
        if self._executor.full:
            return (NOT_EXPLAINED,)
        return await self._executor.run(lambda: partial(explain, seen, plan))

    async def advice(self, refused: NoFit) -> Advice:
        """Return why the capacity refuses a job now, and the changes under which it would fit."""
        capacity = self._capacity()
        key = (capacity.version, refused.request)
        if key in self._known or self._executor.full:
            return self._known.get(key, Advice((refused.text,)))
        copy, owned = capacity.copy(), self.owned()  # before anything else can happen

        def prepare() -> Callable[[], Advice]:
            known = self._known.get(key)
            return partial(advice_on, copy, refused, owned) if known is None else lambda: known

        found = self._known[key] = await self._executor.run(prepare)
        while len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        return found
