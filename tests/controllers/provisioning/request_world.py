"""A cluster of four dragonflies of two nodes, and masters that answer requests for capacity."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from master.controllers.nomination.sources import Reservations
from master.controllers.provisioning.ahead import RequestsAhead
from master.controllers.provisioning.bookings import RequestBookings
from master.controllers.provisioning.controller import ProvisioningController
from master.controllers.provisioning.form import ProvisioningForm, RequestForm
from master.controllers.provisioning.metrics import ProvisioningMetrics
from master.controllers.provisioning.reservations import (
    AllReservations,
    JobBookings,
    RequestReservations,
)
from master.controllers.provisioning.terms import RequestReader, TermsReader
from master.controllers.provisioning.workload_form import WorkloadForm
from master.controllers.provisioning.workload_stores import WorkloadStores, WorkloadTerms
from master.kube.client import Caller
from master.kube.objects import NODES, PODS, Resource, parsed
from master.kube.schedulers.provisioning import (
    POD_TEMPLATES,
    PROVISIONING_REQUESTS,
    known_request,
    known_template,
)
from master.kube.schedulers.topologies import KUEUE_FLAVORS
from master.kube.schedulers.workloads import ADMISSION_CHECKS, WORKLOADS, reserved_gpus
from master.object_errors import ObjectErrors, ObjectKind
from master.sources.kubernetes.consumed_requests import ConsumedRequests
from tests.controllers.nomination.masters import NODE_NAMES, Following, Leader, leading
from tests.controllers.nomination.objects import GPU, WORDS
from tests.kube.api_model import ApiModel
from tests.kube.model_store import ModelStore
from tests.publish.forests import VENDOR, box, forest
from tests.support.kubernetes import node_status
from topo.gangs.annotation_keys import CONSUMES
from topo.model.forest import Group, Snapshot
from topo.model.ids import DRAGONFLY, SWITCHBOX, Generation
from topo.placement.booking.holds import HoldsMemory
from topo.placement.job.policy import Policy
from topo.publish.event_series import Reporter

EPOCH_S = 1_800_000_000.0
"""The servers' Unix time when virtual time is 0."""
REQUESTS_AT = "/apis/autoscaling.x-k8s.io/v1/namespaces/jobs/provisioningrequests"
LABELS = {SWITCHBOX: "metax-tech.com/switchbox", DRAGONFLY: "metax-tech.com/dragonfly"}


def server_now() -> float:
    return EPOCH_S + asyncio.get_running_loop().time()


def stamp(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class RequestMaster:
    """A master that leads: its gangs, and its controller of requests."""

    leader: Leader
    controller: ProvisioningController

    @property
    def booked(self) -> dict[str, int]:
        """The GPUs of each node that holds book."""
        found: dict[str, int] = {}
        for hold in self.leader.placements.state.bookings:
            for node, gpus in hold.gpus.items():
                found[node] = found.get(node, 0) + gpus
        return found


@dataclass
class RequestCluster:
    """The objects of the cluster, and who may write them."""

    api: ApiModel = field(default_factory=lambda: ApiModel(delay_s=0.005))
    of_kueue: bool = False
    """Whether its masters answer for workloads of Kueue."""
    has_requests: bool = True
    """Whether its masters answer ProvisioningRequests; else `of_kueue`."""

    def __post_init__(self) -> None:
        for host, groups in VENDOR_LABELS.items():
            labels = {LABELS[kind]: name for kind, name in groups.items()}
            self.api.add(NODES, host, metadata={"labels": labels}, spec={}, status=node_status())

    def template(self, spec: Any = None, **annotations: str) -> None:
        """A PodTemplate, as its user or Kueue makes it."""
        container = {"name": "main", "resources": {"limits": {GPU: "8"}}}
        body = {
            "metadata": {"annotations": annotations},
            "spec": {"containers": [container], **(spec or {})},
        }
        self.api.add(POD_TEMPLATES, "worker", metadata={"namespace": "jobs"}, template=body)

    def ask(self, name: str, pods: int, template: str = "worker", **parameters: str) -> None:
        """A request for so many pods of a template."""
        spec = {
            "provisioningClassName": WORDS.provisioning_class,
            "podSets": [{"podTemplateRef": {"name": template}, "count": pods}],
            "parameters": parameters,
        }
        metadata = {"namespace": "jobs", "creationTimestamp": stamp(server_now())}
        self.api.add(PROVISIONING_REQUESTS, name, metadata=metadata, spec=spec)

    def delete(self, name: str) -> None:
        self.api.remove(PROVISIONING_REQUESTS, name, "jobs")

    def conditions(self, name: str) -> dict[str, dict[str, str]]:
        """The conditions of a request by type."""
        document = self.api.objects[REQUESTS_AT, name].document
        return {each["type"]: each for each in document.get("status", {}).get("conditions", ())}

    def true(self, name: str) -> list[str]:
        """The types of the conditions of a request that are true."""
        return [k for k, v in self.conditions(name).items() if v["status"] == "True"]

    def details(self, name: str) -> dict[str, str]:
        document = self.api.objects[REQUESTS_AT, name].document
        return dict(document.get("status", {}).get("provisioningClassDetails", {}))

    def consumer(self, name: str, of: str, *, older: bool = False, **spec: Any) -> Any:
        """A pod of no stamped job that consumes a request, gated by the webhook."""
        of_name, of_class = CONSUMES[older]
        container = {"name": "main", "resources": {"limits": {GPU: "8"}}}
        return self.api.add(
            PODS,
            name,
            metadata={
                "namespace": "jobs",
                "annotations": {of_name: of, of_class: WORDS.provisioning_class},
                "creationTimestamp": stamp(server_now()),
            },
            spec={
                "schedulingGates": [{"name": WORDS.gate}],
                "containers": [container],
                **spec,
            },
            status={"phase": "Pending"},
        )

    def take(self, node: str) -> None:
        """Somebody else's pod gets a node."""
        container = {"name": "main", "resources": {"limits": {GPU: "8"}}}
        spec = {"nodeName": node, "containers": [container]}
        metadata, status = {"namespace": "others"}, {"phase": "Running"}
        self.api.add(PODS, f"taker-{node}", metadata=metadata, spec=spec, status=status)

    def cordon(self, node: str) -> None:
        self.api.edit(NODES, node, ("spec",), {"unschedulable": True})

    @asynccontextmanager
    async def master(
        self,
        way: Caller | None = None,
        kept: HoldsMemory | None = None,
        *,
        is_served: bool = True,
        leads: bool = True,
        ahead_share: float = 1.0,
        awaits_promises: bool = False,
    ) -> AsyncIterator[RequestMaster]:
        """A master that leads until the block ends, or follows.

        `awaits_promises`: gangs wait until what was promised is booked, as in a whole master.
        """
        built: list[ProvisioningController] = []

        def reservations(following: Following) -> Reservations:
            of_requests = of_workloads = None
            if self.has_requests:
                of_requests = _build(self.api, following, built, is_served=is_served)
            if self.of_kueue:
                of_workloads = _build_for_kueue(self.api, following, built)
            if of_requests is not None and of_workloads is not None:
                JobBookings(of_requests, of_workloads).join()
            return AllReservations(of_requests, of_workloads)

        async with leading(
            self.api,
            way or self.api,
            VENDOR,
            kept,
            in_volcano=False,
            leads=leads,
            reservations=reservations,
            ahead_share=ahead_share,
            server_now=server_now,
            is_answered=lambda: not awaits_promises or all(each.is_restored for each in built),
        ) as leader:
            tasks = [asyncio.ensure_future(each.run()) for each in built if leads]
            try:
                yield RequestMaster(leader, built[0])
                assert not any(each.done() for each in tasks), [e.exception() for e in tasks]
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


def _build(
    api: ApiModel,
    following: Following,
    built: list[ProvisioningController],
    *,
    is_served: bool,
) -> RequestReservations:
    requests: Any = ModelStore(
        api, parsed(PROVISIONING_REQUESTS, known_request), delay_s=0.02, synced=is_served
    )
    templates: Any = ModelStore(api, parsed(POD_TEMPLATES, known_template), delay_s=0.02)
    return _finish(
        following, built, requests, templates, ProvisioningForm(requests), lambda reader: reader
    )


def _build_for_kueue(
    api: ApiModel, following: Following, built: list[ProvisioningController]
) -> RequestReservations:
    of_kueue: tuple[Resource[Any], ...] = (WORKLOADS, ADMISSION_CHECKS, KUEUE_FLAVORS)
    followed: list[Any] = [ModelStore(api, each, delay_s=0.02) for each in of_kueue]
    workloads, checks, flavors = followed
    following.ahead.queued = lambda namespace, name: (
        reserved_gpus(workloads.objects[namespace, name], Policy().gpu_resources, WORDS)
        if (namespace, name) in workloads.objects
        else 0
    )
    stores = WorkloadStores(workloads, checks, flavors, WORDS)
    form = WorkloadForm(stores=stores, keys=WORDS, label_keys=LABELS, server_now=server_now)
    requests, templates = stores.requests, stores.templates
    return _finish(
        following, built, requests, templates, form, lambda reader: WorkloadTerms(stores, reader)
    )


def _finish(
    following: Following,
    built: list[ProvisioningController],
    requests: Any,
    templates: Any,
    form: RequestForm,
    reads: Callable[[TermsReader], RequestReader],
) -> RequestReservations:
    nodes, of_kueue = following.nodes, isinstance(form, WorkloadForm)
    bookings = RequestBookings(
        following.placements.state,
        ahead=following.ahead,
        prefix="workload/" if of_kueue else "provisioning/",
        labels=lambda node: nodes.objects[("", node)].metadata.labels,
        label_keys=LABELS,
        server_now=server_now,
    )
    terms = reads(
        TermsReader(templates=templates, nodes=nodes.objects.values, keys=WORDS, policy=Policy())
    )
    built.append(
        ProvisioningController(
            requests,
            templates,
            following.pods,
            form=form,
            bookings=bookings,
            terms=terms,
            planner=following.placements.planner,
            writer=following.writer,
            reporter=Reporter("topo-master", "topo-master-0"),
            metrics=built[0].metrics if built else ProvisioningMetrics(following.registry),
            errors=built[0].errors if built else ObjectErrors(following.registry),
            kind=ObjectKind.WORKLOAD if of_kueue else ObjectKind.REQUEST,
            is_counted=following.capacity.settled.is_set,
            is_leaving=lambda: False,
            server_now=server_now,
            clock=asyncio.get_running_loop().time,
        )
    )
    reservations = RequestReservations(
        requests, bookings, terms, server_now, is_awaited=not of_kueue
    )
    following.capacity.add_hold_source(
        ConsumedRequests(following.pods, reservations, following.capacity.recount)
    )
    following.ahead.readers[bookings.prefix] = RequestsAhead(
        "workload" if of_kueue else "request", requests, bookings, built[-1].consumers
    )
    return reservations


def unplugged(*nodes: str) -> Snapshot:
    """The vendor's forest once the cable of a pair is out: both are in its switchbox alone."""
    roots = []
    for root in VENDOR.roots:
        groups = [each for each in root.children if isinstance(each, Group)]
        flies = {str(each.name): [str(one.name) for one in each.children] for each in groups}
        left = {name: pair for name, pair in flies.items() if not {*pair} & {*nodes}}
        alone = [node for name in flies.keys() - left.keys() for node in flies[name]]
        roots.append(box(str(root.name), left, alone))
    return Snapshot(Generation(2), forest(*roots))


def _labels_of_vendor() -> Iterator[tuple[str, dict[Any, str]]]:
    for number, name in enumerate(NODE_NAMES):
        yield name, {SWITCHBOX: f"box-{number // 4 + 1}", DRAGONFLY: f"fly-{number // 2 + 1}"}


VENDOR_LABELS = dict(_labels_of_vendor())
