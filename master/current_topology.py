"""The current tree for readers, with its bookings and the warnings of the master."""

from collections.abc import Callable
from dataclasses import dataclass

from master.booking.placements import Placements
from master.tree import topology_document
from master.tree.engine import Engine
from master.tree.topology_document import TopologyView
from topo.model.rest.topology import WarningDocument


@dataclass(frozen=True, slots=True)
class CurrentTopology:
    """The current tree, composed at each call."""

    engine: Engine
    placements: Placements
    warnings: Callable[[], tuple[WarningDocument, ...]]

    def view(self) -> TopologyView:
        """Return the forest, the bookings on its nodes, and the times of their states."""
        times = self.engine.status_times.copy()
        usage = self.placements.state.usage()
        cards = self.placements.state.cards.snapshot()
        return TopologyView(
            self.engine.snapshot,
            usage,
            times=times,
            warnings=self.warnings(),
            cards=cards,
            beside=self.engine.beside,
        )

    def version(self) -> object:
        """Return a value that differs whenever the documents of `view` do. O(1)."""
        state = self.placements.state
        booked = state.version, state.cards.version
        return topology_document.version(self.engine.snapshot, booked, self.warnings())
