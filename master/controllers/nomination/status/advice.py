"""The smallest change that would admit a gang, for the status of a gang without room."""

from collections.abc import Callable

from master.booking.advice import Advice
from master.booking.planner import Planner
from topo.gangs.machine.gang import Gang
from topo.gangs.machine.placement_requests import current_request
from topo.placement.advice.suggestion import SuggestionKind


async def smallest_change(
    gang: Gang, text: str, planner: Planner, clock: Callable[[], float]
) -> str:
    """Return the smallest change that would admit the gang, empty if none is known.

    `text` is the reason why the gang waits; the result does not repeat it. The search runs in a
    thread, one gang at a time.
    """
    request = current_request(gang, clock())
    outcome = await planner.explain_outcome(planner.plan(request), None)
    return _change(outcome.advice, text)


def _change(advice: Advice, text: str) -> str:
    if advice.ever:
        why, *smaller = advice.ever
        because = "" if why == text else f": {why}"
        return " ".join((f"With all nodes open and empty it would not fit{because}.", *smaller))
    # The pods of the gang exist, so that fewer pods are the last thing to suggest.
    changes = [each for each in advice.would_fit if each.kind is not SuggestionKind.FEWER_PODS]
    return next((each.text for each in (*changes, *advice.would_fit)), "")
