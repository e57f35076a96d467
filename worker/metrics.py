"""The worker's metrics. Labels are bounded: probes, states, kinds, reasons, GPUs and links."""

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from topo.model.machine import LinkErrors, NodeFacts, PortState, ProbeHealth, ProbeState
from worker.transport import Trouble

_DURATIONS_S = (0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10)
_HEALTH = {True: "healthy", False: "unhealthy", None: "unknown"}


class _Errors(Collector):
    """The drivers' own counters of errors, as last read; what none of them counts has no series."""

    def __init__(self, link_errors: Callable[[], Iterable[LinkErrors]]) -> None:
        self._link_errors = link_errors

    def collect(self) -> Iterator[Metric]:
        """The family with a series for each counter."""
        family = CounterMetricFamily(
            "topo_worker_link_errors",
            "Errors that the driver has counted on a link of a GPU, by kind.",
            labels=("gpu", "link", "kind"),
        )
        for each in self._link_errors():
            family.add_metric((str(each.gpu), str(each.link), each.kind.value), each.count)
        yield family


class Metrics:
    """The worker's metrics in a registry of their own."""

    def __init__(self, link_errors: Callable[[], Iterable[LinkErrors]] = tuple) -> None:
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        registry.register(_Errors(link_errors))
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        self._probe_seconds = Histogram(
            "topo_worker_probe_duration_seconds",
            "Duration of probe readings.",
            ["probe"],
            buckets=_DURATIONS_S,
            registry=registry,
        )
        self._probe_readings = counter(
            "topo_worker_probe_readings_total", "Probe readings by outcome.", ["probe", "state"]
        )
        self._probe_state = gauge(
            "topo_worker_probe_state",
            "1 for the state that the probe's last reading had.",
            ["probe", "state"],
        )
        self._reports = counter(
            "topo_worker_reports_total", "Reports that the master accepted, by kind.", ["kind"]
        )
        self._failures = counter(
            "topo_worker_report_failures_total",
            "Reports that may not have arrived, by reason.",
            ["reason"],
        )
        self._last_report = gauge(
            "topo_worker_last_report_timestamp_seconds",
            "Unix time of the last report that the master accepted, 0 before the first.",
        )
        self.malformed = counter(
            "topo_worker_malformed_requests_total",
            "Requests at the port of the metrics that are no HTTP.",
        )
        self._gpus = gauge("topo_worker_gpus", "GPUs seen, by health.", ["health"])
        self._ports = gauge(
            "topo_worker_link_ports", "Interconnect ports of GPUs, by state.", ["state"]
        )
        self._degraded = gauge(
            "topo_worker_link_ports_degraded",
            "Interconnect ports that are up and far slower than their siblings.",
        )
        self._peers = gauge("topo_worker_peers", "Remote servers seen over MetaXLink.")
        build = gauge("topo_worker_build_info", "1; the version.", ["version"])
        build.labels(version("supernode-topology")).set(1)
        for kind in ("full", "change", "beat"):
            self._reports.labels(kind)
        for trouble in Trouble:
            self._failures.labels(trouble.value)

    def read(self, health: ProbeHealth, seconds: float) -> None:
        """One reading of a probe."""
        self._probe_seconds.labels(health.probe).observe(seconds)
        self._probe_readings.labels(health.probe, health.state.value).inc()
        for state in ProbeState:
            self._probe_state.labels(health.probe, state.value).set(state is health.state)

    def reported(self, kind: str, facts: NodeFacts) -> None:
        """One report that the master accepted."""
        self._reports.labels(kind).inc()
        self._last_report.set(time.time())
        if kind != "beat":
            self._show(facts)

    def lost(self, trouble: Trouble) -> None:
        """One report that may not have arrived."""
        self._failures.labels(trouble.value).inc()

    def _show(self, facts: NodeFacts) -> None:
        gpus = Tally(_HEALTH[gpu.healthy] for gpu in facts.gpus)
        for health in _HEALTH.values():
            self._gpus.labels(health).set(gpus[health])
        ports = Tally(port.state for port in facts.ports)
        for state in PortState:
            self._ports.labels(state.value).set(ports[state])
        degraded = (port for port in facts.ports if port.state is PortState.UP and port.trouble)
        self._degraded.set(sum(1 for _ in degraded))
        self._peers.set(len(facts.peers.remotes) if facts.peers is not None else 0)
