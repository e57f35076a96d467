"""Every door by which an object of a tenant comes in, with the real code behind each.

The webhook answers a review; the decoder of the reflector reads a watch event; the stores tell the
index, the capacity, the extender and the controllers of gangs, requests and workloads, which run as
they do in a master that leads. Nothing is written: each write is answered that its object is gone.
"""

import asyncio
import random
import traceback
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import prometheus_client as prom

from master.admission.reviews import review
from master.booking.ahead import AheadBudget
from master.booking.metrics import PlacementMetrics
from master.booking.placements import Placements
from master.composition.nomination import NominationConfig, build_nomination
from master.controllers.leaving_gangs import LeavingGangs
from master.controllers.nomination.controller import Nomination
from master.controllers.nomination.sources import Sources
from master.controllers.nomination.volumes import Volumes
from master.controllers.provisioning.ahead import RequestsAhead
from master.controllers.provisioning.bookings import RequestBookings
from master.controllers.provisioning.controller import ProvisioningController
from master.controllers.provisioning.form import ProvisioningForm, RequestForm
from master.controllers.provisioning.metrics import ProvisioningMetrics
from master.controllers.provisioning.reservations import RequestReservations
from master.controllers.provisioning.terms import TermsReader
from master.controllers.provisioning.workload_form import WorkloadForm
from master.controllers.provisioning.workload_stores import WorkloadStores, WorkloadTerms
from master.extender.plans import ExtenderPlans
from master.kube.client import Call
from master.kube.decoding import Decoder, Happened, Unreadable
from master.kube.dra.claims import (
    CLAIM_TEMPLATES,
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    claim_template,
    device_claim,
    device_class,
)
from master.kube.dra.counts import DeviceCounts
from master.kube.dra.slices import RESOURCE_SLICES, device_slice
from master.kube.errors import KubeError
from master.kube.objects import NODES, PODS, QUOTAS, Key, Resource, key_of, parsed
from master.kube.reflector import Changed, Listed, Listener, Removed
from master.kube.schedulers.composite_groups import COMPOSITE_GROUPS
from master.kube.schedulers.provisioning import (
    POD_TEMPLATES,
    PROVISIONING_REQUESTS,
    known_request,
    known_template,
)
from master.kube.schedulers.scheduling_groups import SCHEDULING_GROUPS
from master.kube.schedulers.topologies import KUEUE_FLAVORS
from master.kube.schedulers.volcano import POD_GROUPS, QUEUES
from master.kube.schedulers.workloads import ADMISSION_CHECKS, WORKLOADS
from master.kube.volumes import CLAIMS, STORAGE_CLASSES, VOLUMES
from master.kube.writing.writer import Writer, WriterMetrics
from master.object_errors import ObjectErrors, ObjectKind
from master.sources.kubernetes.capacity import ClusterCapacity
from master.sources.kubernetes.consumed_requests import ConsumedRequests
from master.sources.kubernetes.pod_reader import PodReader
from master.sources.kubernetes.pods import PodParser
from tests.mutated.samples import KNOWN, Document
from tests.publish.forests import VENDOR
from tests.support.kubernetes import node_manifest
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.machine.settings import GangSettings
from topo.gangs.terms import Way
from topo.model.errors import BadInputError
from topo.model.forest import Snapshot
from topo.model.ids import DRAGONFLY, SWITCHBOX, Generation
from topo.model.isolation import ObjectError
from topo.placement.booking.holds import Limits
from topo.placement.job.policy import Policy
from topo.publish.event_series import Reporter

WORDS = AnnotationKeys("metax-tech.com")
LABELS = {SWITCHBOX: "metax-tech.com/switchbox", DRAGONFLY: "metax-tech.com/dragonfly"}
EPOCH_S = 1_800_000_000.0
ALL_RULES = (
    KNOWN,
    replace(KNOWN, way=Way.NATIVE, holds_jobs=True, takes_requests=True),
    replace(KNOWN, makes_groups=True, label_keys=LABELS, has_old_pods=lambda *_: True),
    replace(KNOWN, by_links=True, native_group=lambda _: 2, has_old_pods=lambda *_: False),
)
MOST_KEPT = 60
"""Objects of a kind that are there at once."""


class FedStore:
    """A store of what a decoder read: as a reflector keeps it, but that a test feeds it."""

    def __init__(self, resource: Resource[Any], *, synced: bool = True) -> None:
        self.resource, self.synced = resource, synced
        self.objects: dict[Key, Any] = {}
        self._listeners: list[Listener[Any]] = []
        self._decoder = Decoder(resource)
        self._order: deque[Key] = deque()

    def subscribe(self, listener: Listener[Any]) -> None:
        self._listeners.append(listener)
        if self.synced:
            listener(Listed(self.objects))

    def take(self, document: Document) -> bool:
        """Read an object as the watch brings it; return whether it could be read."""
        try:
            told = self._decoder.event(orjson.dumps({"type": "MODIFIED", "object": document}))
        except KubeError:
            return False  # the reflector lists anew
        assert isinstance(told, Happened)
        if isinstance(told.object, Unreadable):
            self.remove(told.object.key)
            return False
        key = key_of(told.object.metadata)
        if self.objects.get(key) != told.object:
            self.objects[key] = told.object
            self._order.append(key)
            self._tell(Changed(key, told.object))
        while len(self._order) > MOST_KEPT:
            self.remove(self._order.popleft())
        return True

    def remove(self, key: Key) -> None:
        if (found := self.objects.pop(key, None)) is not None:
            self._tell(Removed(key, found))

    def _tell(self, event: Any) -> None:
        for listener in self._listeners:
            listener(event)


class KeptErrors(ObjectErrors):
    """Keeps each error of one object with its traceback."""

    def __init__(self) -> None:
        super().__init__()
        self.traces: list[str] = []

    def note(self, kind: ObjectKind, name: str, error: ObjectError | None) -> None:
        if error is not None:
            self.traces.append(f"{kind.value} {name}: {error.trace}")
        super().note(kind, name, error)


class _Gone:
    """An API server on which nothing is found that is written."""

    async def call(self, _: Call) -> bytes:
        raise KubeError("it is not found", status=404)


@dataclass
class Doors:
    """All doors of one master that leads."""

    nomination: Nomination
    placements: Placements
    stores: Mapping[tuple[str, str], FedStore]
    tasks: Sequence["asyncio.Future[Any]"]
    set_aside: KeptErrors
    refused: int = 0
    unread: int = 0
    read: int = 0
    faults: list[Mapping[str, Any]] = field(default_factory=list)

    def words(self) -> list[str]:
        """The names that a tenant reads of others: gangs and holds."""
        holds = [hold.id for hold in self.placements.state.holds()]
        return [*self.nomination.reader.known, *holds][:40]

    def judge(self, document: Document, before: Document, rng: random.Random) -> None:
        """The webhook is asked about an object, as the API server asks it and in other ways."""
        request: Document = {
            "uid": "705ab4f5",
            "kind": _kind_of(document),
            "operation": rng.choice(("CREATE", "CREATE", "UPDATE", "DELETE")),
            "resource": {"group": "batch", "version": "v1", "resource": "jobs"},
            "object": document,
            "oldObject": before,
            "namespace": "jobs",
        }
        if rng.random() < 0.02:
            request[rng.choice([*request])] = rng.choice((None, [], {}, "x", 3))
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        try:
            review(orjson.dumps(body), rng.choice(ALL_RULES), rng.choice(("warn", "deny")))
        except BadInputError:
            self.refused += 1

    def bring(self, document: Document) -> None:
        """The watch brings an object of a kind that is followed."""
        kind = (str(document.get("apiVersion")), str(document.get("kind")))
        store = self.stores.get(kind)
        if store is None:
            return
        if store.take(document):
            self.read += 1
        else:
            self.unread += 1

    def errors(self) -> list[str]:
        """What was raised: it ended a loop of the master, or set an object aside."""
        found = [each.exception() for each in self.tasks if each.done() and not each.cancelled()]
        found += [each["exception"] for each in self.faults if "exception" in each]
        raised = ["".join(traceback.format_exception(each)) for each in found if each is not None]
        return [*raised, *self.set_aside.traces]


def _kind_of(document: Document) -> Document:
    group, _, version = str(document.get("apiVersion", "")).rpartition("/")
    return {"group": group, "version": version, "kind": document.get("kind")}


def _now() -> float:
    return EPOCH_S + asyncio.get_running_loop().time()


@asynccontextmanager
async def open_doors() -> AsyncIterator[Doors]:
    """A master that leads over the vendor's eight nodes, with everything switched on."""
    loop, registry = asyncio.get_running_loop(), prom.CollectorRegistry()
    placements = Placements(Policy(), Limits(), PlacementMetrics(registry), loop.time)
    state = placements.state
    state.follow(Snapshot(Generation(1), VENDOR))
    errors = KeptErrors()
    parser = PodParser(Policy(), WORDS, Way.NOMINATION)
    reader = PodReader(parse=parser.parse, policy=Policy(), keys=WORDS, errors=errors)
    pods = FedStore(parsed(PODS, reader.read))
    ended = FedStore(parsed(PODS, reader.read_ended))
    nodes = FedStore(NODES)
    for at in range(1, 9):
        nodes.take(node_manifest(f"node-{at}", metadata={"labels": {"zone": "a"}}))
    of_kind = {each: FedStore(each) for each in _FOLLOWED}
    devices = DeviceCounts(
        FedStore(parsed(RESOURCE_SLICES, device_slice)),
        FedStore(parsed(DEVICE_CLASSES, device_class)),
        FedStore(parsed(CLAIM_TEMPLATES, claim_template)),
        FedStore(parsed(RESOURCE_CLAIMS, device_claim)),
    )
    capacity = ClusterCapacity(state, nodes, pods, devices, errors=errors)  # type: ignore[arg-type]
    ahead = AheadBudget(state, 0.25)
    plans = ExtenderPlans(
        pods=pods,
        nodes=nodes,
        state=state,
        is_counted=capacity.settled.is_set,
        ahead=ahead,
        server_now=_now,
        errors=errors,
    )
    capacity.add_hold_source(plans)
    metrics = WriterMetrics(registry)
    writer = Writer(_Gone(), metrics, clock=loop.time, rng=random.Random(1))  # noqa: S311
    writer.follow(nodes)
    writer.follow(pods)
    leaving = LeavingGangs(loop.time)
    pods.subscribe(leaving.follow)
    requests = FedStore(parsed(PROVISIONING_REQUESTS, known_request))
    templates = FedStore(parsed(POD_TEMPLATES, known_template))
    parts = _Parts(placements, nodes, pods, writer, capacity, errors, ahead)
    answered, reservations = _of_requests(parts, requests, templates)
    capacity.add_hold_source(ConsumedRequests(pods, reservations, capacity.recount))
    nomination = build_nomination(
        NominationConfig(
            sources=Sources(
                nodes=nodes,
                pods=pods,
                pod_groups=of_kind[POD_GROUPS],
                queues=of_kind[QUEUES],
                quotas=of_kind[QUOTAS],
                ended_pods=ended,
                scheduling_groups=of_kind[SCHEDULING_GROUPS],
                composite_groups=of_kind[COMPOSITE_GROUPS],
                volumes=Volumes(
                    claims=FedStore(CLAIMS),
                    volumes=FedStore(VOLUMES),
                    classes=FedStore(STORAGE_CLASSES),
                ),
                devices=devices,
                is_answered=lambda: True,
                reservations=reservations,
            ),
            writer=writer,
            placements=placements,
            ahead=ahead,
            leaving=leaving,
            is_counted=capacity.settled.is_set,
            domain="metax-tech.com",
            settings=GangSettings(),
            max_hold_s=3600.0,
            label_keys=LABELS,
            reporter=Reporter("topo-master", "topo-master-0"),
            registry=registry,
            errors=errors,
            clock=loop.time,
            now=_now,
            server_now=_now,
        )
    )
    queued = _of_workloads(parts, of_kind[WORKLOADS], of_kind)
    works = (capacity.run, writer.run, nomination.run, plans.run, answered.run, queued.run)
    tasks = [asyncio.ensure_future(work()) for work in works]
    stores = {
        ("v1", "Pod"): pods,
        ("autoscaling.x-k8s.io/v1", "ProvisioningRequest"): requests,
        ("v1", "PodTemplate"): templates,
        **{(each.api_version, each.kind): store for each, store in of_kind.items()},
    }
    doors = Doors(nomination, placements, stores, tasks, errors)
    loop.set_exception_handler(lambda _, fault: doors.faults.append(fault))
    await asyncio.sleep(1.0)
    try:
        yield doors
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


_FOLLOWED: tuple[Resource[Any], ...] = (
    *(POD_GROUPS, QUEUES, QUOTAS, SCHEDULING_GROUPS, COMPOSITE_GROUPS),
    *(WORKLOADS, ADMISSION_CHECKS, KUEUE_FLAVORS),
)


@dataclass(frozen=True)
class _Parts:
    """What the controllers of requests share with that of gangs."""

    placements: Placements
    nodes: FedStore
    pods: FedStore
    writer: Writer
    capacity: ClusterCapacity
    errors: ObjectErrors
    ahead: AheadBudget


def _of_requests(
    parts: _Parts, requests: FedStore, templates: FedStore
) -> tuple[ProvisioningController, RequestReservations]:
    """The controller of ProvisioningRequests, and what they have for the pods of gangs."""
    bookings = _bookings(parts, "provisioning/")
    reader = TermsReader(
        templates=templates, nodes=parts.nodes.objects.values, keys=WORDS, policy=Policy()
    )
    form = ProvisioningForm(requests)
    made = _controller(
        parts,
        requests,
        templates,
        form=form,
        bookings=bookings,
        terms=reader,
        kind=ObjectKind.REQUEST,
    )
    parts.ahead.readers["provisioning/"] = RequestsAhead(
        "request", requests, bookings, made.consumers
    )
    return made, RequestReservations(requests, bookings, reader, _now, is_awaited=True)


def _of_workloads(
    parts: _Parts, workloads: FedStore, of_kind: Mapping[Resource[Any], FedStore]
) -> ProvisioningController:
    """The controller of workloads of Kueue."""
    stores = WorkloadStores(workloads, of_kind[ADMISSION_CHECKS], of_kind[KUEUE_FLAVORS], WORDS)
    form = WorkloadForm(stores=stores, keys=WORDS, label_keys=LABELS, server_now=_now)
    reader = TermsReader(
        templates=stores.templates, nodes=parts.nodes.objects.values, keys=WORDS, policy=Policy()
    )
    bookings = _bookings(parts, "workload/")
    made = _controller(
        parts,
        stores.requests,
        stores.templates,
        form=form,
        bookings=bookings,
        terms=WorkloadTerms(stores, reader),
        kind=ObjectKind.WORKLOAD,
    )
    parts.ahead.readers["workload/"] = RequestsAhead(
        "workload", stores.requests, bookings, made.consumers
    )
    return made


def _bookings(parts: _Parts, prefix: str) -> RequestBookings:
    return RequestBookings(
        parts.placements.state,
        ahead=parts.ahead,
        prefix=prefix,
        labels=lambda node: parts.nodes.objects["", node].metadata.labels,
        label_keys=LABELS,
        server_now=_now,
    )


def _controller(
    parts: _Parts,
    requests: Any,
    templates: Any,
    *,
    form: RequestForm,
    bookings: RequestBookings,
    terms: Any,
    kind: ObjectKind,
) -> ProvisioningController:
    return ProvisioningController(
        requests,
        templates,
        parts.pods,
        form=form,
        bookings=bookings,
        terms=terms,
        planner=parts.placements.planner,
        writer=parts.writer,
        reporter=Reporter("topo-master", "topo-master-0"),
        metrics=ProvisioningMetrics(prom.CollectorRegistry()),
        errors=parts.errors,
        kind=kind,
        is_counted=parts.capacity.settled.is_set,
        is_leaving=lambda: False,
        server_now=_now,
        clock=asyncio.get_running_loop().time,
    )
