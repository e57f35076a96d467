"""The simulated API server for tests in virtual time: slow, watched, and faulty as asked.

`topo.sim.kubernetes.apiserver` keeps the objects, the owners of fields, versions and the rules of
pods; here are what a test does by hand, the delay of each call, and the faults. Checked against the
real server in `tests/e2e/kubernetes`, where the same promises are kept.
"""

import asyncio
import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from master.kube.client import Call
from master.kube.dra.claims import CLAIM_TEMPLATES, DEVICE_CLASSES, RESOURCE_CLAIMS
from master.kube.dra.slices import RESOURCE_SLICES
from master.kube.dra.taint_rules import DEVICE_TAINT_RULES
from master.kube.errors import KubeError, error_of_answer
from master.kube.gang_object import GANGS
from master.kube.objects import NODES, Resource, collection_path
from master.kube.schedulers.hypernodes import HYPERNODES
from master.kube.schedulers.node_features import NODE_FEATURES
from master.kube.schedulers.provisioning import POD_TEMPLATES, PROVISIONING_REQUESTS
from master.kube.schedulers.scheduling_groups import SCHEDULING_GROUPS
from master.kube.schedulers.topologies import (
    CLUSTER_QUEUES,
    KAI_TOPOLOGIES,
    KOORDINATOR_TOPOLOGIES,
    KUEUE_FLAVORS,
    KUEUE_TOPOLOGIES,
)
from master.kube.schedulers.volcano import POD_GROUPS, QUEUES
from master.kube.schedulers.workloads import ADMISSION_CHECKS, WORKLOADS
from topo.sim.kubernetes.apiserver import field_owners
from topo.sim.kubernetes.apiserver.api import Api, ApiRequest
from topo.sim.kubernetes.apiserver.field_owners import FieldPath, Stored, set_field
from topo.sim.kubernetes.apiserver.merging import STRATEGIC
from topo.sim.kubernetes.apiserver.resources import STOCK_KINDS, ServedKind, ServedKinds
from topo.sim.kubernetes.apiserver.statuses import RefusedError
from topo.sim.kubernetes.apiserver.store import ObjectChange, ObjectStore

__all__ = ["STRATEGIC", "ApiModel", "Stored", "namespace_of"]
DEFINED: tuple[Resource[Any], ...] = (
    *(HYPERNODES, POD_GROUPS, QUEUES, GANGS, SCHEDULING_GROUPS),
    *(KUEUE_TOPOLOGIES, KUEUE_FLAVORS, CLUSTER_QUEUES, KAI_TOPOLOGIES, KOORDINATOR_TOPOLOGIES),
    *(PROVISIONING_REQUESTS, POD_TEMPLATES, WORKLOADS, ADMISSION_CHECKS, NODE_FEATURES),
    *(RESOURCE_SLICES, DEVICE_CLASSES, CLAIM_TEMPLATES, RESOURCE_CLAIMS, DEVICE_TAINT_RULES),
)
"""What definitions and feature gates add to the stock kinds."""


def served(resource: Resource[Any]) -> ServedKind:
    """The kind of a resource, as the server has it."""
    return ServedKind(
        resource.api_version, resource.plural, resource.kind, is_namespaced=resource.namespaced
    )


KINDS = ServedKinds((*STOCK_KINDS, *map(served, DEFINED)))


def new_store() -> ObjectStore:
    """An empty store: uids are numbered, and its clock stands still."""
    numbers = itertools.count(1)
    return ObjectStore(lambda: "2026-01-01T00:00:00Z", lambda: f"uid-{next(numbers)}")


@dataclass
class ApiModel:
    """Answers the calls of a writer. `delay_s` is how long each takes before it has its effect."""

    delay_s: float = 0.0
    calls: list[Call] = field(default_factory=list)
    faults: list[KubeError | None] = field(default_factory=list)
    """What the next calls get instead of an answer, in their order; None lets one through."""
    refusals: dict[str, list[KubeError]] = field(default_factory=dict)
    """What the next calls about objects of a collection get, by its path."""
    watches: list[Callable[[str, str, dict[str, Any] | None], None]] = field(default_factory=list)
    """Told of each change at once: the collection, the name, the object or None."""
    served: frozenset[str] = frozenset({"nodes", "hypernodes", "configmaps", "pods"})
    """What can be listed, be it empty."""
    busiest: int = 0
    writes: list[tuple[str, str]] = field(default_factory=list)
    """The calls that changed something: method and name."""
    store: ObjectStore = field(default_factory=new_store)
    _under_way: int = 0

    def __post_init__(self) -> None:
        self._api = Api(self.store, KINDS)
        self.store.listeners.append(self._tell)

    @property
    def objects(self) -> dict[tuple[str, str], Stored]:
        """By collection and name."""
        return self.store.objects

    @property
    def version(self) -> int:
        return self.store.version

    async def call(self, call: Call) -> bytes:
        self.calls.append(call)
        self._under_way += 1
        self.busiest = max(self.busiest, self._under_way)
        try:
            await asyncio.sleep(self.delay_s)
            refusals = self.refusals.get(call.path.rpartition("/")[0])
            fault = next((each.pop(0) for each in (self.faults, refusals) if each), None)
            if fault is not None:
                raise fault
            return await self._answer(call)
        finally:
            self._under_way -= 1

    async def _answer(self, call: Call) -> bytes:
        request = ApiRequest(
            method=call.method,
            path=call.path,
            query=call.query,
            body=call.body,
            content_type=call.content_type,
            accept=call.accept,
        )
        begun = self.version
        try:
            self._require_served(call)
            answer = await self._api.answer(request)
        except RefusedError as error:
            raise error_of_answer(error.code, {}, orjson.dumps(error.document)) from None
        for change in self.store.since(begun) or ():
            method = "POST" if change.what == "ADDED" else call.method
            if method != "PUT":
                self.writes.append((method, change.name))
        return orjson.dumps(answer)

    def _require_served(self, call: Call) -> None:
        place = KINDS.find(call.path)
        is_list = call.method == "GET" and place is not None and not place.name
        if is_list and place is not None and place.kind.plural not in self.served:
            raise RefusedError(404, "NotFound", "the server has no such kind")

    def add(
        self, resource: Resource[Any], name: str, by: str = "somebody", **fields: Any
    ) -> Stored:
        """Puts an object there, in the namespace of its metadata; its fields are `by`'s."""
        metadata = {"name": name, "uid": f"uid-{name}-{self.version}", **fields.pop("metadata", {})}
        at = collection_path(resource, metadata.get("namespace", ""))
        stored = Stored({"metadata": metadata, **fields})
        field_owners.own_all(stored, by)
        self.objects[at, name] = stored
        self.touch(at, name)
        return stored

    def edit(self, resource: Resource[Any], name: str, path: FieldPath, value: Any) -> None:
        """What somebody does by hand: the field is theirs from then on; None takes it away."""
        at = collection_path(resource)
        stored = self.objects[at, name]
        set_field(stored.document, path, value)
        stored.owners[path] = {"somebody"}
        self.touch(at, name)

    def touch(self, at: str, name: str) -> None:
        """A write of somebody's, be it one that changes nothing but the version."""
        self.store._snapshots.pop((at, name), None)
        self.store.record(at, name)

    def remove(self, resource: Resource[Any], name: str, namespace: str = "") -> None:
        """What somebody deletes."""
        self.store.forget(collection_path(resource, namespace), name)

    def hold(self, resource: Resource[Any], name: str, finalizer: str) -> None:
        """Has an object wait for this finalizer when it is deleted; for none where it is empty."""
        at = collection_path(resource)
        metadata = self.objects[at, name].document["metadata"]
        metadata["finalizers"] = [finalizer] if finalizer else []
        self.touch(at, name)

    def labels(self, resource: Resource[Any] = NODES) -> dict[str, dict[str, str]]:
        """The labels of all objects by name."""
        of = collection_path(resource)
        return {name: stored.labels for (at, name), stored in self.objects.items() if at == of}

    def _tell(self, change: ObjectChange) -> None:
        document = None if change.what == "DELETED" else dict(change.document)
        for watch in self.watches:
            watch(change.collection, change.name, document)


def namespace_of(at: str) -> str:
    """The namespace of a collection's objects, empty where they have none."""
    found = re.search("/namespaces/([^/]+)", at)
    return found.group(1) if found else ""
