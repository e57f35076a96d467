"""What becomes of gangs, counted and timed; docs/metrics.md lists it."""

from collections.abc import Callable, Iterable, Mapping

import prometheus_client as prom

from master.metrics import PREFIX
from topo.gangs.instructions import Reason

_DECISION_S = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
_GATE_S = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3600.0)


class NominationMetrics:
    """The series of this controller. `standing`: gangs by where they stand; `slipped`: pods."""

    def __init__(
        self,
        registry: prom.CollectorRegistry,
        standing: Callable[[], Mapping[Reason, int]],
        slipped: Callable[[], int],
    ) -> None:
        def histogram(name: str, text: str, buckets: Iterable[float]) -> prom.Histogram:
            return prom.Histogram(PREFIX + name, text, buckets=tuple(buckets), registry=registry)

        def counter(name: str, text: str, *labels: str) -> prom.Counter:
            return prom.Counter(PREFIX + name, text, labels, registry=registry)

        self.decision_s = histogram(
            "gang_decision_seconds", "Time that a decision on a gang took", _DECISION_S
        )
        self.gate_s = histogram(
            "gang_gate_seconds", "Time from a pod's creation until its gate was opened", _GATE_S
        )
        self.plans = counter("gang_plans", "Placements asked for gangs by result", "result")
        self.opened = counter("gang_gates_opened", "Gates opened, by whether a plan stood", "how")
        self.bound = counter(
            "gang_pods_bound", "Pods of gangs that were bound, by where to", "where"
        )
        self.lost = counter("gang_writes_lost", "Writes for gangs that were refused", "what")
        self.pods_slipped = counter(
            "gang_pods_slipped", "Pods that name a group size and were made without a gate"
        )
        gauge = prom.Gauge(
            PREFIX + "gangs", "Gangs by where they stand", ["reason"], registry=registry
        )
        for reason in Reason:
            gauge.labels(reason.value).set_function(
                lambda reason=reason: standing().get(reason, 0)  # type: ignore[misc]
            )
        prom.Gauge(
            PREFIX + "gang_pods_without_gate",
            "Pods there are that name a group size and were made without a gate",
            registry=registry,
        ).set_function(slipped)
