"""The controller of ProvisioningRequests, put together from its parts."""

from dataclasses import dataclass

from master.availability import Availability
from master.cluster import Cluster
from master.composition.core import Core
from master.controllers.events import PRODUCT
from master.controllers.provisioning.bookings import RequestBookings
from master.controllers.provisioning.controller import ProvisioningController
from master.controllers.provisioning.metrics import ProvisioningMetrics
from master.controllers.provisioning.reservations import RequestReservations
from master.controllers.provisioning.terms import TermsReader
from master.kube.objects import NodeObject
from master.kube.provisioning import KnownRequest
from master.kube.reflector import Reflector
from master.kube.store import Store
from topo.gangs.annotation_keys import AnnotationKeys
from topo.model.ids import NodeName
from topo.publish.event_series import Reporter


@dataclass(frozen=True, slots=True)
class ProvisioningParts:
    """The controller, and what gangs and pods see of its bookings."""

    controller: ProvisioningController
    reservations: RequestReservations
    requests: Reflector[KnownRequest]

    def is_known(self) -> bool:
        """Return whether what was promised is booked, so that gangs get nothing of it.

        Where the API server has no requests, nothing is promised.
        """
        return self.controller.is_restored or (
            self.requests.is_answered and not self.requests.synced
        )


def build_provisioning(
    core: Core, cluster: Cluster, availability: Availability
) -> ProvisioningParts:
    """Return the parts, which follow the cluster from here on."""
    settings, placements = core.settings, core.placements
    server_now = cluster.client.server_clock.now
    bookings = RequestBookings(
        placements.state,
        labels=lambda node: _labels(cluster.nodes, node),
        label_keys=settings.label_keys,
        server_now=server_now,
    )
    terms = TermsReader(
        templates=cluster.templates,
        nodes=lambda: cluster.nodes.objects.values(),  # noqa: PLW0108 - a list replaces it
        keys=AnnotationKeys(settings.domain),
        policy=settings.policy,
    )
    controller = ProvisioningController(
        cluster.requests,
        cluster.templates,
        cluster.pods,
        bookings=bookings,
        terms=terms,
        planner=placements.planner,
        writer=cluster.writer,
        reporter=Reporter(PRODUCT, settings.pod_name or PRODUCT),
        metrics=ProvisioningMetrics(core.registry),
        is_counted=lambda: availability.may_place,
        server_now=server_now,
        clock=core.engine.clock,
    )
    reservations = RequestReservations(cluster.requests, bookings, terms, server_now)
    return ProvisioningParts(controller, reservations, cluster.requests)


def _labels(nodes: Store[NodeObject], name: NodeName) -> dict[str, str]:
    found = nodes.objects.get(("", name))
    return found.metadata.labels if found is not None else {}
