"""What the owner of a job should hear of its gang, as Events on the job."""

from collections.abc import Mapping
from dataclasses import dataclass

from topo.publish.node_events import EventType

ACTION = "PlaceGang"
GANG_REASONS: Mapping[str, EventType] = {
    "GangWaitsForQueue": EventType.NORMAL,
    "GangNeverLetIn": EventType.WARNING,
    "GangWaitsForGate": EventType.NORMAL,
    "GangDoesNotFit": EventType.WARNING,
    "GangNeverFits": EventType.WARNING,
    "GangFindsNoGroups": EventType.WARNING,
    "GangWaitsInLine": EventType.NORMAL,
    "GangPlaced": EventType.NORMAL,
    "GangBound": EventType.NORMAL,
    "GangPreempts": EventType.WARNING,
    "GangDisplaced": EventType.WARNING,
    "GangHalfBound": EventType.WARNING,
    "GangSplit": EventType.WARNING,
    "GangNotPlaced": EventType.WARNING,
    "GangWriteRefused": EventType.WARNING,
    "GangPassedBy": EventType.WARNING,
    "GangUngrouped": EventType.WARNING,
    "GangGroupsIgnored": EventType.WARNING,
}
"""Every reason that there is; docs/how-placement-reaches-the-scheduler.md says what each means."""


@dataclass(frozen=True, slots=True)
class GangOccurrence:
    """One thing to tell; `reason` is one of `GANG_REASONS`, `note` a sentence for people."""

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
