"""The questions of the machine to its owner: `Place` and `Check`, each with a number of its own.

An answer names the number of its question, so that one that comes late is known as such.
"""

from dataclasses import replace

from topo.gangs.machine.instructions import Check
from topo.gangs.machine.pending_queue import QueueTurn
from topo.gangs.machine.placement_needs import PlacementNeed, placement_need
from topo.gangs.machine.placement_requests import check_request, place_request
from topo.gangs.machine.record import PendingPlacement, Record
from topo.gangs.machine.registry.planned_nodes import PlannedNodes
from topo.gangs.machine.settings import GangSettings
from topo.gangs.machine.write_order import Progress
from topo.model.errors import BrokenInvariantError


class Questions:
    """Makes questions. Mutable: it counts them. `planned_nodes` are those of all gangs."""

    def __init__(self, settings: GangSettings, planned_nodes: PlannedNodes) -> None:
        self._settings, self._planned_nodes = settings, planned_nodes
        self._asks = 0

    def place(
        self, record: Record, need: PlacementNeed, now_s: float, turn: QueueTurn | None = None
    ) -> PendingPlacement:
        """Return the placement to request for a need; `turn` is given for a need of the queue."""
        self._asks += 1
        place = place_request(record, need, now_s, ask=self._asks)
        if turn is not None:
            place = replace(place, without=turn.without, reserve=turn.reserve, over=turn.over)
        if place.over is not None:
            # Plans over other pods are not booked, so the capacity does not know their nodes.
            place = replace(place, spoken_for=self._planned_nodes.of_others(place.id))
        return PendingPlacement(need.purpose, place, now_s + self._settings.given_s)

    def place_in_turn(self, record: Record, turn: QueueTurn, now_s: float) -> PendingPlacement:
        """Return the placement to request for the gang whose turn it is in the queue.

        Raises `BrokenInvariantError` for a gang that needs none.
        """
        need = placement_need(record)
        if not isinstance(need, PlacementNeed):
            raise BrokenInvariantError(f"gangs: {turn.id} is in the queue and needs nothing")
        return self.place(record, need, now_s, turn)

    def check(self, record: Record, progress: Progress, now_s: float) -> Check | None:
        """Return the check of the nodes that is due; None if none is due. O(members)."""
        found = check_request(record, progress, now_s, ask=self._asks + 1)
        self._asks += found is not None
        return found
