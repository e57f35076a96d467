"""The JSON documents of the API as types: what /openapi.json promises and the tests check."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from topo.model.forest import Status
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


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Problem(BaseModel):
    """RFC 9457: what is wrong, the field it is about, and the fix. Other keys may be added."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    field: str = ""
    fix: str = ""


class VendorNode(_Document):
    """A leaf of the vendor's document."""

    name: str
    kind: Literal["node"]
    status: Status


class VendorGroup(_Document):
    """A group of the vendor's document."""

    name: str
    kind: str
    child: "list[VendorGroup | VendorNode]"
    status: Status


class ReasonDocument(_Document):
    """Why something is not as it should be: a stable code, and a sentence."""

    code: str
    text: str


class NodeDocument(_Document):
    """A leaf."""

    name: str
    kind: Literal["node"]
    status: Status
    reasons: list[ReasonDocument]
    gpus: int
    gpu_type: str


class Capacity(_Document):
    """Counts over a whole subtree."""

    nodes: int
    ready: int
    gpus: int
    ready_gpus: int


class GroupDocument(_Document):
    """A group; `path` are the names from its root down, `expected` the children it should have."""

    name: str
    kind: str
    tier: int
    path: list[str]
    key: str
    status: Status
    reasons: list[ReasonDocument]
    expected: int | None
    source: str | None
    capacity: Capacity
    child: "list[GroupDocument | NodeDocument]"


class UnplacedDocument(NodeDocument):
    """A known node in no group, and why."""

    reason: ReasonDocument


class ConflictDocument(_Document):
    """Two statements that cannot both hold, and the way out."""

    code: str
    subjects: list[str]
    text: str
    fix: str


class UnjoinedDocument(_Document):
    """A machine of the cluster manager that matches no node."""

    id: str
    names: dict[str, str]
    group: list[str]
    text: str


class SourceDocument(_Document):
    """How a source fares; ages in seconds."""

    source: str
    state: Literal["ok", "waiting", "failing"]
    age_s: float | None
    failing_s: float | None
    trouble: str


class NodeDetailDocument(_Document):
    """What the node's worker said last."""

    identity: NodeIdentity | None
    gpus: list[Gpu]
    matrix: LinkMatrix | None
    ports: list[LinkPort]
    peers: ServerPeers | None
    fabrics: list[GpuFabric]
    nics: list[NetworkPort]
    probes: list[ProbeHealth]
    neighbours: list[str]
    stale: bool
    beat_age_s: float | None


class TopologyDocument(_Document):
    """`GET /v1/topology`; `node` only where one was asked for, `run` counts `generation`."""

    generation: int
    run: str
    mode: str
    restored_age_s: float | None
    groups: list[GroupDocument]
    unplaced: list[UnplacedDocument]
    conflicts: list[ConflictDocument]
    unjoined: list[UnjoinedDocument]
    sources: list[SourceDocument]
    node: NodeDetailDocument | None = None


class ChangeDocument(_Document):
    """One difference between two consecutive generations; `status` of a node that came or went."""

    generation: int
    what: str
    subject: str
    before: str
    after: str
    why: str
    status: str


class StepDocument(_Document):
    """The data of one event of the stream."""

    generation: int
    changes: list[ChangeDocument]


class DiffDocument(_Document):
    """What changed after `from` up to and with `to`, both of the same run."""

    start: Annotated[int, Field(alias="from")]
    end: Annotated[int, Field(alias="to")]
    run: str
    changes: list[ChangeDocument]


class Word(_Document):
    """`ok` or `ready`."""

    status: str


class Index(_Document):
    """What this is."""

    service: str
    version: str
    mode: str
    generation: int
    run: str
    calls: list[str]
