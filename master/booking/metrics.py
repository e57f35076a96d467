"""What placement does, by Prometheus conventions; docs/metrics.md lists it."""

import prometheus_client as prom

from master.metrics import PREFIX
from topo.placement.booking.events import What
from topo.placement.booking.holds import Obstacle
from topo.placement.job.plan import FitTest, NoFit, Plan
from topo.placement.report.fragmentation import Fragmentation

_PLACING_S = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1.0)
_HOLD_EVENTS = (*(what.value for what in What), "restored")


class PlacementMetrics:
    """Counters of the owner of placements, and gauges over its last report."""

    def __init__(self, registry: prom.CollectorRegistry) -> None:
        self._placed = prom.Counter(
            PREFIX + "placements",
            "Placements asked for, by result and by the test that failed",
            ["result", "failed"],
            registry=registry,
        )
        self._proven = prom.Counter(
            PREFIX + "placements_proven",
            "Placements found of which each number is proven the best there is",
            registry=registry,
        )
        self._seconds = prom.Histogram(
            PREFIX + "placement_seconds",
            "Time to find a placement, without words and HTTP",
            buckets=_PLACING_S,
            registry=registry,
        )
        self._events = prom.Counter(
            PREFIX + "hold_events", "What happened to holds", ["event"], registry=registry
        )
        self._declined = prom.Counter(
            PREFIX + "holds_declined",
            "Holds that were not given, by what stood against them",
            ["obstacle"],
            registry=registry,
        )
        self._recounts = prom.Counter(
            PREFIX + "capacity_recounts", "Full recounts of the capacity", registry=registry
        )
        self._differences = prom.Counter(
            PREFIX + "capacity_differences",
            "Nodes whose free capacity was kept wrongly, found by a recount",
            registry=registry,
        )
        for event in _HOLD_EVENTS:
            self._events.labels(event)
        for obstacle in Obstacle:
            self._declined.labels(obstacle.value)
        for failed in FitTest:
            self._placed.labels("infeasible", failed.value)
        self._fits = self._placed.labels("feasible", "")
        self.report: Fragmentation | None = None

    def placed(self, result: Plan | NoFit, took_s: float) -> None:
        """One placement was looked for."""
        self._seconds.observe(took_s)
        if isinstance(result, Plan):
            self._fits.inc()
            self._proven.inc(all(result.certified.values()))
        else:
            self._placed.labels("infeasible", result.failed.value).inc()

    def count(self, event: str) -> None:
        """Something happened to a hold."""
        self._events.labels(event).inc()

    def declined(self, obstacle: Obstacle) -> None:
        """A hold was not given."""
        self._declined.labels(obstacle.value).inc()

    def recounted(self, differences: int) -> None:
        """A recount found so many nodes counted wrongly."""
        self._recounts.inc()
        self._differences.inc(differences)

    def reported(self, report: Fragmentation) -> None:
        """The report that the gauges are taken from."""
        self.report = report
