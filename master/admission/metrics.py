"""Metrics of the admission webhook."""

from itertools import product

import prometheus_client as prom

from master.metrics import validity_setter
from topo.gangs.admission.outcome import Result
from topo.gangs.job_kinds.kinds import names
from topo.kit.metrics import counter, histogram

REFUSED, UNREADABLE, FAILED = "refused", "unreadable", "failed"
"""Results besides those of `topo.gangs.admission`: a 422, no review, an error of the master."""


class AdmissionMetrics:
    """Number of reviews by kind and result; both labels have a fixed set of values."""

    def __init__(self, registry: prom.CollectorRegistry) -> None:
        known = product((*names(), "pod", "pod-group"), (result.value for result in Result))
        self.reviews = counter(registry, "topo_master_admission_reviews", known)
        self.seconds = histogram(registry, "topo_master_admission_review_seconds")
        self.certificate_lasts = validity_setter(
            registry,
            "topo_master_admission_certificate_begin_timestamp_seconds",
            "topo_master_admission_certificate_end_timestamp_seconds",
        )
        """Sets the validity of the webhook's certificate."""
