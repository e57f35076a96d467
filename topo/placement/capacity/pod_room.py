"""The room that nodes have for the pods of one question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from topo.model.ids import NodeName
from topo.model.pod_requests import Amounts
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.node_room import Held, NodeRoom, PodId, Tight


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

    def limited(self, capacity: CapacityView) -> CapacityView:
        """Return the capacity for such pods, which is limited by this room already.

        O(nodes of own and held pods); the first question asked of it O(nodes that changed).
        """
        if not self.takes:
            return capacity
        limits = self.room.limits_under((self.takes, self.gpus), self.own, self.held)
        return capacity.with_changes(takes=self.takes, limits=limits)

    def tight(self) -> Mapping[NodeName, Tight]:
        """Return the nodes that take fewer such pods than their GPUs could; O(nodes)."""
        return self.room.tight(self.takes, self.gpus, self.own, self.held)
