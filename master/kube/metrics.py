"""What can be measured of the calls and watches; docs/metrics.md lists it."""

from collections.abc import Callable
from functools import partial

import prometheus_client as prom

from master.kube.errors import Failure

PREFIX = "topo_master_kube_"
ENDED = "ended"
"""The reason of a reconnect after a watch that the server ended in order, as each does in time."""


class KubeMetrics:
    """Requests by method and status; per resource what its reflector holds and goes through."""

    def __init__(self, registry: prom.CollectorRegistry) -> None:
        counter = partial(prom.Counter, registry=registry)
        gauge = partial(prom.Gauge, registry=registry)
        self._requests = counter(
            PREFIX + "requests",
            "Requests to the API server, by method and status; none without an answer",
            ["method", "code"],
        )
        self._answers: dict[tuple[str, int | None], prom.Counter] = {}
        """The series of those that there were: to look one up costs more than to count."""
        self._relists = counter(PREFIX + "relists", "Lists begun, by resource", ["resource"])
        self._reconnects = counter(
            PREFIX + "reconnects",
            "Watches that ended and lists that failed, by reason",
            ["resource", "reason"],
        )
        self._objects = gauge(PREFIX + "objects", "Objects known now", ["resource"])
        self._unreadable = gauge(
            PREFIX + "unreadable_objects", "Objects that cannot be read now", ["resource"]
        )
        self._silence = gauge(
            PREFIX + "last_heard_age_seconds",
            "Time since the API server last told anything of the resource; NaN before the first",
            ["resource"],
        )

    def asked(self, method: str, status: int | None) -> None:
        """A request was answered, or not."""
        counted = self._answers.get((method, status))
        if counted is None:
            code = "none" if status is None else str(status)
            counted = self._answers[method, status] = self._requests.labels(method, code)
        counted.inc()

    def watch(
        self,
        resource: str,
        age_s: Callable[[], float],
        objects: Callable[[], int],
        unreadable: Callable[[], int],
    ) -> None:
        """There is a reflector of that resource; `age_s` is how long nothing was heard, `objects`
        are known and `unreadable` cannot be read.
        """
        self._silence.labels(resource).set_function(age_s)
        self._objects.labels(resource).set_function(objects)
        self._unreadable.labels(resource).set_function(unreadable)
        self._relists.labels(resource)
        for reason in (ENDED, *Failure):
            self._reconnects.labels(resource, reason)

    def relisted(self, resource: str) -> None:
        """A list began."""
        self._relists.labels(resource).inc()

    def reconnected(self, resource: str, reason: str) -> None:
        """A watch ended, or a list failed."""
        self._reconnects.labels(resource, reason).inc()
