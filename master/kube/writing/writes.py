"""What is to be written to the API server, as values.

A *manager* is the name under which Kubernetes remembers who owns a field. Each controller has its
own, so that what one of them no longer wants goes without touching what another wrote.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from master.kube.client import Call
from master.kube.leader_election.election import WORK_ENDS_S
from master.kube.objects import Resource, collection_path, object_path

MANAGER_PREFIX = "topo-master/"
"""All field managers of this product begin with it."""
TIMEOUT_S = WORK_ENDS_S
"""What is begun while this master leads has ended before another one does: see
`LeaseTimes.of`."""
_APPLY = "application/apply-patch+yaml"
"""JSON is YAML, too. Source: kubernetes.io, "Server-Side Apply"."""
_MERGE = "application/strategic-merge-patch+json"
_BRIEF = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""Who writes needs the version of what came about, not the whole of it. Source: kubernetes.io,
"Kubernetes API Concepts", metadata-only fetches."""


class WriteTarget(NamedTuple):
    """The object that is written."""

    resource: Resource[Any]
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        inside = f"{self.namespace}/" if self.namespace else ""
        return f"{self.resource.kind} {inside}{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """Makes an object have the fields, and no other one that this manager gave it before.

    `fields` is the manager's whole intent: `{"metadata": {"labels": …}, "spec": …}`. The object
    must be the one with this uid: an apply without it would create a node that has just been
    deleted, here it is refused. One without a uid is ours alone, and is made where it is missing.
    `force`: fields that others have are taken over without a word, of what is ours as a whole.
    """

    target: WriteTarget
    manager: str
    uid: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Makes an object; one of the name that is there already stays as it is."""

    target: WriteTarget
    manager: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Removes the object with this uid, and no other one of the name."""

    target: WriteTarget
    manager: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """Changes these fields of an object, and leaves all others to whoever wrote them.

    A strategic merge: null takes a field away, `{"$patch": "delete", …}` an element of a list that
    has keys. It is refused (409) where the object is in another version than the one that was
    looked at, and (422) where it is another object of the name; without a version it changes
    whatever is there. `subresource` is `status` where that is patched: it takes labels and
    annotations too, but nothing of the spec, as the object itself takes nothing of the status.
    """

    target: WriteTarget
    manager: str
    uid: str
    version: str = ""
    subresource: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)


Write = Apply | Create | Delete | Patch


def call_of(write: Write) -> Call:
    """The request of a write.

    It does not wait for the allowance of requests: whoever writes takes it before.
    """
    resource, name, namespace = write.target
    path, query = object_path(resource, name, namespace), {"fieldManager": write.manager}
    match write:
        case Apply():
            query["force"] = "true" if write.force else "false"
            identity = {"uid": write.uid} if write.uid else {}
            body, content_type = _document(write, identity), _APPLY
            return Call(
                method="PATCH",
                path=path,
                query=query,
                body=body,
                content_type=content_type,
                accept=_BRIEF,
                timeout_s=TIMEOUT_S,
                urgent=True,
            )
        case Create():
            path = collection_path(resource, namespace)
            return Call(
                method="POST",
                path=path,
                query=query,
                body=_document(write, {}),
                accept=_BRIEF,
                timeout_s=TIMEOUT_S,
                urgent=True,
            )
        case Patch():
            known = {
                "uid": write.uid,
                **({"resourceVersion": write.version} if write.version else {}),
            }
            metadata = {**write.fields.get("metadata", {}), **known}
            return Call(
                method="PATCH",
                path=f"{path}/{write.subresource}" if write.subresource else path,
                query=query,
                body=orjson.dumps({**write.fields, "metadata": metadata}),
                content_type=_MERGE,
                accept=_BRIEF,
                timeout_s=TIMEOUT_S,
                urgent=True,
            )
        case Delete():
            body = orjson.dumps({"preconditions": {"uid": write.uid}})
            return Call(method="DELETE", path=path, body=body, timeout_s=TIMEOUT_S, urgent=True)


def _document(write: Apply | Create, identity: Mapping[str, str]) -> bytes:
    resource, name, namespace = write.target
    place = {"name": name, **({"namespace": namespace} if namespace else {})}
    metadata = {**write.fields.get("metadata", {}), **place, **identity}
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return orjson.dumps({**head, **write.fields, "metadata": metadata})
