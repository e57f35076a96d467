"""What a placement mode offers to the status of its gangs; one implementation per mode.

To add a mode (Kueue, or the PodGroups of Kubernetes): a module with this protocol, which computes a
`GangStatus` from what is known of a gang and reports it to the `StatusStore`, and a line in the
composition of the controller. States, Events, REST, history and the doctor follow from the table.
"""

from collections.abc import Iterator
from typing import Protocol

from topo.gangs.machine.gang import Gang, GangId
from topo.gangs.status import GangStatus

Shown = tuple[Gang, GangStatus]


class GangPolicy(Protocol):
    """The gangs of one placement mode, each with its status of this moment."""

    def all(self) -> Iterator[Shown]:
        """Yield all gangs; O(pods), O(gangs²) for those in a queue."""
        ...

    def get(self, gang_id: GangId) -> Shown | None:
        """Return a gang; None for one that is unknown, or of another mode."""
        ...
