"""What can be measured from outside, by Prometheus conventions; docs/metrics.md is the same list.

Labels are bounded: no node, no path as it was asked, no group unless --group-metrics asks for them.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from typing import Any

import prometheus_client as prom
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from topo.kit.serving.connections import Connections
from topo.model.forest import Group, Snapshot, Status
from topo.model.observation import Event
from topo.model.rest.topology import WarningDocument

PREFIX = "topo_master_"
MAX_KINDS = 16
"""Kinds come from files of people; what is beyond this many is counted as `other`."""
MAX_SEEN = 64
"""Series of one metric that are kept at zero: more than there are kinds and statuses at once."""
_STATUSES = tuple(status.value for status in Status)
_SILENT = ("worker-stale", "no-worker")
"""Reasons of nodes whose worker is lost: counted from zero, because an alert asks for them."""
_FAST_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class EngineMetrics:
    """What the engine loop does."""

    def __init__(self, registry: prom.CollectorRegistry) -> None:
        counter = partial(prom.Counter, registry=registry)
        histogram = partial(prom.Histogram, buckets=_FAST_S, registry=registry)
        self.dropped = counter(
            PREFIX + "events_dropped", "Events refused because the queue was full"
        )
        self._events = counter(PREFIX + "events", "Events applied, by type", ["type"])
        self._batch = histogram(
            PREFIX + "engine_batch_seconds",
            "Time to apply one batch of events and publish the result",
        )
        self.loop_lag = histogram(
            PREFIX + "loop_lag_seconds",
            "How much later than asked the event loop came back, sampled twice a second",
        )

    def count(self, batch: Iterable[Event], batch_s: float) -> None:
        """One batch of events was applied."""
        self._batch.observe(batch_s)
        for kind, number in Tally(type(event).__name__ for event in batch).items():
            self._events.labels(kind).inc(number)


class ServiceMetrics:
    """What the HTTP sides and the state file do."""

    def __init__(self, registry: prom.CollectorRegistry) -> None:
        counter = partial(prom.Counter, registry=registry)
        gauge = partial(prom.Gauge, registry=registry)
        self.requests = counter(
            PREFIX + "http_requests",
            "Requests to the API, by route template",
            ["route", "method", "code"],
        )
        self.reports = counter(
            PREFIX + "reports", "Worker reports, by kind and result", ["kind", "result"]
        )
        self.malformed = counter(
            PREFIX + "malformed_requests", "Requests that are no HTTP, by port", ["port"]
        )
        for port in ("api", "reports"):
            self.malformed.labels(port)
        self.event_streams = gauge(PREFIX + "event_streams", "Event streams open now")
        self.saves = counter(
            PREFIX + "state_saves",
            "Writes of the state; late: of an earlier leader, written over",
            ["result"],
        )
        for result in ("ok", "failed", "late"):
            self.saves.labels(result)
        self.save_seconds = gauge(
            PREFIX + "state_save_duration_seconds", "Time the last write of the state file took"
        )
        self.saved_at = gauge(
            PREFIX + "state_saved_timestamp_seconds",
            "Unix time of the last successful write of the state file, 0 if none",
        )
        self._certificate_begins_at = gauge(
            PREFIX + "certificate_begin_timestamp_seconds",
            "Unix time from which the certificate of the ports holds, 0 without TLS",
        )
        self._certificate_ends_at = gauge(
            PREFIX + "certificate_end_timestamp_seconds",
            "Unix time at which the certificate of the ports ends, 0 without TLS",
        )

    def certificate_lasts(self, begin_s: float, end_s: float) -> None:
        """The life of the ports' certificate, as Unix time."""
        self._certificate_begins_at.set(begin_s)
        self._certificate_ends_at.set(end_s)


class SeenLabels:
    """Labels that a series had once: they stay, at zero.

    A series that vanishes looks like one that was never there, and an alert on it has no end. What
    is zero for longest goes where people invent ever new labels.
    """

    def __init__(self, *labels: Any) -> None:
        self._labels = dict.fromkeys(labels)

    def filled(self, values: Mapping[Any, float]) -> Mapping[Any, float]:
        """The values, and zero for what had one before."""
        self._labels |= dict.fromkeys(values)
        spare = len(self._labels) - MAX_SEEN
        for label in [each for each in self._labels if each not in values][: max(0, spare)]:
            del self._labels[label]
        return {label: values.get(label, 0) for label in self._labels}


@dataclass(slots=True)
class _Counts:
    """What one walk over a forest counts; `ready` is 1 or 0 of each group by (path, kind)."""

    nodes: Tally[str] = field(default_factory=Tally)
    groups: Tally[tuple[str, str]] = field(default_factory=Tally)
    reasons: Tally[str] = field(default_factory=Tally)
    conflicts: Tally[str] = field(default_factory=Tally)
    ready: dict[tuple[str, str], int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True, eq=False)
class TreeCollector(Collector):
    """Numbers of the published tree, counted once per generation, and readings of the service."""

    snapshot: Callable[[], Snapshot]
    clock: Callable[[], float]
    waiting: Callable[[], int]
    workers: Callable[[], int]
    ready: Callable[[], bool]
    warnings: Callable[[], Sequence[WarningDocument]]
    document_sizes: Callable[[], tuple[int, int]]
    by_group: bool = False
    """Whether there is a series for each group: asked for by --group-metrics."""
    _counted: tuple[int, _Counts] | None = None
    _statuses: SeenLabels = field(default_factory=lambda: SeenLabels(*_STATUSES))
    _kinds: SeenLabels = field(default_factory=SeenLabels)
    _reasons: SeenLabels = field(default_factory=lambda: SeenLabels(*_SILENT))
    _codes: SeenLabels = field(default_factory=SeenLabels)
    _warned: SeenLabels = field(default_factory=SeenLabels)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families, at scrape time."""
        snapshot = self.snapshot()
        counts = self._counts(snapshot)
        yield _gauge("generation", "Number of the published tree", snapshot.generation)
        yield _gauge("ready", "Whether the tree is shown", float(self.ready()))
        yield _gauge("queue_events", "Events waiting for the engine", self.waiting())
        yield _gauge("workers", "Workers that reported since the start", self.workers())
        nodes = self._statuses.filled(counts.nodes)
        yield _labelled("nodes", "Nodes in groups and outside", ("status",), nodes)
        yield _labelled("groups", "Groups", ("kind", "status"), self._kinds.filled(counts.groups))
        reasons = self._reasons.filled(counts.reasons)
        text = "Nodes that are not Ready or in no group, by each of their reasons"
        yield _labelled("node_reasons", text, ("reason",), reasons)
        codes = self._codes.filled(counts.conflicts)
        yield _labelled("conflicts", "Conflicts listed now", ("code",), codes)
        if self.by_group:
            text = "1 while the group is Ready, 0 while it is not"
            yield _labelled("group_ready", text, ("group", "kind"), counts.ready)
        forest = snapshot.forest
        yield _gauge("unplaced_nodes", "Known nodes in no group", len(forest.unplaced))
        yield _gauge("unjoined_machines", "Machines that match no node", len(forest.unjoined))
        plain, squeezed = self.document_sizes()
        sizes = {"identity": plain, "gzip": squeezed}
        yield _labelled("document_bytes", "Size of the /node_group document", ("encoding",), sizes)
        restored = snapshot.restored_age_s
        yield _gauge(
            "restored_age_seconds",
            "Age of the state file that the tree still rests on, 0 when a source has spoken",
            restored or 0.0,
        )
        warnings = self._warned.filled({warning.code: 1 for warning in self.warnings()})
        text = "1 while something is wrong with how the master is run"
        yield _labelled("warnings", text, ("code",), warnings)
        yield from self._sources(snapshot)

    def _sources(self, snapshot: Snapshot) -> Iterator[GaugeMetricFamily]:
        now_s = self.clock()
        states = snapshot.sources
        ages = {s.source: now_s - s.last_good_at_s for s in states if s.last_good_at_s is not None}
        failing = {s.source: float(s.failing_since_s is not None) for s in states}
        yield _labelled(
            "source_age_seconds", "Time since the source's last good answer", ("source",), ages
        )
        yield _labelled("source_failing", "1 while the source fails", ("source",), failing)
        warnings = {s.source: len(s.warnings) for s in states}
        text = "What is odd about the source although it may answer"
        yield _labelled("source_warnings", text, ("source",), warnings)

    def _counts(self, snapshot: Snapshot) -> _Counts:
        if self._counted is None or self._counted[0] != snapshot.generation:
            self._counted = (snapshot.generation, _count(snapshot, by_group=self.by_group))
        return self._counted[1]


@dataclass(frozen=True, slots=True, eq=False)
class ConnectionsCollector(Collector):
    """What the ports hold for those who ask."""

    ports: tuple[Connections, ...]

    def collect(self) -> Iterator[Metric]:
        """The families, at scrape time."""
        port = ("port",)
        held = {each.name: len(each) for each in self.ports}
        yield _labelled("connections", "Connections open now", port, held)
        limits = {each.name: each.limit for each in self.ports}
        yield _labelled("connection_limit", "Connections that are held at most", port, limits)
        unread = {each.name: each.in_flight.held_bytes for each in self.ports}
        yield _labelled("unread_bytes", "Bytes of answers that wait for readers", port, unread)
        text = "Connections that the master ended, by port and reason"
        ended = CounterMetricFamily(PREFIX + "connections_ended", text, labels=("port", "reason"))
        for each in self.ports:
            for reason, number in each.ended.items():
                ended.add_metric((each.name, reason), number)
        yield ended


def _count(snapshot: Snapshot, *, by_group: bool) -> _Counts:
    counts = _Counts()
    kinds: set[str] = set()
    for above, vertex in snapshot.forest.walk():
        if isinstance(vertex, Group):
            if len(kinds) < MAX_KINDS:
                kinds.add(vertex.kind)
            kind = vertex.kind if vertex.kind in kinds else "other"
            counts.groups[kind, vertex.status.value] += 1
            if by_group:
                is_ready = vertex.status is Status.READY
                counts.ready["/".join((*above, vertex.name)), kind] = int(is_ready)
        else:
            counts.nodes[vertex.status.value] += 1
            counts.reasons.update({reason.code for reason in vertex.reasons})
    for kind, _ in tuple(counts.groups):
        for status in _STATUSES:
            counts.groups[kind, status] += 0
    for unplaced in snapshot.forest.unplaced:
        counts.nodes[unplaced.node.status.value] += 1
        reasons = {reason.code for reason in unplaced.node.reasons}
        counts.reasons.update(reasons | {unplaced.reason.code})
    for conflict in snapshot.forest.conflicts:
        counts.conflicts[conflict.code] += 1
    return counts


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(PREFIX + name, text, value=value)


def _labelled(
    name: str, text: str, labels: tuple[str, ...], values: Mapping[Any, float]
) -> GaugeMetricFamily:
    """A family with a value per label, or per tuple of labels."""
    family = GaugeMetricFamily(PREFIX + name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key if isinstance(key, tuple) else (key,), value)
    return family


def new_registry(mode: str) -> prom.CollectorRegistry:
    """A registry of this service alone, with the process's own numbers."""
    prom.disable_created_metrics()  # type: ignore[no-untyped-call] # the library's gap
    registry = prom.CollectorRegistry()
    prom.ProcessCollector(registry=registry)
    prom.GCCollector(registry=registry)
    build = prom.Gauge(
        PREFIX + "build_info",
        "Always 1; the version and mode are labels",
        ["version", "mode"],
        registry=registry,
    )
    build.labels(version("supernode-topology"), mode).set(1)
    return registry
