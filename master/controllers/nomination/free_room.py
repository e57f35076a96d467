"""What is free on each node, compared with the last look: gangs that wait are tried on a change."""

from collections.abc import Iterator

from master.booking.state import BookingState
from topo.gangs.events import CapacityChanged
from topo.model.ids import NodeName

Room = tuple[bool, int, object]
"""Whether a node is open, its GPUs less those that are booked (below 0 where two have the same
ones), and by what jobs choose it."""
_NOWHERE: Room = False, 0, None


class FreeRoom:
    """What was free where at the last look, on the capacity of one master."""

    def __init__(self, state: BookingState) -> None:
        self._state = state
        self._seen: dict[NodeName, Room] = {}

    def begin(self) -> None:
        """Looks at all nodes; from here on the capacity notes which were touched. O(nodes)."""
        capacity = self._state.capacity
        capacity.touched = set()
        self._seen = {host.name: self._room(host.name) for host in capacity.hosts()}

    def changes(self) -> Iterator[CapacityChanged]:
        """What changed since the last look, as one event at most; O(touched nodes)."""
        capacity = self._state.capacity
        touched, capacity.touched = capacity.touched or set(), set()
        changed: list[NodeName] = []
        grew = False
        for name in sorted(touched):
            before, now = self._seen.get(name, _NOWHERE), self._room(name)
            if now == before:
                continue
            self._seen[name] = now
            changed.append(name)
            is_another = now[2] != before[2]  # in another group, say: it may fit there
            grew = grew or (now[0] and (now[1] > before[1] or not before[0] or is_another))
        if changed:
            yield CapacityChanged(tuple(changed), grew)

    def _room(self, name: NodeName) -> Room:
        capacity = self._state.capacity
        host = capacity.host(name)
        if host is None:
            return _NOWHERE
        chosen_by = host.path, host.gpu_type, host.guards, host.labels
        return host.open, host.gpus - capacity.used(name), chosen_by
