"""What the owner of a job should hear of its gang, as Events on the job."""

from collections.abc import Mapping
from dataclasses import dataclass

from topo.model.conditions.gang_states import JOB_EVENTS, GangState
from topo.publish.node_events import EventType

ACTION = "PlaceGang"
GANG_REASONS: Mapping[str, EventType] = {
    **{each.row.event: EventType(each.row.event_type) for each in GangState if each.row.event},
    **{each.reason: EventType.WARNING for each in JOB_EVENTS},
}
"""Every reason with its type."""


@dataclass(frozen=True, slots=True)
class GangOccurrence:
    """One thing to report; `reason` is one of `GANG_REASONS`, `note` a sentence for people."""

    reason: str
    note: str

    @property
    def type(self) -> EventType:
        """Whether somebody should look at it."""
        return GANG_REASONS[self.reason]

    @property
    def action(self) -> str:
        """What this program was doing."""
        return ACTION
