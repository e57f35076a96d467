"""Changes of the free capacity since the last call; waiting gangs are retried on a change."""

from collections.abc import Iterator
from typing import NamedTuple

from master.booking.state import BookingState
from topo.gangs.machine.events import CapacityChanged
from topo.model.ids import GroupPath, NodeName
from topo.placement.capacity.capacity_view import CapacityView


class NodeState(NamedTuple):
    """The state of a node that decides whether a job fits on it.

    `left`: its GPUs minus the booked ones, negative if a GPU is booked twice. `path`: the groups
    that contain the node. `chosen_by`: the other facts that jobs select nodes by.
    """

    open: bool
    left: int
    path: GroupPath
    chosen_by: object


_ABSENT = NodeState(open=False, left=0, path=GroupPath(()), chosen_by=None)


class CapacityDelta:
    """The state of each node as last read from the capacity of one master. Mutable; one owner.

    Growth is counted from what was free when a placement was refused, so the controller reads the
    capacity after each answer. Example: a hold books a node for one gang, another gang is refused,
    and the hold ends before the next turn. Over the whole turn nothing changed, but the refused
    gang has to be tried again.
    """

    def __init__(self, state: BookingState) -> None:
        self._state = state
        self._seen: dict[NodeName, NodeState] = {}
        self._changed: dict[NodeName, None] = {}
        self._regrouped: dict[NodeName, None] = {}
        self._has_grown = False

    def begin(self) -> None:
        """Read all nodes; from now on the capacity records which nodes are touched. O(nodes)."""
        self._state.note_touched()
        capacity = self._state.capacity
        self._seen = {host.name: _state_of(capacity, host.name) for host in capacity.hosts()}

    def read(self) -> None:
        """Read the touched nodes; O(touched nodes). The next event names those that changed."""
        self._has_grown |= self._state.room.take_growth()
        touched, capacity = self._state.take_touched(), self._state.capacity
        for name in sorted(touched):
            before, now = self._seen.get(name, _ABSENT), _state_of(capacity, name)
            if now == before:
                continue
            self._seen[name] = now
            self._changed[name] = None
            is_another = now[2:] != before[2:]  # in another group, say: it may fit there
            is_more = now.left > before.left or not before.open or is_another
            self._has_grown = self._has_grown or (now.open and is_more)
            if now.path != before.path and now is not _ABSENT:
                self._regrouped[name] = None

    def note_growth(self) -> None:
        """Have all waiting gangs tried again: their pods may take less than before."""
        self._has_grown = True

    def changes(self, *, is_late: bool = False) -> Iterator[CapacityChanged]:
        """Yield what changed since the last call, as at most one event; O(touched nodes).

        With `is_late` a later call tells that the free capacity has grown.
        """
        self.read()
        has_grown = self._has_grown and not is_late
        if not (self._changed or has_grown):
            return
        changed, regrouped = tuple(self._changed), tuple(self._regrouped)
        self._has_grown = self._has_grown and is_late
        self._changed, self._regrouped = {}, {}
        yield CapacityChanged(changed, has_grown, regrouped)


def _state_of(capacity: CapacityView, name: NodeName) -> NodeState:
    host = capacity.host(name)
    if host is None:
        return _ABSENT
    chosen_by = host.gpu_type, host.guards, host.labels, host.stated_labels
    return NodeState(host.is_open, host.gpus - capacity.used(name), host.path, chosen_by)
