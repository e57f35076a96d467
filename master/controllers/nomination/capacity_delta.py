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
    """The state of each node as last read from the capacity of one master. Mutable; one owner."""

    def __init__(self, state: BookingState) -> None:
        self._state = state
        self._seen: dict[NodeName, NodeState] = {}

    def begin(self) -> None:
        """Read all nodes; from now on the capacity records which nodes are touched. O(nodes)."""
        self._state.note_touched()
        capacity = self._state.capacity
        self._seen = {host.name: _state_of(capacity, host.name) for host in capacity.hosts()}

    def changes(self) -> Iterator[CapacityChanged]:
        """Yield what changed since the last call, as at most one event; O(touched nodes)."""
        touched, capacity = self._state.take_touched(), self._state.capacity
        changed: list[NodeName] = []
        regrouped: list[NodeName] = []
        grew = False
        for name in sorted(touched):
            before, now = self._seen.get(name, _ABSENT), _state_of(capacity, name)
            if now == before:
                continue
            self._seen[name] = now
            changed.append(name)
            is_another = now[2:] != before[2:]  # in another group, say: it may fit there
            grew = grew or (now.open and (now.left > before.left or not before.open or is_another))
            if now.path != before.path and now is not _ABSENT:
                regrouped.append(name)
        if changed:
            yield CapacityChanged(tuple(changed), grew, tuple(regrouped))


def _state_of(capacity: CapacityView, name: NodeName) -> NodeState:
    host = capacity.host(name)
    if host is None:
        return _ABSENT
    chosen_by = host.gpu_type, host.guards, host.labels
    return NodeState(host.is_open, host.gpus - capacity.used(name), host.path, chosen_by)
