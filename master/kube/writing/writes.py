"""Writes to the API server as values.

A *manager* is the name under which Kubernetes records the owner of a field. Each controller has its
own, so removing a field that one no longer wants leaves the fields of the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from master.kube.client import Call
from master.kube.leader_election.election import WORK_ENDS_S
from master.kube.objects import Resource, collection_path, object_path

MANAGER_PREFIX = "topo-master/"
"""The prefix of all field managers of this product."""
TIMEOUT_S = WORK_ENDS_S
"""A write that begins while this master leads ends before another master does: within the time
between `--renew-deadline` and `--lease-duration`."""
_APPLY = "application/apply-patch+yaml"
"""JSON is also YAML. Source: kubernetes.io, "Server-Side Apply"."""
_MERGE = "application/strategic-merge-patch+json"
_BRIEF = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""The answer of a write needs only the new version, not the whole object. Source: kubernetes.io,
"Kubernetes API Concepts", metadata-only fetches."""


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """The object to write. Its names suffice as a hash, because few kinds share a name."""

    resource: Resource[Any] = field(hash=False)
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        inside = f"{self.namespace}/" if self.namespace else ""
        return f"{self.resource.kind} {inside}{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """Sets the fields of an object, and removes the others that this manager set before.

    `fields` is the manager's whole intent: `{"metadata": {"labels": …}, "spec": …}`. The object
    must have this uid: without it, an apply would recreate a node that was just deleted. An object
    without a uid belongs to this product alone and is created if it is missing. `force` takes over
    fields of other managers. It is refused with 409 where the object has another version than
    `version`, if that is given. `subresource` is as in `Patch`.
    """

    target: WriteTarget
    manager: str
    uid: str
    version: str = ""
    subresource: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Creates an object; an existing object of the name stays as it is."""

    target: WriteTarget
    manager: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Deletes the object with this uid, and no other object of the name."""

    target: WriteTarget
    manager: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """Changes some fields of an object and leaves all others to their managers.

    A strategic merge: null removes a field, `{"$patch": "delete", …}` an element of a list with
    keys. It is refused with 409 where the object has another version than `version`, and with 422
    where it has another uid; without a version it changes the current object. `subresource`
    `status` patches the status: it accepts labels and annotations too, but nothing of the spec, as
    the object itself accepts nothing of the status.
    """

    target: WriteTarget
    manager: str
    uid: str
    version: str = ""
    subresource: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)


Write = Apply | Create | Delete | Patch


def call_of(write: Write) -> Call:
    """Return the request of a write; the writer waits for the rate limit, so the call skips it."""
    resource, namespace = write.target.resource, write.target.namespace
    path = object_path(resource, write.target.name, namespace)
    query = {"fieldManager": write.manager}
    match write:
        case Delete():
            body = orjson.dumps({"preconditions": {"uid": write.uid}})
            return Call(method="DELETE", path=path, body=body, timeout_s=TIMEOUT_S, urgent=True)
        case Apply():
            query["force"] = "true" if write.force else "false"
            path = f"{path}/{write.subresource}" if write.subresource else path
            identity = {**_uid(write.uid), **_version(write.version)}
            method, body, content_type = "PATCH", _document(write, identity), _APPLY
        case Create():
            path = collection_path(resource, namespace)
            method, body, content_type = "POST", _document(write, {}), "application/json"
        case _:  # a patch
            path = f"{path}/{write.subresource}" if write.subresource else path
            version = _version(write.version)
            metadata = {**write.fields.get("metadata", {}), "uid": write.uid, **version}
            body = orjson.dumps({**write.fields, "metadata": metadata})
            method, content_type = "PATCH", _MERGE
    return Call(
        method=method,
        path=path,
        query=query,
        body=body,
        content_type=content_type,
        accept=_BRIEF,
        timeout_s=TIMEOUT_S,
        urgent=True,
    )


def _uid(uid: str) -> Mapping[str, str]:
    return {"uid": uid} if uid else {}


def _version(version: str) -> Mapping[str, str]:
    return {"resourceVersion": version} if version else {}


def _document(write: Apply | Create, identity: Mapping[str, str]) -> bytes:
    resource, namespace = write.target.resource, write.target.namespace
    place = {"name": write.target.name, **({"namespace": namespace} if namespace else {})}
    metadata = {**write.fields.get("metadata", {}), **place, **identity}
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return orjson.dumps({**head, **write.fields, "metadata": metadata})
