"""Metrics of the admission webhook."""

from itertools import product

import prometheus_client as prom

from topo.gangs.admission.outcome import Result
from topo.gangs.job_kinds.kinds import names
from topo.kit.metrics import counter, gauge, histogram

REFUSED, UNREADABLE, FAILED = "refused", "unreadable", "failed"
"""Results beside those of `topo.gangs.admission`: a 422, no review, an error of the master."""


class AdmissionMetrics:
    """Reviews by kind and result, both from fixed lists."""

    def __init__(self, registry: prom.CollectorRegistry) -> None:
        known = product((*names(), "pod", "pod-group"), (result.value for result in Result))
        self.reviews = counter(registry, "topo_master_admission_reviews", known)
        self.seconds = histogram(registry, "topo_master_admission_review_seconds")
        self._begins_at = gauge(
            registry, "topo_master_admission_certificate_begin_timestamp_seconds"
        )
        self._ends_at = gauge(registry, "topo_master_admission_certificate_end_timestamp_seconds")

    def certificate_lasts(self, begin_s: float, end_s: float) -> None:
        """Set the validity of the webhook's certificate as Unix times."""
        self._begins_at.set(begin_s)
        self._ends_at.set(end_s)
