"""The smallest change that would admit a gang, for the status of a gang without room."""

from collections.abc import Callable

from master.booking.advice import change_in_words
from master.booking.planner import Planner
from topo.gangs.machine.gang import Gang
from topo.gangs.machine.placement_requests import current_request


async def smallest_change(
    gang: Gang, text: str, planner: Planner, clock: Callable[[], float]
) -> str:
    """Return the smallest change that would admit the gang, empty if none is known.

    `text` is the reason why the gang waits; the result does not repeat it. The search runs in a
    thread, one gang at a time. None is looked for where parts need domains of their own, of which
    the planner knows nothing.
    """
    request = current_request(gang, clock())
    if request.own_domains:
        return ""
    outcome = await planner.explain_outcome(planner.plan(request), None)
    return change_in_words(outcome.advice, outcome.result, text)
