"""The controllers of requests for capacity, put together from their parts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from master.availability import Availability
from master.booking.ahead import AheadBudget
from master.cluster import Cluster
from master.composition.core import Core
from master.controllers.events import PRODUCT
from master.controllers.leaving_gangs import LeavingGangs
from master.controllers.names import KUEUE_WORKLOADS, PROVISIONING
from master.controllers.nomination.status.policy import GangPolicy
from master.controllers.provisioning.ahead import RequestsAhead
from master.controllers.provisioning.bookings import RequestBookings
from master.controllers.provisioning.controller import ProvisioningController
from master.controllers.provisioning.form import ProvisioningForm, RequestForm
from master.controllers.provisioning.held_jobs import HeldJobs
from master.controllers.provisioning.metrics import ProvisioningMetrics
from master.controllers.provisioning.reservations import (
    AllReservations,
    JobBookings,
    RequestReservations,
)
from master.controllers.provisioning.terms import RequestReader, TermsReader
from master.controllers.provisioning.workload_form import WorkloadForm
from master.controllers.provisioning.workload_stores import WorkloadStores, WorkloadTerms
from master.kube.objects import NodeObject
from master.kube.reflector import Reflector
from master.kube.schedulers.provisioning import KnownRequest, KnownTemplate
from master.kube.store import Store
from master.object_errors import ObjectKind
from topo.gangs.annotation_keys import AnnotationKeys
from topo.model.ids import NodeName
from topo.model.limits import REQUEST_KEYS, WORKLOAD_KEYS
from topo.publish.event_series import Reporter


@dataclass(frozen=True, slots=True)
class _Part:
    """A controller, what gangs and pods see of its bookings, and what it follows."""

    controller: ProvisioningController
    reservations: RequestReservations
    followed: tuple[Reflector[Any], ...]

    def is_known(self) -> bool:
        """Return whether what was promised is booked, so that gangs get nothing of it.

        Where the API server has no requests, nothing is promised.
        """
        lacks = any(each.is_answered and not each.synced for each in self.followed)
        return self.controller.is_restored or lacks


@dataclass(frozen=True, slots=True)
class ProvisioningParts:
    """The controllers that are switched on, by name, and what others see of them."""

    parts: dict[str, _Part]
    reservations: AllReservations
    held: tuple[GangPolicy, ...] = ()
    """The jobs that are held before their quota."""

    @property
    def controllers(self) -> dict[str, ProvisioningController]:
        """The controllers by name."""
        return {name: each.controller for name, each in self.parts.items()}

    def is_known(self) -> bool:
        """Return whether what was promised is booked."""
        return all(each.is_known() for each in self.parts.values())


def build_provisioning(
    core: Core,
    cluster: Cluster,
    availability: Availability,
    *,
    leaving: LeavingGangs,
    ahead: AheadBudget,
) -> ProvisioningParts | None:
    """Return the controllers that are switched on, which follow the cluster; None for none.

    `ahead`: what namespaces may have booked for pods that do not exist.
    """
    build, names = _Building(core, cluster, availability), core.settings.controllers
    build.leaving, build.ahead = leaving, ahead
    builders = {PROVISIONING: build.requests, KUEUE_WORKLOADS: build.workloads}
    parts = {name: build_one() for name, build_one in builders.items() if name in set(names)}
    if not parts:
        return None
    found = {name: part.reservations for name, part in parts.items()}
    of_requests, of_workloads = found.get(PROVISIONING), found.get(KUEUE_WORKLOADS)
    if of_requests is not None and of_workloads is not None:
        JobBookings(of_requests, of_workloads).join()
    reservations = AllReservations(of_requests, of_workloads)
    return ProvisioningParts(parts, reservations, tuple(map(build.held, parts.values())))


class _Building:
    """Puts the parts together; their metrics count both kinds of requests."""

    leaving: LeavingGangs
    ahead: AheadBudget

    def __init__(self, core: Core, cluster: Cluster, availability: Availability) -> None:
        self._core, self._cluster, self._availability = core, cluster, availability
        self._metrics = ProvisioningMetrics(core.registry)
        self._keys = AnnotationKeys(core.settings.domain)
        self._server_now = cluster.client.server_clock.now

    def requests(self) -> _Part:
        """Return what answers ProvisioningRequests."""
        cluster = self._cluster
        return self._part(
            cluster.requests,
            cluster.templates,
            ProvisioningForm(cluster.requests),
            lambda reader: reader,
            followed=(cluster.requests,),
            prefix=REQUEST_KEYS,
        )

    def workloads(self) -> _Part:
        """Return what answers for workloads of Kueue."""
        cluster = self._cluster
        stores = WorkloadStores(
            cluster.workloads,
            cluster.admission_checks,
            cluster.kueue_flavors,
            self._keys,
            errors=self._core.object_errors,
        )
        form = WorkloadForm(
            stores=stores,
            keys=self._keys,
            label_keys=self._core.settings.label_keys,
            server_now=self._server_now,
        )
        return self._part(
            stores.requests,
            stores.templates,
            form,
            lambda reader: WorkloadTerms(stores, reader),
            followed=cluster.of_kueue,
            prefix=WORKLOAD_KEYS,
        )

    def held(self, part: _Part) -> GangPolicy:
        """Return the jobs that a controller holds before their quota."""
        clock = self._core.engine.clock
        return HeldJobs(
            machine=lambda: part.controller.machine,
            form=part.controller.form,
            ahead_s=lambda: self._server_now() - clock(),
        )

    def _part(
        self,
        requests: Store[KnownRequest],
        templates: Store[KnownTemplate],
        form: RequestForm,
        reads: Callable[[TermsReader], RequestReader],
        *,
        followed: tuple[Reflector[Any], ...],
        prefix: str,
    ) -> _Part:
        core, cluster, settings = self._core, self._cluster, self._core.settings
        bookings = RequestBookings(
            core.placements.state,
            ahead=self.ahead,
            prefix=prefix,
            labels=lambda node: _labels(cluster.nodes, node),
            label_keys=settings.label_keys,
            server_now=self._server_now,
        )
        reader = TermsReader(
            templates=templates,
            nodes=lambda: cluster.nodes.objects.values(),  # noqa: PLW0108 - a list replaces it
            keys=self._keys,
            policy=settings.policy,
        )
        terms = reads(reader)
        is_awaited = requests is cluster.requests
        controller = ProvisioningController(
            requests,
            templates,
            cluster.pods,
            form=form,
            bookings=bookings,
            terms=terms,
            planner=core.placements.planner,
            writer=cluster.writer,
            reporter=Reporter(PRODUCT, settings.pod_name or PRODUCT),
            metrics=self._metrics,
            errors=core.object_errors,
            kind=ObjectKind.REQUEST if is_awaited else ObjectKind.WORKLOAD,
            is_counted=lambda: self._availability.may_place and cluster.quotas.is_answered,
            is_leaving=self.leaving.is_any,
            server_now=self._server_now,
            clock=core.engine.clock,
        )
        kind: Literal["request", "workload"] = "request" if is_awaited else "workload"
        self.ahead.readers[prefix] = RequestsAhead(kind, requests, bookings, controller.consumers)
        reservations = RequestReservations(
            requests, bookings, terms, self._server_now, is_awaited=is_awaited
        )
        return _Part(controller, reservations, followed)


def _labels(nodes: Store[NodeObject], name: NodeName) -> dict[str, str]:
    found = nodes.objects.get(("", name))
    return found.metadata.labels if found is not None else {}
