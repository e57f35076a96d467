"""The tree as readers see it: what is booked on it, and what is wrong with the master itself."""

from collections.abc import Callable
from dataclasses import dataclass

from master.booking.placements import Placements
from master.tree import topology_document
from master.tree.engine import Engine
from master.tree.topology_document import TopologyView
from topo.model.rest.topology import WarningDocument


@dataclass(frozen=True, slots=True)
class CurrentTopology:
    """Put together when it is asked for."""

    engine: Engine
    placements: Placements
    warnings: Callable[[], tuple[WarningDocument, ...]]

    def view(self) -> TopologyView:
        """The forest now, what is booked on its nodes, and since when they are as they are."""
        times = self.engine.status_times.copy()
        usage = self.placements.state.usage()
        return TopologyView(self.engine.snapshot, usage, times, self.warnings())

    def version(self) -> object:
        """What tells the documents of `view` from others; O(1)."""
        booked = self.placements.state.version
        return topology_document.version(self.engine.snapshot, booked, self.warnings())
