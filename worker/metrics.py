"""The worker's metrics. Labels are bounded: probes, states, kinds, reasons, GPUs and links."""

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from topo.kit.metrics import counter, counter_family, gauge, histogram
from topo.model.machine import (
    LinkErrors,
    NodeFacts,
    PortErrors,
    PortState,
    ProbeHealth,
    ProbeState,
)
from worker.transport import Trouble

_HEALTH = {True: "healthy", False: "unhealthy", None: "unknown"}


class _Errors(Collector):
    """The drivers' own counters of errors, as last read; what none of them counts has no series."""

    def __init__(
        self,
        link_errors: Callable[[], Iterable[LinkErrors]],
        port_errors: Callable[[], Iterable[PortErrors]],
    ) -> None:
        self._link_errors, self._port_errors = link_errors, port_errors

    def collect(self) -> Iterator[Metric]:
        """Yield the families with a series for each counter."""
        found = {
            (str(each.gpu), str(each.link), each.kind.value): each.count
            for each in self._link_errors()
        }
        yield counter_family("topo_worker_link_errors", found)
        of_ports = {
            (each.hca, str(each.port), each.kind.value): each.count for each in self._port_errors()
        }
        yield counter_family("topo_worker_port_errors", of_ports)


class Metrics:
    """The worker's metrics in a registry of their own."""

    def __init__(
        self,
        link_errors: Callable[[], Iterable[LinkErrors]] = tuple,
        port_errors: Callable[[], Iterable[PortErrors]] = tuple,
    ) -> None:
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        registry.register(_Errors(link_errors, port_errors))
        self._probe_seconds = histogram(registry, "topo_worker_probe_duration_seconds")
        self._probe_readings = counter(registry, "topo_worker_probe_readings")
        self._probe_state = gauge(registry, "topo_worker_probe_state")
        kinds, troubles = ("full", "change", "beat", "dump"), (each.value for each in Trouble)
        self._reports = counter(registry, "topo_worker_reports", kinds)
        self._failures = counter(registry, "topo_worker_report_failures", troubles)
        self._last_report = gauge(registry, "topo_worker_last_report_timestamp_seconds")
        self.malformed = counter(registry, "topo_worker_malformed_requests")
        self._gpus = gauge(registry, "topo_worker_gpus")
        self._ports = gauge(registry, "topo_worker_link_ports")
        self._degraded = gauge(registry, "topo_worker_link_ports_degraded")
        self._peers = gauge(registry, "topo_worker_peers")
        build = gauge(registry, "topo_worker_build_info")
        build.labels(version("supernode-topology")).set(1)

    def read(self, health: ProbeHealth, seconds: float) -> None:
        """One reading of a probe."""
        self._probe_seconds.labels(health.probe).observe(seconds)
        self._probe_readings.labels(health.probe, health.state.value).inc()
        for state in ProbeState:
            self._probe_state.labels(health.probe, state.value).set(state is health.state)

    def delivered(self, kind: str) -> None:
        """One report, or dump of a fabric, that the master accepted."""
        self._reports.labels(kind).inc()
        self._last_report.set(time.time())

    def reported(self, kind: str, facts: NodeFacts) -> None:
        """One report of this host that the master accepted."""
        self.delivered(kind)
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
