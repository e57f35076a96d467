"""Metrics of ProvisioningRequests."""

from collections import Counter
from collections.abc import Callable, Iterable

import prometheus_client as prom

from topo.kit.metrics import counter, gauge, read_each
from topo.provisioning.course import Phase, ProvisioningRequest
from topo.provisioning.messages import Held, NoRoom


class ProvisioningMetrics:
    """How many requests there are by phase, what they came to, and whether bookings fit."""

    def __init__(self, registry: prom.CollectorRegistry) -> None:
        self._standing = gauge(registry, "topo_master_provisioning_requests")
        ends = [each for each in Phase if each not in {Phase.NEW, Phase.ACCEPTED}]
        self._outcomes = counter(registry, "topo_master_provisioning_outcomes", ends)
        self._bookings = counter(
            registry, "topo_master_provisioning_bookings", ("booked", "refused")
        )

    def follow(self, known: Callable[[], Iterable[ProvisioningRequest]]) -> None:
        """Show the requests that there are, by phase."""
        read_each(self._standing, Phase, lambda: Counter(each.phase for each in known()))

    def count_phase(self, phase: Phase) -> None:
        """Count that a request was written to be in a phase."""
        self._outcomes.labels(phase).inc()

    def count_booking(self, found: Held | NoRoom) -> None:
        """Count a search for groups by its result."""
        self._bookings.labels("refused" if isinstance(found, NoRoom) else "booked").inc()
