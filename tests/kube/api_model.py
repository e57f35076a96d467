"""A model of the API server for tests in virtual time: objects, owners of fields, versions, news.

It knows as much of server-side apply as the master uses: a field has the managers that applied it,
an apply without force that changes another's field is a conflict, a field that a manager no longer
applies goes when it was the only one. Leaves of `metadata.labels` and `metadata.annotations` are
fields of their own, every other top-level part (`spec`) is one. Checked against the real server in
`tests/e2e/kubernetes`, where the same promises are kept.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from master.kube.client import Call
from master.kube.errors import KubeError, error_of_answer
from master.kube.objects import NODES, Resource, collection_path

Path = tuple[str, ...]
_MAPS = ("labels", "annotations")
_MERGE_KEYS = {"schedulingGates": "name", "conditions": "type"}
STRATEGIC = "application/strategic-merge-patch+json"


_LISTS = {
    "nodes": "NodeList",
    "hypernodes": "HyperNodeList",
    "configmaps": "ConfigMapList",
    "pods": "PodList",
    "topologies": "TopologyList",
    "resourceflavors": "ResourceFlavorList",
    "clusternetworktopologies": "ClusterNetworkTopologyList",
}


@dataclass
class Stored:
    """One object, and who applied which of its fields."""

    document: dict[str, Any]
    owners: dict[Path, set[str]] = field(default_factory=dict)

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.document["metadata"].get("labels", {}))


@dataclass
class ApiModel:
    """Answers the calls of a writer. `delay_s` is how long each takes before it has its effect."""

    delay_s: float = 0.0
    version: int = 100
    objects: dict[tuple[str, str], Stored] = field(default_factory=dict)
    """By collection and name."""
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
    _under_way: int = 0

    @property
    def writes(self) -> list[tuple[str, str]]:
        """The calls that changed something: method and name."""
        return list(self._changes)

    def __post_init__(self) -> None:
        self._changes: list[tuple[str, str]] = []

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
            return self._answer(call)
        finally:
            self._under_way -= 1

    def add(
        self, resource: Resource[Any], name: str, by: str = "somebody", **fields: Any
    ) -> Stored:
        """Puts an object there, in the namespace of its metadata; its fields are `by`'s."""
        metadata = {"name": name, "uid": f"uid-{name}-{self.version}", **fields.pop("metadata", {})}
        at = collection_path(resource, metadata.get("namespace", ""))
        stored = Stored({"metadata": metadata, **fields})
        stored.owners = {path: {by} for path, _ in _leaves(stored.document)}
        self.objects[at, name] = stored
        self._changed(at, name, stored.document)
        return stored

    def edit(self, resource: Resource[Any], name: str, path: Path, value: Any) -> None:
        """What somebody does by hand: the field is theirs from then on; None takes it away."""
        stored = self.objects[collection_path(resource), name]
        _set(stored.document, path, value)
        stored.owners[path] = {"somebody"}
        self._changed(collection_path(resource), name, stored.document)

    def touch(self, at: str, name: str) -> None:
        """A write of somebody's that changes nothing but the version."""
        self._changed(at, name, self.objects[at, name].document)

    def remove(self, resource: Resource[Any], name: str, namespace: str = "") -> None:
        """What somebody deletes."""
        at = collection_path(resource, namespace)
        del self.objects[at, name]
        self._changed(at, name, None)

    def hold(self, resource: Resource[Any], name: str, finalizer: str) -> None:
        """Has an object wait for this finalizer when it is deleted; for none where it is empty."""
        at = collection_path(resource)
        metadata = self.objects[at, name].document["metadata"]
        metadata["finalizers"] = [finalizer] if finalizer else []
        if metadata["finalizers"] or "deletionTimestamp" not in metadata:
            self._changed(at, name, self.objects[at, name].document)
        else:
            self.remove(resource, name)

    def labels(self, resource: Resource[Any] = NODES) -> dict[str, dict[str, str]]:
        """The labels of all objects by name."""
        of = collection_path(resource)
        return {name: stored.labels for (at, name), stored in self.objects.items() if at == of}

    def _changed(self, at: str, name: str, document: dict[str, Any] | None) -> None:
        self.version += 1
        if document is not None:
            document["metadata"]["resourceVersion"] = str(self.version)
            document = orjson.loads(orjson.dumps(document))
        for watch in self.watches:
            watch(at, name, document)

    def _answer(self, call: Call) -> bytes:
        if call.method == "GET":
            return self._read(call)
        assert call.body is not None
        asked = orjson.loads(call.body)
        if call.method == "POST":
            return self._create(call, asked)
        at, _, name = call.path.removesuffix("/status").rpartition("/")
        stored = self.objects.get((at, name))
        uid = asked.get("preconditions", asked.get("metadata", {})).get("uid")
        if stored is None and call.method == "PATCH" and uid is None:
            return self._create(replace(call, path=at), asked)
        if stored is None:
            # Server-side apply answers so for an object with a uid; a delete finds nothing.
            raise _refusal(*((409, "Conflict") if call.method == "PATCH" else (404, "NotFound")))
        metadata = stored.document["metadata"]
        if uid is not None and uid != metadata["uid"]:  # of a strategic patch the server says 422
            raise _refusal(409, "Conflict", "Precondition failed: UID in precondition")
        version = asked.get("preconditions", asked.get("metadata", {})).get("resourceVersion")
        if version not in {None, metadata["resourceVersion"]}:
            raise _refusal(409, "Conflict", "the object has been modified")
        if call.method == "PUT":
            stored.document = {**asked, "metadata": {**metadata, **asked["metadata"]}}
            self._changed(at, name, stored.document)
            return orjson.dumps(stored.document)
        if call.method == "DELETE":
            return self._delete(at, name)
        change = self._patch if call.content_type == STRATEGIC else self._apply
        return change(call, at, name, asked)

    def _delete(self, at: str, name: str) -> bytes:
        """Gone at once; one with finalizers is marked, stays, and is the answer."""
        document = self.objects[at, name].document
        metadata = document["metadata"]
        if not metadata.get("finalizers"):
            del self.objects[at, name]
            self._changes.append(("DELETE", name))
            self._changed(at, name, None)
            return b'{"kind":"Status"}'
        if "deletionTimestamp" not in metadata:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self._changes.append(("DELETE", name))
            self._changed(at, name, document)
        return orjson.dumps(document)

    def _read(self, call: Call) -> bytes:
        """One object, or a page of all, with who applied what."""
        at, _, name = call.path.rpartition("/")
        if (at, name) in self.objects:
            return orjson.dumps(self.objects[at, name].document)
        if name not in self.served:
            raise _refusal(404, "NotFound")
        items = [
            {**stored.document, "metadata": {**stored.document["metadata"], **_managers(stored)}}
            for (at, _), stored in self.objects.items()
            if call.path in {at, _of_all(at)}
            and _is_chosen(stored, call.query.get("labelSelector", ""))
        ]
        start, limit = int(call.query.get("continue", 0)), int(call.query.get("limit", 500))
        more = {"continue": str(start + limit)} if len(items) > start + limit else {}
        kind = _LISTS[name]
        head = {"kind": kind, "metadata": {"resourceVersion": str(self.version), **more}}
        return orjson.dumps({**head, "items": items[start : start + limit]})

    def _create(self, call: Call, asked: dict[str, Any]) -> bytes:
        name = asked["metadata"]["name"]
        if (call.path, name) in self.objects:
            raise _refusal(409, "AlreadyExists")
        asked["metadata"]["uid"] = f"uid-{name}-{self.version}"
        stored = Stored(asked)
        stored.owners = {path: {call.query.get("fieldManager", "")} for path, _ in _leaves(asked)}
        self.objects[call.path, name] = stored
        self._changes.append(("POST", name))
        self._changed(call.path, name, asked)
        return orjson.dumps(asked)

    def _patch(self, call: Call, at: str, name: str, asked: dict[str, Any]) -> bytes:
        """Of a patch of the status nothing of the spec is taken, of one of the object no status."""
        stored = self.objects[at, name]
        left_out = "spec" if call.path.endswith("/status") else "status"
        before = orjson.dumps(stored.document)
        _merge(stored.document, {key: each for key, each in asked.items() if key != left_out})
        if orjson.dumps(stored.document) != before:
            self._changes.append(("PATCH", name))
            self._changed(at, name, stored.document)
        return orjson.dumps(stored.document)

    def _apply(self, call: Call, at: str, name: str, asked: dict[str, Any]) -> bytes:
        stored, manager = self.objects[at, name], call.query["fieldManager"]
        wanted, now = dict(_leaves(asked)), dict(_leaves(stored.document))
        conflicts = [
            path
            for path, value in wanted.items()
            if now.get(path, value) != value and stored.owners.get(path, set()) - {manager}
        ]
        if conflicts and call.query["force"] != "true":
            raise _refusal(409, "Conflict", 'Apply failed with 1 conflict: conflict with "kubectl"')
        before = orjson.dumps(stored.document)
        for path, owners in list(stored.owners.items()):
            if manager in owners and path not in wanted:
                owners.discard(manager)
                if not owners:
                    del stored.owners[path]
                    _set(stored.document, path, None)
        for path, value in wanted.items():
            if now.get(path) != value:
                stored.owners[path] = set()
                _set(stored.document, path, value)
            stored.owners.setdefault(path, set()).add(manager)
        if orjson.dumps(stored.document) != before:
            self._changes.append(("PATCH", name))
            self._changed(at, name, stored.document)
        return orjson.dumps(stored.document)


def namespace_of(at: str) -> str:
    """The namespace of a collection's objects, empty where they have none."""
    found = re.search("/namespaces/([^/]+)", at)
    return found.group(1) if found else ""


def _of_all(at: str) -> str:
    """The collection of all namespaces that has the objects of this one."""
    return re.sub("/namespaces/[^/]+", "", at)


def _leaves(document: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    for part, value in document.items():
        if part == "metadata":
            for kind in _MAPS:
                yield from ((("metadata", kind, key), v) for key, v in value.get(kind, {}).items())
        elif part not in {"apiVersion", "kind"}:
            yield (part,), value


def _merge(document: dict[str, Any], patch: Mapping[str, Any]) -> None:
    """A strategic merge: null takes away, lists of objects are merged by their keys."""
    for key, value in patch.items():
        if value is None:
            document.pop(key, None)
        elif isinstance(value, dict):
            _merge(document.setdefault(key, {}), value)
        elif key in _MERGE_KEYS:
            by, there = _MERGE_KEYS[key], document.setdefault(key, [])
            for each in value:
                there[:] = [other for other in there if other[by] != each[by]]
                if each.get("$patch") != "delete":
                    there.append(each)
        else:
            document[key] = value


def _managers(stored: Stored) -> dict[str, Any]:
    names = sorted({manager for owners in stored.owners.values() for manager in owners})
    return {"managedFields": [{"manager": name, "operation": "Apply"} for name in names]}


def _is_chosen(stored: Stored, selector: str) -> bool:
    key, _, value = selector.partition("=")
    return not selector or stored.labels.get(key) == value


def _set(document: dict[str, Any], path: Path, value: Any) -> None:
    *above, last = path
    for part in above:
        document = document.setdefault(part, {})
    if value is None:
        document.pop(last, None)
    else:
        document[last] = value


def _refusal(status: int, reason: str, message: str = "") -> KubeError:
    body = {"code": status, "reason": reason, "message": message or reason}
    return error_of_answer(status, {}, orjson.dumps(body))
