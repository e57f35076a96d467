"""What is free on each node, compared with the last look: gangs that wait are tried on a change."""

from collections.abc import Iterator
from typing import NamedTuple

from master.booking.state import BookingState
from topo.gangs.machine.events import CapacityChanged
from topo.model.ids import GroupPath, NodeName


class Room(NamedTuple):
    """Whether a node is open, its GPUs less those that are booked (below 0 where two have the same
    ones), the groups that it stands in, and by what else jobs choose it.
    """

    open: bool
    left: int
    path: GroupPath
    chosen_by: object


_NOWHERE = Room(open=False, left=0, path=GroupPath(()), chosen_by=None)


class CapacityDelta:
    """What was free where at the last look, on the capacity of one master."""

    def __init__(self, state: BookingState) -> None:
        self._state = state
        self._seen: dict[NodeName, Room] = {}

    def begin(self) -> None:
        """Looks at all nodes; from here on the capacity notes which were touched. O(nodes)."""
        self._state.note_touched()
        self._seen = {host.name: self._room(host.name) for host in self._state.capacity.hosts()}

    def changes(self) -> Iterator[CapacityChanged]:
        """What changed since the last look, as one event at most; O(touched nodes)."""
        touched = self._state.take_touched()
        changed: list[NodeName] = []
        regrouped: list[NodeName] = []
        grew = False
        for name in sorted(touched):
            before, now = self._seen.get(name, _NOWHERE), self._room(name)
            if now == before:
                continue
            self._seen[name] = now
            changed.append(name)
            is_another = now[2:] != before[2:]  # in another group, say: it may fit there
            grew = grew or (now.open and (now.left > before.left or not before.open or is_another))
            if now.path != before.path and now is not _NOWHERE:
                regrouped.append(name)
        if changed:
            yield CapacityChanged(tuple(changed), grew, tuple(regrouped))

    def _room(self, name: NodeName) -> Room:
        capacity = self._state.capacity
        host = capacity.host(name)
        if host is None:
            return _NOWHERE
        chosen_by = host.gpu_type, host.guards, host.labels
        return Room(host.open, host.gpus - capacity.used(name), host.path, chosen_by)
