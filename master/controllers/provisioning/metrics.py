"""Metrics of requests for capacity."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import prometheus_client as prom

from topo.kit.metrics import counter, gauge, read_each
from topo.provisioning.course import Phase, ProvisioningRequest
from topo.provisioning.messages import Held, NoRoom


class ProvisioningMetrics:
    """How many requests there are by phase, what they came to, and whether bookings fit."""

    def __init__(self, registry: prom.CollectorRegistry) -> None:
        self._known: list[Callable[[], Iterable[ProvisioningRequest]]] = []
        read_each(gauge(registry, "topo_master_provisioning_requests"), Phase, self._count)
        ends = [each for each in Phase if each not in {Phase.NEW, Phase.ACCEPTED}]
        self._outcomes = counter(registry, "topo_master_provisioning_outcomes", ends)
        self._bookings = counter(
            registry, "topo_master_provisioning_bookings", ("booked", "refused")
        )

    def follow(self, known: Callable[[], Iterable[ProvisioningRequest]]) -> None:
        """Show these requests, too."""
        self._known.append(known)

    def _count(self) -> Mapping[Phase, int]:
        """Return the requests by phase; one that was let go is none any more."""
        found = (each for known in self._known for each in known())
        return Counter(each.phase for each in found if not each.is_let_go)

    def count_phase(self, phase: Phase) -> None:
        """Count that a request was written to be in a phase."""
        self._outcomes.labels(phase).inc()

    def count_booking(self, found: Held | NoRoom) -> None:
        """Count a search for groups by its result."""
        self._bookings.labels("refused" if isinstance(found, NoRoom) else "booked").inc()
