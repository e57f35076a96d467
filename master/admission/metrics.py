"""What the admission webhook does, by Prometheus conventions."""

from itertools import product

import prometheus_client as prom

from topo.gangs.admission.outcome import Result
from topo.gangs.job_kinds.kinds import names
from topo.kit.metrics import counter, gauge, histogram

REFUSED, UNREADABLE, FAILED = "refused", "unreadable", "failed"
"""Results beside those of `topo.gangs.admission`: a 422, no review, a mistake of ours."""


class AdmissionMetrics:
    """Counted by kind and result, both of which are known words."""

    def __init__(self, registry: prom.CollectorRegistry) -> None:
        known = product((*names(), "pod", "pod-group"), (result.value for result in Result))
        self.reviews = counter(registry, "topo_master_admission_reviews", known)
        self.seconds = histogram(registry, "topo_master_admission_review_seconds")
        self._begins_at = gauge(
            registry, "topo_master_admission_certificate_begin_timestamp_seconds"
        )
        self._ends_at = gauge(registry, "topo_master_admission_certificate_end_timestamp_seconds")

    def certificate_lasts(self, begin_s: float, end_s: float) -> None:
        """The life of the webhook's certificate, as Unix time."""
        self._begins_at.set(begin_s)
        self._ends_at.set(end_s)
