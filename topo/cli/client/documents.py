"""The master's JSON documents as types, checked once at the border.

The shapes are those of `GET /v1/topology`, `/v1/topology/diff` and the events of
`/v1/topology/events` (see the master's `/openapi.json`). Keys that this version does not know are
ignored, so that a `topo` and a master of neighbouring versions understand each other.
"""

from typing import Any, Literal, NotRequired, TypeVar

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict, TypeIs  # pydantic needs it before Python 3.12

from topo.model.errors import Refusal
from topo.model.machine import (
    Gpu,
    GpuFabric,
    LinkMatrix,
    LinkPort,
    NetworkPort,
    NodeIdentity,
    ProbeHealth,
    ServerPeers,
)


class ReasonDoc(TypedDict):
    """Why something is not as it should be."""

    code: str
    text: str


class NodeDoc(TypedDict):
    """A leaf of the tree."""

    name: str
    kind: Literal["node"]
    status: str
    reasons: NotRequired[list[ReasonDoc]]
    gpus: NotRequired[int]


class CapacityDoc(TypedDict):
    """Counts over a whole subtree."""

    nodes: int
    ready: int
    gpus: int


class GroupDoc(TypedDict):
    """An inner vertex; `child` is missing where the request cut the tree."""

    name: str
    kind: str
    tier: int
    status: str
    path: NotRequired[list[str]]
    reasons: NotRequired[list[ReasonDoc]]
    expected: NotRequired[int | None]
    source: NotRequired[str | None]
    capacity: NotRequired[CapacityDoc | None]
    child: NotRequired["list[NodeDoc | GroupDoc]"]


class UnplacedDoc(NodeDoc):
    """A known node in no group, and the reason for that."""

    reason: ReasonDoc


class ConflictDoc(TypedDict):
    """Two statements that cannot both hold."""

    code: str
    subjects: list[str]
    text: str
    fix: NotRequired[str]


class UnjoinedDoc(TypedDict):
    """A machine of the cluster manager that matches no node."""

    id: str
    names: dict[str, str]
    group: NotRequired[list[str]]
    text: NotRequired[str]


class SourceDoc(TypedDict):
    """How one source of facts fares; ages in seconds."""

    source: str
    state: str
    age_s: NotRequired[float | None]
    failing_s: NotRequired[float | None]
    trouble: NotRequired[str]


class NodeDetailDoc(TypedDict):
    """All that the worker of one node said last, with the age of its last message in seconds."""

    identity: NotRequired[NodeIdentity | None]
    gpus: NotRequired[list[Gpu]]
    matrix: NotRequired[LinkMatrix | None]
    ports: NotRequired[list[LinkPort]]
    peers: NotRequired[ServerPeers | None]
    fabrics: NotRequired[list[GpuFabric]]
    nics: NotRequired[list[NetworkPort]]
    probes: NotRequired[list[ProbeHealth]]
    neighbours: NotRequired[list[str]]
    beat_age_s: NotRequired[float | None]


class TopologyDoc(TypedDict):
    """The answer of `GET /v1/topology`; `run` names the process that counts the generation."""

    generation: int
    run: NotRequired[str]
    mode: NotRequired[str]
    restored_age_s: NotRequired[float | None]
    groups: list[GroupDoc]
    unplaced: NotRequired[list[UnplacedDoc]]
    conflicts: NotRequired[list[ConflictDoc]]
    unjoined: NotRequired[list[UnjoinedDoc]]
    sources: NotRequired[list[SourceDoc]]
    node: NotRequired[NodeDetailDoc | None]


class ChangeDoc(TypedDict):
    """One difference between two generations."""

    generation: int
    what: str
    subject: str
    before: NotRequired[str]
    after: NotRequired[str]
    why: NotRequired[str]


DiffDoc = TypedDict("DiffDoc", {"from": int, "to": int, "changes": list[ChangeDoc]})


class ChangesDoc(TypedDict):
    """The data of one server-sent event."""

    generation: int
    changes: NotRequired[list[ChangeDoc]]


class ProblemDoc(TypedDict):
    """An `application/problem+json` body (RFC 9457); `field` and `fix` are this product's."""

    title: NotRequired[str]
    detail: NotRequired[str]
    field: NotRequired[str]
    fix: NotRequired[str]


TOPOLOGY = TypeAdapter(TopologyDoc)
DIFF = TypeAdapter(DiffDoc)
CHANGES = TypeAdapter(ChangesDoc)
PROBLEM = TypeAdapter(ProblemDoc)


_T = TypeVar("_T")


def checked(adapter: TypeAdapter[_T], data: Any) -> _T | Refusal:
    """`data` as the document of `adapter`, or which of its fields is not one. O(size)."""
    try:
        return adapter.validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        return Refusal(first["msg"], where, "use a topo and a topo-master of the same release")


def is_node(child: NodeDoc | GroupDoc) -> TypeIs[NodeDoc]:
    """Whether a child is a leaf."""
    return child["kind"] == "node"
