"""What the admission webhook does, by Prometheus conventions; docs/metrics.md is the same list."""

import prometheus_client as prom

from master.metrics import PREFIX
from topo.gangs.admission.outcome import Result

KINDS = ("volcano-job", "job", "pod", "pod-group", "other")
REFUSED, UNREADABLE, FAILED = "refused", "unreadable", "failed"
"""Results beside those of `topo.gangs.admission`: a 422, no review, a mistake of ours."""
_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25)


class AdmissionMetrics:
    """Counted by kind and result, both of which are known words."""

    def __init__(self, registry: prom.CollectorRegistry) -> None:
        self.reviews = prom.Counter(
            PREFIX + "admission_reviews",
            "Objects that the API server asked about, by kind and result",
            ["kind", "result"],
            registry=registry,
        )
        for kind in KINDS[:-1]:
            for result in Result:
                self.reviews.labels(kind, result.value)
        self.seconds = prom.Histogram(
            PREFIX + "admission_review_seconds",
            "Time to judge one object, without HTTP",
            buckets=_SECONDS,
            registry=registry,
        )
        self._begins_at = prom.Gauge(
            PREFIX + "admission_certificate_begin_timestamp_seconds",
            "Unix time from which the webhook's certificate holds, 0 without one",
            registry=registry,
        )
        self._ends_at = prom.Gauge(
            PREFIX + "admission_certificate_end_timestamp_seconds",
            "Unix time at which the webhook's certificate ends, 0 without one",
            registry=registry,
        )

    def certificate_lasts(self, begin_s: float, end_s: float) -> None:
        """The life of the webhook's certificate, as Unix time."""
        self._begins_at.set(begin_s)
        self._ends_at.set(end_s)
