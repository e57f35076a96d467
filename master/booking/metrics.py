"""What placement does and what it has left, by Prometheus conventions; docs/metrics.md lists it."""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator

import prometheus_client as prom
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from master.metrics import MAX_KINDS, PREFIX
from topo.placement.booking.holds import HoldState, Obstacle
from topo.placement.job.plan import NoFit, Plan
from topo.placement.report.fragmentation import Fragmentation

_PLACING_S = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1.0)
_ENDS = ("reserved", "repeated", "committed", "released", "expired", "restored")


class PlacementMetrics:
    """Counters of the owner of placements, and gauges over its last report."""

    def __init__(self, registry: prom.CollectorRegistry) -> None:
        self._placed = prom.Counter(
            PREFIX + "placements",
            "Placements asked for, by result and by the test that failed",
            ["result", "failed"],
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
        for event in _ENDS:
            self._events.labels(event)
        self._fits = self._placed.labels("feasible", "")
        self.report: Fragmentation | None = None

    def placed(self, result: Plan | NoFit, took_s: float) -> None:
        """One placement was looked for."""
        self._seconds.observe(took_s)
        if isinstance(result, Plan):
            self._fits.inc()
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


class CapacityCollector(Collector):
    """What is held, and what is free by the last report, at scrape time."""

    def __init__(
        self, metrics: PlacementMetrics, booked: Callable[[], Iterable[tuple[HoldState, int]]]
    ) -> None:
        self._metrics, self._booked = metrics, booked

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families."""
        held: Tally[str] = Tally({state.value: 0 for state in HoldState})
        gpus = 0
        for state, waiting in self._booked():
            held[state.value] += 1
            gpus += waiting
        yield _family("holds", "Holds there are now", "state", held)
        yield GaugeMetricFamily(PREFIX + "booked_gpus", "GPUs that holds book", value=gpus)
        report = self._metrics.report
        types = report.types if report is not None else ()
        names = [part.gpu_type or "unknown" for part in types]
        free = _bounded((name, part.free_gpus) for name, part in zip(names, types, strict=True))
        yield _family("free_gpus", "Free GPUs of open nodes", "gpu_type", free)
        groups = _bounded((tier.kind, tier.whole_groups) for part in types for tier in part.tiers)
        text = "Free whole groups of the canonical size inside groups of a kind"
        yield _family("free_groups", text, "kind", groups)
        pristine = _bounded((tier.kind, tier.pristine) for part in types for tier in part.tiers)
        text = "Groups of a kind whose open nodes are all free"
        yield _family("pristine_groups", text, "kind", pristine)


def _bounded(pairs: Iterable[tuple[str, int]]) -> Tally[str]:
    """Sums by label; labels beyond `MAX_KINDS` are `other`."""
    sums: Tally[str] = Tally()
    for label, number in pairs:
        known = label in sums or len(sums) < MAX_KINDS
        sums[label if known else "other"] += number
    return sums


def _family(name: str, text: str, label: str, values: Tally[str]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(PREFIX + name, text, labels=(label,))
    for key, value in values.items():
        family.add_metric((key,), value)
    return family
