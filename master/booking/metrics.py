"""Metrics of placement."""

import prometheus_client as prom

from topo.kit.metrics import counter, histogram
from topo.placement.booking.events import What
from topo.placement.booking.holds import Obstacle
from topo.placement.fragmentation import Fragmentation
from topo.placement.job.plan import FitTest, NoFit, Plan

_HOLD_EVENTS = (*(what.value for what in What), "restored")


class PlacementMetrics:
    """Counters of the owner of placements, and gauges over its last report."""

    def __init__(self, registry: prom.CollectorRegistry) -> None:
        failed = (("infeasible", failed.value) for failed in FitTest)
        self._placed = counter(registry, "topo_master_placements", failed)
        self._proven = counter(registry, "topo_master_placements_proven")
        self._seconds = histogram(registry, "topo_master_placement_seconds")
        self._events = counter(registry, "topo_master_hold_events", _HOLD_EVENTS)
        obstacles = (obstacle.value for obstacle in Obstacle)
        self._declined = counter(registry, "topo_master_holds_declined", obstacles)
        self._claims = counter(registry, "topo_master_hold_claims_refused")
        self._recounts = counter(registry, "topo_master_capacity_recounts")
        self._differences = counter(registry, "topo_master_capacity_differences")
        self._fits = self._placed.labels("feasible", "")
        self.report: Fragmentation | None = None

    def placed(self, result: Plan | NoFit, took_s: float) -> None:
        """Count one search for a placement, and its time."""
        self._seconds.observe(took_s)
        if isinstance(result, Plan):
            self._fits.inc()
            self._proven.inc(all(result.certified.values()))
        else:
            self._placed.labels("infeasible", result.failed.value).inc()

    def count(self, event: str) -> None:
        """Count an event of a hold."""
        self._events.labels(event).inc()

    def declined(self, obstacle: Obstacle) -> None:
        """Count a hold that was refused."""
        self._declined.labels(obstacle.value).inc()

    def claim_refused(self) -> None:
        """Count a pod that names a hold of others."""
        self._claims.inc()

    def recounted(self, differences: int) -> None:
        """Count a recount, and the nodes that it found counted wrongly."""
        self._recounts.inc()
        self._differences.inc(differences)

    def reported(self, report: Fragmentation) -> None:
        """Take the gauges from this report from now on."""
        self.report = report
