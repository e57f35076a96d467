"""Metrics of the cluster manager's source."""

import math
import time
from collections.abc import Callable

import prometheus_client as prom

from topo.kit.metrics import counter, gauge, histogram
from topo.model.observation import ManagedTopology


class ClusterManagerMetrics:
    """Polls by request and result; the age of the last good answer."""

    def __init__(
        self, registry: prom.CollectorRegistry, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._last_good_s: float | None = None
        self._polls = counter(registry, "topo_master_cluster_manager_polls")
        self._seconds = histogram(registry, "topo_master_cluster_manager_poll_seconds")
        self._logins = counter(registry, "topo_master_cluster_manager_logins")
        self._machines = gauge(registry, "topo_master_cluster_manager_machines")
        self._groups = gauge(registry, "topo_master_cluster_manager_groups")
        gauge(registry, "topo_master_cluster_manager_last_good_age_seconds", self.age_s)

    def age_s(self) -> float:
        """Return the seconds since the last usable answer, NaN before the first."""
        return math.nan if self._last_good_s is None else self._clock() - self._last_good_s

    def polled(self, asked: str, result: str) -> None:
        """Count a request and its result."""
        self._polls.labels(asked, result).inc()

    def took(self, asked: str, seconds: float) -> None:
        """Record the time of a request, whatever its result."""
        self._seconds.labels(asked).observe(seconds)

    def logged_in(self, result: str) -> None:
        """Count a login: `ok` or the kind of trouble."""
        self._logins.labels(result).inc()

    def good(self, topology: ManagedTopology) -> None:
        """Record a usable answer."""
        self._last_good_s = self._clock()
        self._machines.set(len(topology.machines))
        self._groups.set(len(topology.groups))
