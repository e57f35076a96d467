"""Metrics of the engine, the ports and the tree.

Labels are bounded: no node, no path as requested, no group unless --group-metrics asks for them.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import prometheus_client as prom
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from topo.discovery.tree.fabric_forests import FabricSummary, summaries_beside
from topo.kit.metrics import counter, counter_family, gauge, gauge_family, histogram
from topo.kit.serving.connections import Connections
from topo.model.conditions.tree import GroupCondition, NodeCondition
from topo.model.forest import Group, Node, Snapshot, Status
from topo.model.observation import Event
from topo.model.rest.topology import WarningDocument

MAX_KINDS = 16
"""Labels of a metric whose texts come from users or workers, in the life of the process; further
ones are counted as `other`."""
MAX_SEEN = 64
"""Series of one metric that are kept at zero: more than there are kinds and statuses at once."""
_STATUSES = tuple(status.value for status in Status)
_SILENT = (NodeCondition.WORKER_STALE, NodeCondition.NO_WORKER)
"""Reasons of nodes whose worker is lost: counted from zero, because an alert uses them."""


class EngineMetrics:
    """Metrics of the engine loop."""

    def __init__(self, registry: prom.CollectorRegistry) -> None:
        self.dropped = counter(registry, "topo_master_events_dropped")
        self._events = counter(registry, "topo_master_events")
        self._batch = histogram(registry, "topo_master_engine_batch_seconds")
        self.loop_lag = histogram(registry, "topo_master_loop_lag_seconds")

    def count(self, batch: Iterable[Event], batch_s: float) -> None:
        """Count one applied batch of events."""
        self._batch.observe(batch_s)
        for kind, number in Tally(type(event).__name__ for event in batch).items():
            self._events.labels(kind).inc(number)


class ServiceMetrics:
    """Metrics of the HTTP ports and of saving the state."""

    def __init__(self, registry: prom.CollectorRegistry) -> None:
        self.requests = counter(registry, "topo_master_http_requests")
        self.reports = counter(registry, "topo_master_reports")
        self.malformed = counter(registry, "topo_master_malformed_requests", ("api", "reports"))
        self.event_streams = gauge(registry, "topo_master_event_streams")
        results = ("ok", "failed", "late")
        self.saves = counter(registry, "topo_master_state_saves", results)
        self.save_seconds = gauge(registry, "topo_master_state_save_duration_seconds")
        self.saved_at = gauge(registry, "topo_master_state_saved_timestamp_seconds")
        self.certificate_lasts = validity_setter(
            registry,
            "topo_master_certificate_begin_timestamp_seconds",
            "topo_master_certificate_end_timestamp_seconds",
        )
        """Sets the validity of the ports' certificate."""


def validity_setter(
    registry: prom.CollectorRegistry, begins: str, ends: str
) -> Callable[[float, float], None]:
    """Return the function that sets the gauges of a certificate's begin and end, as Unix times."""
    begin, end = gauge(registry, begins), gauge(registry, ends)

    def lasts(begin_s: float, end_s: float) -> None:
        begin.set(begin_s)
        end.set(end_s)

    return lasts


class BoundedLabels:
    """Labels whose texts others choose: the first `MAX_KINDS` of them for as long as we run.

    Prometheus keeps every series that it saw once, so a bound per scrape would not do: a worker
    that names another GPU model in each report would add series without end.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()

    def label(self, text: str) -> str:
        """Return the text if it is one of the first, else `other`."""
        if text not in self._known and len(self._known) >= MAX_KINDS:
            return "other"
        self._known.add(text)
        return text

    def sums(self, pairs: Iterable[tuple[str, int]]) -> Tally[str]:
        """Return the sums by label. The texts with the largest numbers become labels first."""
        sums: Tally[str] = Tally()
        for text, number in sorted(pairs, key=lambda pair: (-pair[1], pair[0])):
            sums[self.label(text)] += number
        return sums


class SeenLabels:
    """Labels that a series had once: they stay, at zero.

    An alert on a series that vanishes never ends. Labels that are zero for longest are dropped
    where users invent ever new ones.
    """

    def __init__(self, *labels: Any) -> None:
        self._labels = dict.fromkeys(labels)

    def filled(self, values: Mapping[Any, float]) -> Mapping[Any, float]:
        """Return the values, and zero for labels that had one before."""
        self._labels |= dict.fromkeys(values)
        spare = len(self._labels) - MAX_SEEN
        for label in [each for each in self._labels if each not in values][: max(0, spare)]:
            del self._labels[label]
        return {label: values.get(label, 0) for label in self._labels}


@dataclass(slots=True)
class _Counts:
    """The counts of one walk over a forest; `ready` is 1 or 0 of each group by (path, kind).

    `alone`: by kind the groups that are NotReady although their nodes are Ready.
    """

    nodes: Tally[str] = field(default_factory=Tally)
    groups: Tally[tuple[str, str]] = field(default_factory=Tally)
    alone: Tally[str] = field(default_factory=Tally)
    reasons: Tally[str] = field(default_factory=Tally)
    conflicts: Tally[str] = field(default_factory=Tally)
    ready: dict[tuple[str, str], int] = field(default_factory=dict)
    fabrics: tuple[FabricSummary, ...] = ()


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
    """Whether each group has a series, as --group-metrics asks for."""
    _counted: tuple[int, _Counts] | None = None
    _statuses: SeenLabels = field(default_factory=lambda: SeenLabels(*_STATUSES))
    _kinds: SeenLabels = field(default_factory=SeenLabels)
    _kind_labels: BoundedLabels = field(default_factory=BoundedLabels)
    _reasons: SeenLabels = field(default_factory=lambda: SeenLabels(*_SILENT))
    _codes: SeenLabels = field(default_factory=SeenLabels)
    _warned: SeenLabels = field(default_factory=SeenLabels)
    _fabrics: SeenLabels = field(default_factory=SeenLabels)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the families, at each scrape."""
        snapshot = self.snapshot()
        counts = self._counts(snapshot)
        yield gauge_family("topo_master_generation", snapshot.generation)
        yield gauge_family("topo_master_ready", float(self.ready()))
        yield gauge_family("topo_master_queue_events", self.waiting())
        yield gauge_family("topo_master_workers", self.workers())
        yield gauge_family("topo_master_nodes", self._statuses.filled(counts.nodes))
        yield gauge_family("topo_master_groups", self._kinds.filled(counts.groups))
        yield gauge_family("topo_master_groups_not_ready_alone", counts.alone)
        yield gauge_family("topo_master_node_reasons", self._reasons.filled(counts.reasons))
        yield gauge_family("topo_master_conflicts", self._codes.filled(counts.conflicts))
        if self.by_group:
            yield gauge_family("topo_master_group_ready", counts.ready)
        of_fabrics = self._fabrics.filled({each.fabric: each.groups for each in counts.fabrics})
        yield gauge_family("topo_master_fabric_groups", of_fabrics)
        outside = {each.fabric: len(each.unplaced) for each in counts.fabrics}
        yield gauge_family("topo_master_fabric_unplaced_nodes", self._fabrics.filled(outside))
        forest = snapshot.forest
        yield gauge_family("topo_master_unplaced_nodes", len(forest.unplaced))
        yield gauge_family("topo_master_unjoined_machines", len(forest.unjoined))
        plain, squeezed = self.document_sizes()
        yield gauge_family("topo_master_document_bytes", {"identity": plain, "gzip": squeezed})
        restored = snapshot.restored_at_s
        restored_age_s = 0.0 if restored is None else self.clock() - restored
        yield gauge_family("topo_master_restored_age_seconds", restored_age_s)
        warnings = self._warned.filled({warning.code: 1 for warning in self.warnings()})
        yield gauge_family("topo_master_warnings", warnings)
        yield from self._sources(snapshot)

    def _sources(self, snapshot: Snapshot) -> Iterator[GaugeMetricFamily]:
        now_s = self.clock()
        states = snapshot.sources
        ages = {s.source: now_s - s.last_good_at_s for s in states if s.last_good_at_s is not None}
        failing = {s.source: float(s.failing_since_s is not None) for s in states}
        yield gauge_family("topo_master_source_age_seconds", ages)
        yield gauge_family("topo_master_source_failing", failing)
        warnings = {s.source: len(s.warnings) for s in states}
        yield gauge_family("topo_master_source_warnings", warnings)

    def _counts(self, snapshot: Snapshot) -> _Counts:
        if self._counted is None or self._counted[0] != snapshot.generation:
            counts = _count(snapshot, self._kind_labels.label, by_group=self.by_group)
            self._counted = snapshot.generation, counts
        return self._counted[1]


@dataclass(frozen=True, slots=True, eq=False)
class ConnectionsCollector(Collector):
    """The connections and unread bytes of the ports."""

    ports: tuple[Connections, ...]

    def collect(self) -> Iterator[Metric]:
        """Yield the families, at each scrape."""
        held = {each.name: len(each) for each in self.ports}
        yield gauge_family("topo_master_connections", held)
        limits = {each.name: each.limit for each in self.ports}
        yield gauge_family("topo_master_connection_limit", limits)
        unread = {each.name: each.in_flight.held_bytes for each in self.ports}
        yield gauge_family("topo_master_unread_bytes", unread)
        ended = {
            (each.name, reason): number
            for each in self.ports
            for reason, number in each.ended.items()
        }
        yield counter_family("topo_master_connections_ended", ended)


def _count(snapshot: Snapshot, label: Callable[[str], str], *, by_group: bool) -> _Counts:
    counts = _Counts(fabrics=summaries_beside(snapshot.forest))
    for above, vertex in snapshot.forest.walk():
        if isinstance(vertex, Group):
            kind = label(vertex.kind)
            counts.groups[kind, vertex.status.value] += 1
            counts.alone[kind] += _is_not_ready_alone(vertex)
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


def new_registry(mode: str) -> prom.CollectorRegistry:
    """Return a registry of this service with the metrics of the process."""
    prom.disable_created_metrics()  # type: ignore[no-untyped-call] # the library's gap
    registry = prom.CollectorRegistry()
    prom.ProcessCollector(registry=registry)
    prom.GCCollector(registry=registry)
    build = gauge(registry, "topo_master_build_info")
    build.labels(version("supernode-topology"), mode).set(1)
    return registry


def _is_not_ready_alone(group: Group) -> bool:
    """Return whether a group is NotReady for a reason of its own, while all its nodes are Ready."""
    own = [each for each in group.reasons if each.code != GroupCondition.CHILD_NOT_READY]
    return bool(own) and all(
        vertex.status is Status.READY for _, vertex in group.walk() if isinstance(vertex, Node)
    )
