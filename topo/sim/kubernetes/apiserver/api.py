"""The API server without its socket: one request in, one document out.

    POST   collection                 creates, after the webhooks
    GET    collection or object       a page of a list, or the object
    PUT    object                     replaces, in the version that the body names
    PATCH  object or its status       merge, strategic merge or server-side apply
    DELETE object                     deletes; what it owned goes too (`Garbage`)
    POST   pods/<name>/binding        binds

A write to an object changes nothing of its status, one to `/status` nothing of its spec; labels and
annotations may come with either. Source: kubernetes.io, "Kubernetes API Concepts".
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from itertools import count
from typing import Any

import orjson

from topo.sim.kubernetes.apiserver import field_owners, pod_rules
from topo.sim.kubernetes.apiserver.admission import check_configuration
from topo.sim.kubernetes.apiserver.field_owners import Stored
from topo.sim.kubernetes.apiserver.merging import (
    APPLY,
    MERGE,
    STRATEGIC,
    merge,
    merge_strategically,
)
from topo.sim.kubernetes.apiserver.resources import (
    JOBS,
    PODS,
    WEBHOOKS,
    ObjectPath,
    ServedKind,
    ServedKinds,
)
from topo.sim.kubernetes.apiserver.selectors import selector_of
from topo.sim.kubernetes.apiserver.statuses import (
    RefusedError,
    bad_request,
    conflict,
    expired,
    invalid,
    not_served,
)
from topo.sim.kubernetes.apiserver.store import ObjectStore

MAX_PAGE = 500
"""Objects of a page where no limit is asked for."""
MAX_LISTS = 64
"""Lists under way: the oldest is forgotten, as by a compaction."""
_BRIEF = "as=PartialObjectMetadata"
_OWN_FIELDS = ("uid", "creationTimestamp", "resourceVersion", "deletionTimestamp", "managedFields")
"""Fields of the metadata that clients do not write."""
Document = dict[str, Any]
Admit = Callable[[ServedKind, str, Document, list[str]], Awaitable[Document]]
"""Returns a new object of a kind in a namespace as webhooks want it, and adds their warnings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """One request; the body is JSON. The answer adds what webhooks warn of to `warnings`."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    accept: str = "application/json"
    warnings: list[str] = field(default_factory=list)


async def admit_all(_: ServedKind, _namespace: str, document: Document, _w: list[str]) -> Document:
    """Return the object as it is: no webhook is asked."""
    return document


@dataclass(slots=True)
class Api:
    """Answers requests from a store; `admit` changes new objects, as webhooks do."""

    store: ObjectStore
    kinds: ServedKinds = field(default_factory=ServedKinds)
    admit: Admit = admit_all
    _lists: OrderedDict[str, tuple[int, list[Document]]] = field(default_factory=OrderedDict)
    _tokens: Iterator[int] = field(default_factory=partial(count, 1))

    async def answer(self, request: ApiRequest) -> Document:
        """Return the body of a 2xx answer. Raises `RefusedError`."""
        place = self.kinds.find(request.path)
        if place is None:
            raise not_served()
        if request.method == "GET":
            return self._read(request, place)
        if request.method == "DELETE":
            return self._delete(place, _body(request) if request.body else {})
        found = await self._write(request, place, _body(request))
        return _brief(found) if _BRIEF in request.accept else found

    async def _write(self, request: ApiRequest, place: ObjectPath, asked: Document) -> Document:
        manager = request.query.get("fieldManager", "unknown")
        match request.method, place.subresource:
            case "POST", "" if not place.name:
                return await self.create(place, asked, manager, request.warnings)
            case "POST", "binding" if place.kind == PODS:
                return self._bind(place, asked)
            case "PUT", "" | "status":
                return self._replace(place, asked)
            case "PATCH", "" | "status":
                return await self._patch(request, place, asked, manager)
        raise RefusedError(
            HTTPStatus.METHOD_NOT_ALLOWED, "MethodNotAllowed", "the method is not supported"
        )

    async def create(
        self, place: ObjectPath, document: Document, manager: str, warnings: list[str]
    ) -> Document:
        """Create an object in a collection, as the webhooks want it. Raises `RefusedError`."""
        metadata = document.setdefault("metadata", {})
        for name in _OWN_FIELDS:
            metadata.pop(name, None)
        if "generateName" in metadata and not metadata.get("name"):
            metadata["name"] = f"{metadata['generateName']}{self.store.new_uid()[:5]}"
        if not metadata.get("name"):
            raise invalid("metadata.name: Required value: name or generateName is required")
        if place.kind.is_namespaced:
            metadata["namespace"] = place.namespace
        document |= {"apiVersion": place.kind.api_version, "kind": place.kind.kind}
        document = await self.admit(place.kind, place.namespace, document, warnings)
        _prepare(place.kind, document)
        return self.store.create(place.collection, document, manager).document

    def _read(self, request: ApiRequest, place: ObjectPath) -> Document:
        if place.name:
            return self.store.find(place.collection, place.name).document
        return self.page(place, request.query)

    def page(self, place: ObjectPath, query: Mapping[str, str]) -> Document:
        """Return a page of a list; all pages show one version. Raises `RefusedError` (410)."""
        if token := query.get("continue", ""):
            found = self._lists.get(token)
            if found is None:
                raise expired("the provided continue parameter is too old")
            version, items = found
        else:
            version, items = self.store.version, self._items(place, query)
        limit = int(query.get("limit") or MAX_PAGE)
        metadata = {"resourceVersion": str(version)}
        if rest := items[limit:]:
            metadata["continue"] = f"{version}-{next(self._tokens)}"
            self._lists[metadata["continue"]] = version, rest
            if len(self._lists) > MAX_LISTS:
                self._lists.popitem(last=False)
        head = {"apiVersion": place.kind.api_version, "kind": f"{place.kind.kind}List"}
        return {**head, "metadata": metadata, "items": items[:limit]}

    def forget_lists(self) -> None:
        """Forget the lists under way, as a compaction does: their next pages get 410."""
        self._lists.clear()

    def _items(self, place: ObjectPath, query: Mapping[str, str]) -> list[Document]:
        """Return copies of the objects that a list is asked for, in the order of their names."""
        chosen = selector_of(query)
        found = [
            (key, stored)
            for key, stored in self.store.objects.items()
            if place.covers(key[0]) and chosen(stored.document)
        ]
        return [_shown(stored) for _, stored in sorted(found, key=lambda pair: pair[0])]

    def _replace(self, place: ObjectPath, asked: Document) -> Document:
        stored = self.store.find(place.collection, place.name)
        metadata = asked.get("metadata") or {}
        self.store.require(stored, metadata.get("uid"), metadata.get("resourceVersion"))
        kept = stored.document["metadata"]
        own = {name: kept[name] for name in _OWN_FIELDS if name in kept}
        asked["metadata"] = {**metadata, "name": place.name, **own}
        if "namespace" in kept:
            asked["metadata"]["namespace"] = kept["namespace"]
        changed = _within(place, stored.document, asked)
        return self._put(place, stored, changed)

    async def _patch(
        self, request: ApiRequest, place: ObjectPath, asked: Document, manager: str
    ) -> Document:
        metadata = asked.get("metadata") or {}
        uid, version = metadata.get("uid"), metadata.get("resourceVersion")
        if request.content_type == APPLY:
            if (place.collection, place.name) not in self.store.objects:
                return await self._apply_anew(place, asked, manager)
            stored = self.store.find(place.collection, place.name)
            self.store.require(stored, uid, version)
            return self._apply(request, place, stored, asked)
        stored = self.store.find(place.collection, place.name)
        self._require_of_patch(stored, uid, version)
        change = {MERGE: merge, STRATEGIC: merge_strategically}.get(request.content_type)
        if change is None:
            what = f"the body of the request was in an unknown format: {request.content_type}"
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", what)
        changed: Document = orjson.loads(orjson.dumps(stored.document))
        change(changed, {name: each for name, each in asked.items() if name != "metadata"})
        given = {name: each for name, each in metadata.items() if name not in _OWN_FIELDS}
        change(changed["metadata"], given)
        return self._put(place, stored, _within(place, stored.document, changed))

    def _require_of_patch(self, stored: Stored, uid: str | None, version: str | None) -> None:
        """Raise `RefusedError`: a patch of another uid would change it, which is invalid."""
        if uid and uid != stored.document["metadata"]["uid"]:
            raise invalid("metadata.uid: Invalid value: field is immutable")
        self.store.require(stored, None, version)

    async def _apply_anew(self, place: ObjectPath, asked: Document, manager: str) -> Document:
        """Create what an apply names; one that names a uid means an object that is gone."""
        if asked.get("metadata", {}).get("uid"):
            raise conflict("uid mismatch: the object no longer exists")
        asked["metadata"] = {**asked.get("metadata", {}), "name": place.name}
        return await self.create(place, asked, manager, [])

    def _apply(
        self, request: ApiRequest, place: ObjectPath, stored: Stored, asked: Document
    ) -> Document:
        manager = request.query.get("fieldManager", "")
        if not manager:
            raise bad_request("fieldManager is required for apply patch")
        taken = field_owners.conflicts(stored, asked, manager)
        if taken and request.query.get("force") != "true":
            owners = sorted(set().union(*(stored.owners[path] for path in taken)) - {manager})
            word = "conflict" if len(taken) == 1 else "conflicts"
            text = f'Apply failed with {len(taken)} {word}: conflict with "{owners[0]}"'
            raise conflict(text)
        field_owners.apply(stored, asked, manager)
        self.store.record(place.collection, place.name)
        return stored.document

    def _put(self, place: ObjectPath, stored: Stored, changed: Document) -> Document:
        """Store a changed object that keeps the rules of its kind. Raises `RefusedError`."""
        if place.kind == PODS:
            pod_rules.check_pod(stored.document, changed)
        elif place.kind == WEBHOOKS:
            check_configuration(changed)
        stored.document = changed
        self.store.record(place.collection, place.name)
        return stored.document

    def _bind(self, place: ObjectPath, binding: Document) -> Document:
        stored = self.store.find(place.collection, place.name)
        pod_rules.bind(stored.document, binding, self.store.now())
        self.store.record(place.collection, place.name)
        return {"apiVersion": "v1", "kind": "Status", "status": "Success"}

    def _delete(self, place: ObjectPath, options: Document) -> Document:
        if not place.name:
            raise bad_request("a collection is not deleted at once")
        stored = self.store.find(place.collection, place.name)
        wanted = options.get("preconditions") or {}
        self.store.require(stored, wanted.get("uid"), wanted.get("resourceVersion"))
        self.store.delete(place.collection, place.name)
        if (place.collection, place.name) in self.store.objects:
            return stored.document
        return {"apiVersion": "v1", "kind": "Status", "status": "Success"}


def _body(request: ApiRequest) -> Document:
    """Return the object in a body. Raises `RefusedError` (400)."""
    try:
        found = orjson.loads(request.body or b"")
    except orjson.JSONDecodeError as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("metadata", {}), dict):
        raise bad_request("the object provided is unrecognized: no object")
    return found


def _prepare(kind: ServedKind, document: Document) -> None:
    """Set and check what the API server sets and checks on a new object of a kind."""
    if kind == PODS:
        pod_rules.prepare_pod(document)
    elif kind == JOBS:
        document["status"] = {}
    elif kind == WEBHOOKS:
        check_configuration(document)


def _within(place: ObjectPath, before: Document, after: Document) -> Document:
    """Return an object after a write to it or to its status, which leaves the other part alone."""
    if place.subresource == "status":
        kept = {**before, "metadata": after["metadata"]}
        return {**kept, "status": after["status"]} if "status" in after else kept
    if "status" in before:
        return {**after, "status": before["status"]}
    return {name: each for name, each in after.items() if name != "status"}


def _shown(stored: Stored) -> Document:
    """Return a copy of an object as a list shows it, with who applied its fields."""
    document = stored.document
    metadata = {**document["metadata"], "managedFields": stored.managed_fields}
    copied: Document = orjson.loads(orjson.dumps({**document, "metadata": metadata}))
    return copied


def _brief(document: Document) -> Document:
    """Return the metadata alone, for a client that asked for no more."""
    head = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata"}
    return {**head, "metadata": document["metadata"]} if "metadata" in document else document
