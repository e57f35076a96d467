"""Metrics of the port that schedulers ask."""

from itertools import product

import prometheus_client as prom

from master.metrics import validity_setter
from topo.kit.metrics import counter, histogram

VERBS = ("filter", "prioritize", "predicates")
ANSWERS = ("passed", "planned", "refused", "awaited", "forwarded", "denied", "error")


class ExtenderMetrics:
    """Answers by call and kind, and their time; both labels have a fixed set of values."""

    def __init__(self, registry: prom.CollectorRegistry) -> None:
        self.answers = counter(registry, "topo_master_extender_answers", product(VERBS, ANSWERS))
        self.seconds = histogram(registry, "topo_master_extender_answer_seconds")
        self.certificate_lasts = validity_setter(
            registry,
            "topo_master_extender_certificate_begin_timestamp_seconds",
            "topo_master_extender_certificate_end_timestamp_seconds",
        )
        """Sets the validity of the port's certificate."""
