"""The room that nodes have for the pods of one question."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from topo.model.ids import NodeName
from topo.model.pod_requests import Amounts
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.node_room import Held, NodeRoom, PodId, Tight
from topo.placement.capacity.room_limits import RoomChange


@dataclass(frozen=True, slots=True)
class PodRoom:
    """The room for pods that take these amounts beside their GPUs.

    The pods of `own` count as gone; pods that are `held` for others count as there.
    """

    room: NodeRoom
    takes: Amounts
    gpus: int
    own: Sequence[PodId] = ()
    held: Sequence[Held] = ()

    def beside(self, pods: Iterable[tuple[PodId, NodeName]]) -> "PodRoom":
        """Return the room with such pods on nodes, each counted there and nowhere else."""
        at = dict(pods)
        there = [(node, self.takes, number) for node, number in Counter(at.values()).items()]
        own = dict.fromkeys((*self.own, *at))
        return replace(self, own=tuple(own), held=(*self.held, *there))

    def shortages(self, pods: Mapping[NodeName, int]) -> Mapping[NodeName, str]:
        """Return the nodes without room for so many such pods, with a resource that is short.

        O(these nodes, and those of own and held pods).
        """
        return self.room.shortages(self.takes, pods, self.own, self.held)

    def limited(self, capacity: CapacityView) -> CapacityView:
        """Return the capacity for such pods, which is limited by this room already.

        O(nodes of own and held pods); the first question asked of it O(nodes that changed).
        """
        if not self.takes:
            return capacity
        limits = self.room.limits_under((self.takes, self.gpus), self.own, self.held)
        return capacity.with_changes(room=RoomChange(self.takes, limits))

    def tight(self) -> Mapping[NodeName, Tight]:
        """Return the nodes that take fewer such pods than their GPUs could; O(nodes)."""
        return self.room.tight(self.takes, self.gpus, self.own, self.held)
