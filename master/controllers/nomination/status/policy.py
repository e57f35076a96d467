"""What a placement mode provides for the status of its gangs; one implementation per mode.

To add a mode (Kueue, or the PodGroups of Kubernetes): write a module that implements this protocol.
It computes a `GangStatus` from the facts about a gang and reports it to the `StatusStore`. Then add
a line to the composition of the controller. States, Events, REST, history and the doctor follow
from the table.
"""

from collections.abc import Iterator
from typing import Protocol

from topo.gangs.machine.gang import Gang, GangId
from topo.gangs.status import GangStatus

Shown = tuple[Gang, GangStatus]


class GangPolicy(Protocol):
    """The gangs of one placement mode, each with its current status."""

    def all(self) -> Iterator[Shown]:
        """Yield all gangs; O(pods), and O(gangs log gangs) for those in a queue."""
        ...

    def get(self, gang_id: GangId) -> Shown | None:
        """Return a gang; None if it is unknown or of another mode."""
        ...
