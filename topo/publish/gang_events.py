"""Events on a job about its gang."""

from collections.abc import Mapping

from topo.model.conditions.gang_states import JOB_EVENTS, EventType, GangState
from topo.publish.node_events import EventContent

ACTION = "PlaceGang"
GANG_REASONS: Mapping[str, EventType] = {
    **{each.row.event: each.row.event_type for each in GangState if each.row.event},
    **{each.reason: "Warning" for each in JOB_EVENTS},
}
"""Every reason with its type."""


def gang_event(reason: str, note: str) -> EventContent:
    """Return the content of an Event on a job; `reason` is one of `GANG_REASONS`."""
    return EventContent(reason, note, GANG_REASONS[reason], ACTION)
