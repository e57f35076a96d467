"""Metrics of calls and watches."""

from collections.abc import Callable

import prometheus_client as prom

from master.kube.errors import Failure
from topo.kit.metrics import counter, gauge

ENDED = "ended"
"""The reason of a reconnect after the server ended a watch in order, as it does regularly."""


class KubeMetrics:
    """Requests by method and status; per resource the objects and failures of its reflector."""

    def __init__(self, registry: prom.CollectorRegistry) -> None:
        self._requests = counter(registry, "topo_master_kube_requests")
        self._answers: dict[tuple[str, int | None], prom.Counter] = {}
        """The series of `_requests` seen so far: looking one up there costs more than counting."""
        self._relists = counter(registry, "topo_master_kube_relists")
        self._reconnects = counter(registry, "topo_master_kube_reconnects")
        self._objects = gauge(registry, "topo_master_kube_objects")
        self._unreadable = gauge(registry, "topo_master_kube_unreadable_objects")
        self._silence = gauge(registry, "topo_master_kube_last_heard_age_seconds")

    def count_request(self, method: str, status: int | None) -> None:
        """Count a request; `status` is None without an answer."""
        counted = self._answers.get((method, status))
        if counted is None:
            code = "none" if status is None else str(status)
            counted = self._answers[method, status] = self._requests.labels(method, code)
        counted.inc()

    def add_reflector(
        self,
        resource: str,
        age_s: Callable[[], float],
        objects: Callable[[], int],
        unreadable: Callable[[], int],
    ) -> None:
        """Add a reflector. `age_s` is the time since its last news, `objects` and `unreadable`
        count.
        """
        self._silence.labels(resource).set_function(age_s)
        self._objects.labels(resource).set_function(objects)
        self._unreadable.labels(resource).set_function(unreadable)
        self._relists.labels(resource)
        for reason in (ENDED, *Failure):
            self._reconnects.labels(resource, reason)

    def count_list(self, resource: str) -> None:
        """Count the start of a list."""
        self._relists.labels(resource).inc()

    def count_reconnect(self, resource: str, reason: str) -> None:
        """Count a watch that ended or a list that failed."""
        self._reconnects.labels(resource, reason).inc()
