"""Workloads of Kueue as requests for capacity, kept as the workloads change.

A workload has its pod templates in itself; they are kept under the names that a request gives them.
The nodes of a flavor are those that its pods get: its labels and tolerations count once Kueue has
chosen it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from master.controllers.provisioning.terms import TermsReader
from master.kube.gang_pod import NodeWants
from master.kube.objects import Key, KubeObject, Resource
from master.kube.reflector import Changed, Listed, Listener, Removed, StoreEvent
from master.kube.schedulers.provisioning import (
    POD_TEMPLATES,
    PROVISIONING_REQUESTS,
    KnownRequest,
    KnownTemplate,
    template_of,
)
from master.kube.schedulers.topologies import TopologyObject
from master.kube.schedulers.workloads import (
    AdmissionCheckObject,
    CheckEntry,
    WorkloadObject,
    WorkloadPodSet,
)
from master.kube.schema.timestamps import unix_s
from master.kube.store import Store
from master.object_errors import ObjectErrors, ObjectKind
from topo.gangs.annotation_keys import AnnotationKeys, holders, of_workload
from topo.model.errors import Refusal
from topo.model.isolation import ObjectError
from topo.placement.job.request import Eligibility, Toleration
from topo.provisioning.course import ProvisioningRequest, RequestUid
from topo.provisioning.terms import Awaited, NothingToBook, Terms
from topo.provisioning.workloads import AdmissionCheck, Workload, as_request

T = TypeVar("T", bound=KubeObject)


@dataclass(eq=False)
class _Derived(Generic[T]):
    """Objects that follow from others; the store that makes them tells its changes."""

    resource: Resource[Any]
    is_synced: Callable[[], bool]
    objects: dict[Key, T] = field(default_factory=dict)
    _listeners: list[Listener[T]] = field(default_factory=list)

    @property
    def synced(self) -> bool:
        return self.is_synced()

    def subscribe(self, listener: Listener[T]) -> None:
        self._listeners.append(listener)
        if self.synced:
            listener(Listed(self.objects))

    def tell(self, event: StoreEvent[T]) -> None:
        for listener in self._listeners:
            listener(event)


class WorkloadStores:
    """The workloads that ask for capacity, by `of_workload` of their names, and their templates."""

    def __init__(
        self,
        workloads: Store[WorkloadObject],
        checks: Store[AdmissionCheckObject],
        flavors: Store[TopologyObject],
        keys: AnnotationKeys,
        *,
        errors: ObjectErrors | None = None,
    ) -> None:
        self.workloads, self.checks = workloads, checks
        self._errors = errors or ObjectErrors()
        self._flavors, self._keys = flavors, keys
        self.requests = _Derived[KnownRequest](PROVISIONING_REQUESTS, self._is_synced)
        self.templates = _Derived[KnownTemplate](POD_TEMPLATES, self._is_synced)
        workloads.subscribe(self._follow_workloads)
        checks.subscribe(lambda _: self._read_all())
        flavors.subscribe(lambda _: self._read_all())

    def find(self, request: ProvisioningRequest) -> WorkloadObject | None:
        """Return the workload of a request; None if it is gone."""
        return self.workloads.objects.get((request.namespace, request.name))

    def our_checks(self) -> Iterator[AdmissionCheckObject]:
        """Yield the checks that are answered here."""
        for each in self.checks.objects.values():
            if each.spec.controller_name == self._keys.whole_groups:
                yield each

    def entries(self, request: ProvisioningRequest) -> list[CheckEntry]:
        """Return our checks of a workload."""
        found, ours = self.find(request), self._names()
        return [] if found is None else [e for e in found.status.admission_checks if e.name in ours]

    def _is_synced(self) -> bool:
        return self.workloads.synced and self.checks.synced and self._flavors.synced

    def _names(self) -> set[str]:
        return {each.metadata.name for each in self.our_checks()}

    def _follow_workloads(self, event: StoreEvent[WorkloadObject]) -> None:
        if isinstance(event, Listed):
            self._read_all()
            return
        found = event.object if isinstance(event, Changed) else None
        namespace, name = event.key
        key = namespace, of_workload(name)
        before = self.requests.objects.get(key)
        if found is not None:
            self._read(found, self._names())
        else:
            self._drop(key)
            self._errors.clear(ObjectKind.WORKLOAD, "/".join(event.key))
        known = self.requests.objects.get(key)
        if known is not None:
            self.requests.tell(Changed(key, known))
        elif before is not None:
            self.requests.tell(Removed(key, before))

    def _read_all(self) -> None:
        """Read all workloads: what is answered here, or the nodes of a flavor changed."""
        if not self._is_synced():
            return
        names = self._names()
        there = {(namespace, of_workload(name)) for namespace, name in self.workloads.objects}
        for key in self.requests.objects.keys() - there:
            self._drop(key)
        for each in self.workloads.objects.values():
            self._read(each, names)
        self.requests.tell(Listed(self.requests.objects))

    def _read(self, found: WorkloadObject, checks: set[str]) -> None:
        """Keep the request of a workload and its templates; on an error what was known of it."""
        metadata = found.metadata
        name = f"{metadata.namespace}/{metadata.name}"
        made = self._errors.run(ObjectKind.WORKLOAD, name, lambda: self._request(found, checks))
        if isinstance(made, ObjectError):
            return
        key = metadata.namespace, of_workload(metadata.name)
        self._drop(key)
        if made is not None:
            known, templates = made
            self.requests.objects[key] = known
            self.templates.objects |= templates

    def _request(
        self, found: WorkloadObject, checks: set[str]
    ) -> tuple[KnownRequest, dict[Key, KnownTemplate]] | None:
        """Return the request of a workload and its templates; None for none."""
        value = as_request(_workload(found, self._keys), self._keys.whole_groups, checks)
        if value is None:
            return None
        namespace = found.metadata.namespace
        templates = {
            (namespace, _template_name(found, each)): self._template(found, each)
            for each in found.spec.pod_sets
        }
        return KnownRequest(found.metadata.identity, "", value), templates

    def _drop(self, key: Key) -> None:
        """Forget the request of a workload and its templates."""
        before = self.requests.objects.pop(key, None)
        for pod_set, _ in before.value.pod_sets if before is not None else ():
            self.templates.objects.pop((key[0], pod_set), None)

    def _template(self, found: WorkloadObject, pod_set: WorkloadPodSet) -> KnownTemplate:
        known = template_of(found.metadata.identity, pod_set.template)
        selector, tolerations = dict[str, str](), set[Toleration]()
        for name in _flavors_of(found, pod_set):
            flavor = self._flavors.objects.get(("", name))
            spec = flavor.spec if flavor is not None else {}
            selector |= spec.get("nodeLabels", {})
            tolerations |= set(map(_toleration, spec.get("tolerations", ())))
        pairs = tuple(sorted(selector.items()))
        return replace(known, selector=pairs, tolerations=frozenset(tolerations))


@dataclass(frozen=True, slots=True)
class WorkloadTerms:
    """Reads what a workload asks for: whole groups, where its pods ask for them."""

    stores: WorkloadStores
    reader: TermsReader

    def read(
        self, request: ProvisioningRequest, eligible: dict[NodeWants, Eligibility] | None = None
    ) -> Terms | Refusal | Awaited | NothingToBook:
        """Return what a workload asks for; O(its templates), with an affinity O(nodes).

        Nothing is booked for what cannot be judged: a refusal is final, and ends the job.
        """
        found = self.stores.find(request)
        if found is None or request.is_let_go:
            return NothingToBook("it is let go")
        why = next(self._whys(found), "")
        return NothingToBook(why) if why else self.reader.read(request, eligible)

    def _whys(self, found: WorkloadObject) -> Iterator[str]:
        """Yield why nothing is booked for a workload."""
        admission, keys = found.status.admission, self.reader.keys
        assigned = admission.pod_set_assignments if admission is not None else ()
        if any(each.topology_assignment for each in assigned):
            yield "Kueue has chosen its nodes"
        templates = [template_of(found.metadata, each.template) for each in found.spec.pod_sets]
        stated = {key for each in templates for key in each.annotations}
        if keys.size not in stated:
            yield f"none of its pods has {keys.size}"
        if keys.own_domains in stated:
            yield "its parts get domains of their own once it has pods"
        gpus = [self.reader.gpus_of(each) for each in templates]
        if any(each.is_unknown for each in gpus):
            yield "how many GPUs its pods have by claims of devices is not known"
        if not any(each.gpus for each in gpus):
            yield "none of its pods takes whole GPUs"


def _template_name(found: WorkloadObject, pod_set: WorkloadPodSet) -> str:
    return f"{found.metadata.name}/{pod_set.name}"


def _flavors_of(found: WorkloadObject, pod_set: WorkloadPodSet) -> set[str]:
    """Return the flavors that Kueue chose for a pod set."""
    if found.status.admission is None:
        return set()
    assigned = (a for a in found.status.admission.pod_set_assignments if a.name == pod_set.name)
    return {name for each in assigned for name in each.flavors.values()}


def _toleration(found: Mapping[str, str]) -> Toleration:
    key, value, effect = (found.get(each, "") for each in ("key", "value", "effect"))
    return Toleration(key, found.get("operator") or "Equal", value, effect)


def _workload(found: WorkloadObject, keys: AnnotationKeys) -> Workload:
    metadata, status = found.metadata, found.status
    return Workload(
        uid=RequestUid(metadata.uid),
        namespace=metadata.namespace,
        name=metadata.name,
        version=metadata.resource_version,
        created_s=unix_s(metadata.creation_timestamp) or 0.0,
        pod_sets=tuple((_template_name(found, each), each.count) for each in found.spec.pod_sets),
        gates=tuple(holders(metadata.annotations)) if found.held_as is not None else (),
        true=tuple(
            (each.type, unix_s(each.last_transition_time) or 0.0)
            for each in status.conditions
            if each.status == "True"
        ),
        checks=tuple(_check(each, keys) for each in status.admission_checks),
        is_active=found.spec.active,
        is_leaving=metadata.deletion_timestamp is not None,
    )


def _check(found: CheckEntry, keys: AnnotationKeys) -> AdmissionCheck:
    holds = (each.annotations.get(keys.booking, "") for each in found.pod_set_updates)
    since_s = unix_s(found.last_transition_time) or 0.0
    hold = next((each for each in holds if each), "")
    return AdmissionCheck(found.name, found.state, found.message, since_s, hold)
