"""What can be measured of the cluster manager's source; docs/metrics.md lists it."""

import math
import time
from collections.abc import Callable

import prometheus_client as prom

from topo.model.observation import ManagedTopology

PREFIX = "topo_master_cluster_manager_"
_POLL_S = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


class ClusterManagerMetrics:
    """Polls by what was asked and how it ended; the age of the last good answer."""

    def __init__(
        self, registry: prom.CollectorRegistry, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._last_good_s: float | None = None
        self._polls = prom.Counter(
            PREFIX + "polls",
            "Questions to the cluster manager, by what was asked and the result",
            ["asked", "result"],
            registry=registry,
        )
        self._seconds = prom.Histogram(
            PREFIX + "poll_seconds",
            "Time until the cluster manager's answer was read, or the question was given up",
            ["asked"],
            buckets=_POLL_S,
            registry=registry,
        )
        self._logins = prom.Counter(
            PREFIX + "logins",
            "Logins to the cluster manager, by result",
            ["result"],
            registry=registry,
        )
        self._machines = prom.Gauge(
            PREFIX + "machines", "Machines that the cluster manager lists", registry=registry
        )
        self._groups = prom.Gauge(
            PREFIX + "groups", "Groups that the cluster manager lists", registry=registry
        )
        age = prom.Gauge(
            PREFIX + "last_good_age_seconds",
            "Time since the cluster manager last gave a usable answer; NaN before the first",
            registry=registry,
        )
        age.set_function(self.age_s)

    def age_s(self) -> float:
        """Seconds since the last usable answer, NaN before the first."""
        return math.nan if self._last_good_s is None else self._clock() - self._last_good_s

    def polled(self, asked: str, result: str) -> None:
        """A question was answered, or not."""
        self._polls.labels(asked, result).inc()

    def took(self, asked: str, seconds: float) -> None:
        """A question took so long, whatever came of it."""
        self._seconds.labels(asked).observe(seconds)

    def logged_in(self, result: str) -> None:
        """A login ended: `ok` or the kind of trouble."""
        self._logins.labels(result).inc()

    def good(self, topology: ManagedTopology) -> None:
        """A usable answer came; this is what it says now."""
        self._last_good_s = self._clock()
        self._machines.set(len(topology.machines))
        self._groups.set(len(topology.groups))
