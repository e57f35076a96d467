"""`GET /v1/topology`: the tree with statuses and reasons, and what could not be placed."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, NotRequired, Self

from pydantic import Field
from typing_extensions import TypedDict, TypeIs

from topo.model.conditions.condition import Condition
from topo.model.forest import Conflict, LinkState, Reason, Status
from topo.model.machine import (
    Gpu,
    GpuFabric,
    LinkMatrix,
    LinkPort,
    NetworkPort,
    NicNeighbour,
    NodeIdentity,
    ProbeHealth,
    ServerPeers,
)
from topo.model.rest.document import default, one_of
from topo.model.rest.history import AsOfDocument

TreeMode = Annotated[
    str, one_of("config", "dragonfly", "switchbox", "nvlink", "auto", "labels", "fabric")
]
"""As `topo.discovery.modes.Mode`."""
WITHOUT_WORKERS = ("config", "labels", "fabric")
"""Modes that know groups and nodes without a worker."""
"""How groups are found: `--mode` of the master."""


@dataclass(frozen=True, slots=True)
class NodeReasonDocument(Reason):
    """Why a node is NotReady, and the seconds since; null where that is not known."""

    since_s: float | None = None


@dataclass(frozen=True, slots=True)
class SourceWarningDocument(Reason):
    """A warning about a source, and the seconds since it began; null where that is unknown."""

    since_s: float | None = None


class SharedCardsDocument(TypedDict):
    """A resource of shared cards: how much there is, and how much pods have.

    The numbers are in the resource's own unit: shares of cards (`metax-tech.com/sgpu`), virtual
    GPUs (`volcano.sh/vgpu-number`), hundredths of a card (`tencent.com/vcuda-core`).
    """

    resource: str
    allocatable: int
    used: int


class AmountDocument(TypedDict):
    """Shares of a card, its cores and its memory, in the units of `family`."""

    shares: int
    cores: int
    memory: int


class CardDocument(TypedDict):
    """A card that several pods share, as its device plugin publishes it, and what pods have of it.

    `family`: `volcano-vgpu`, `metax-sgpu` (cores in percent, memory in MiB) or `gpu-manager`
    (hundredths of a card, units of 256 MiB; shares are not counted). `mode`: hami-core or mig.
    """

    id: str
    family: str
    model: Annotated[str, default("")]
    mode: Annotated[str, default("")]
    healthy: Annotated[bool, default(True)]
    total: AmountDocument
    used: AmountDocument
    free: AmountDocument


class SharedCardsOfNode(TypedDict):
    """Both are absent but for a node whose cards are shared, which has no whole GPU to give.

    `cards`: each of these cards, where its device plugin publishes them.
    """

    shared: NotRequired[Annotated[list[SharedCardsDocument], default([])]]
    cards: NotRequired[Annotated[list[CardDocument], default([])]]


class NodeDocument(SharedCardsOfNode):
    """A leaf. `gpus` are those that its worker sees, else those that Kubernetes says it has.

    `gpu_type` is their model, empty where nobody says. `used_gpus` are those of bound pods,
    `held_gpus` those that are kept for pods that are not bound, `free_gpus` what a pod could get
    now: none of a node that is not ready or `cordoned`. `since_s`: seconds since its status changed
    or it came, null where that was before the master started. `pool`: what Kubernetes says the node
    is for, `training`, `inference` or `hybrid`; absent where it does not. `suspected`: links that
    cannot be trusted, each with its evidence; `quarantine`: why an operator keeps new jobs off;
    both absent where there is nothing.
    """

    name: str
    kind: Literal["node"]
    status: Status
    reasons: Annotated[tuple[NodeReasonDocument, ...], default(())]
    gpus: Annotated[int, default(0)]
    gpu_type: Annotated[str, default("")]
    free_gpus: Annotated[int, default(0)]
    used_gpus: Annotated[int, default(0)]
    held_gpus: Annotated[int, default(0)]
    cordoned: Annotated[bool, default(False)]
    since_s: Annotated[float | None, default(None)]
    suspected: NotRequired[Annotated[list[str], default([])]]
    quarantine: NotRequired[Annotated[str | None, default(None)]]
    pool: NotRequired[Annotated[str, default("")]]


class CapacityCounts(TypedDict):
    """Counts over a whole subtree, whatever of it is shown.

    Free, used and held as of a node. `cordoned_gpus`: of cordoned nodes, booked by nobody. What is
    left of `gpus` is on nodes that are not ready.
    """

    nodes: int
    ready: int
    gpus: int
    ready_gpus: Annotated[int, default(0)]
    free_gpus: Annotated[int, default(0)]
    used_gpus: Annotated[int, default(0)]
    held_gpus: Annotated[int, default(0)]
    cordoned_gpus: Annotated[int, default(0)]


class GroupDocument(TypedDict):
    """A group; `path` are the names from its root down, `expected` the nodes it should have.

    `source` stated the membership and calls the group `key`. `confirmed_by`: sources that state
    exactly its nodes, and are not seen above it. `child` is empty below `depth`.
    """

    name: str
    kind: str
    tier: int
    path: tuple[str, ...]
    key: Annotated[str, default("")]
    status: Status
    reasons: Annotated[tuple[Reason, ...], default(())]
    expected: Annotated[int | None, default(None)]
    source: Annotated[str | None, default(None)]
    confirmed_by: Annotated[tuple[str, ...], default(())]
    capacity: CapacityCounts
    child: Annotated["list[Child]", default([])]


Child = Annotated[NodeDocument | GroupDocument, Field(union_mode="left_to_right")]
"""What stands below a group. Tried in this order, since most children are nodes."""


def is_group(vertex: NodeDocument | GroupDocument) -> TypeIs[GroupDocument]:
    """Return whether it is a group; a node has no key `child`."""
    return "child" in vertex


def walk(
    children: Iterable[NodeDocument | GroupDocument], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], NodeDocument | GroupDocument]]:
    """Yield every node and group with its path; `above` is the path of `children`' parent."""
    for child in children:
        path = (*above, child["name"])
        yield path, child
        if is_group(child):
            yield from walk(child["child"], path)


class UnplacedDocument(NodeDocument):
    """A known node in no group, and why."""

    reason: Reason


class UnjoinedDocument(TypedDict):
    """A machine of the cluster manager that matches no node: the names by which it was tried."""

    id: str
    names: dict[str, str]
    group: Annotated[tuple[str, ...], default(())]
    text: Annotated[str, default("")]


@dataclass(frozen=True, slots=True)
class ConflictDocument(Conflict):
    """A conflict, and the seconds since it came; null where that was before the master started."""

    since_s: float | None = None


class StatedPathDocument(TypedDict):
    """The groups that a source writes down for a node, outermost first."""

    source: str
    path: tuple[str, ...]


class WireDocument(TypedDict):
    """A wire between the slots of two nodes, told once.

    `server` is the UUID that `node` sees at the other end. `peer` is null, and the wire
    `unconfirmed`, while no node states that UUID and claims this one back. `down`: an end judges it
    dead.
    """

    node: str
    slot: int
    peer: Annotated[str | None, default(None)]
    peer_slot: Annotated[int | None, default(None)]
    server: Annotated[str, default("")]
    state: Annotated[str, one_of("up", "down", "unconfirmed")]


class SourceDocument(TypedDict):
    """How a source fares: seconds since its last good answer, and for how long it has failed.

    `trouble` is why, `fix` the source's own next step. `warnings`: what is odd although it may
    answer, such as reports that are refused or a config file that is read but doubted. `detail`:
    what of its answers is followed where there is a choice, such as a family of labels.
    """

    source: str
    state: Annotated[str, one_of("ok", "waiting", "failing")]
    age_s: Annotated[float | None, default(None)]
    failing_s: Annotated[float | None, default(None)]
    trouble: Annotated[str, default("")]
    fix: Annotated[str, default("")]
    warnings: Annotated[tuple[SourceWarningDocument, ...], default(())]
    detail: Annotated[str, default("")]


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningDocument:
    """A problem of how the master itself is run, and the next step.

    `code`: a kind of secret that others can read, such as `worker-token-in-clear`, a kind of file
    that cannot be used as it is, such as `worker-token-file`, or a resource of Kubernetes that
    cannot be followed, such as `kubernetes-nodes`.
    """

    code: str
    text: str
    fix: str = ""

    @classmethod
    def of(cls, condition: Condition, text: str, fix: str = "") -> Self:
        """Make the warning of a condition; its step is the fix unless there is another."""
        return cls(code=condition.value, text=text, fix=fix or condition.step)


class NodeWireDocument(TypedDict):
    """One wire as this node sees it: its slot, and the server that should be at the other end.

    `nodes` state that server's UUID: one as a rule, none where no worker has reported from it,
    several where the UUID is cloned. One whose cable is out stays, `down`; `text` says why.
    """

    slot: int
    server: str
    nodes: Annotated[tuple[str, ...], default(())]
    state: LinkState
    text: Annotated[str, default("")]


class UplinkDocument(TypedDict):
    """A cable from an adapter of a node to a port of a switch, by a dump or by LLDP.

    `gpus` are near the adapter. `rail` is that of the switch: the GPUs of most nodes of the group
    are wired to one switch, or one pair, each; null where they are not. `unseen_s`: so long the
    switch has not been seen there; null while it is, and for a cable in a dump.
    """

    adapter: Annotated[str, default("")]
    interface: Annotated[str, default("")]
    gpus: Annotated[tuple[int, ...], default(())]
    switch: str
    port: Annotated[str, default("")]
    rate: Annotated[str, default("")]
    rail: Annotated[int | None, default(None)]
    unseen_s: Annotated[float | None, default(None)]


class EvidenceDocument(TypedDict):
    """Events of a kind: `flap`, `slowdown`, or a kind of error counter; how many, how long ago."""

    kind: str
    count: int
    first_age_s: float
    last_age_s: float


class LinkSuspicionDocument(TypedDict):
    """A link end; `link` is empty for what happened to several links of the node at once.

    It is suspected from a `score` of 1 on until that is below a half, `lifted_in_s` from now;
    `confirmed` is the word of an operator, which does not age. `times`: how often it was suspected.
    """

    link: str
    suspected: bool
    score: float
    times: int
    confirmed: str | None
    lifted_in_s: float | None
    evidence: list[EvidenceDocument]


class NodeSuspicionDocument(TypedDict):
    """The suspicion of a node. `quarantine` is why no new job starts there, null where one may.

    `links` are those of which anything is remembered, suspected or not.
    """

    node: str
    quarantine: Annotated[str | None, default(None)]
    quarantine_age_s: Annotated[float | None, default(None)]
    links: Annotated[list[LinkSuspicionDocument], default([])]


class FabricDocument(TypedDict):
    """A fabric: the kinds of its groups, outermost first, their number, and that of their nodes.

    The first of the list is the tree. `GET /v1/topology?fabric=` shows each. Empty but of the
    others: the `source` of the groups, the nodes with GPUs that are `unplaced`, and the `reason`.
    """

    fabric: str
    kinds: tuple[str, ...]
    groups: int
    nodes: int
    source: Annotated[str, default("")]
    unplaced: Annotated[tuple[str, ...], default(())]
    reason: Annotated[Reason | None, default(None)]


class FabricPlaceDocument(TypedDict):
    """The groups of a node in a fabric, outermost first, and their kinds."""

    fabric: str
    path: tuple[str, ...]
    kinds: tuple[str, ...]


class NodeDetailDocument(TypedDict):
    """What the node's worker said last, `beat_age_s` seconds ago; empty where it never spoke.

    `wires` are what discovery makes of the `peers` it said, now and before, `uplinks` what it makes
    of dumps and of `nic_neighbours`. `stated`: where each
    source that writes groups down puts the node, the one that is followed first at the front.
    `suspicion`: links that were not as they should be, and whether an operator keeps jobs off.
    `places`: its groups in each fabric; absent where it has none beside the tree.
    """

    identity: Annotated[NodeIdentity | None, default(None)]
    gpus: Annotated[tuple[Gpu, ...], default(())]
    matrix: Annotated[LinkMatrix | None, default(None)]
    ports: Annotated[tuple[LinkPort, ...], default(())]
    peers: Annotated[ServerPeers | None, default(None)]
    fabrics: Annotated[tuple[GpuFabric, ...], default(())]
    nics: Annotated[tuple[NetworkPort, ...], default(())]
    nic_neighbours: Annotated[tuple[NicNeighbour, ...], default(())]
    uplinks: Annotated[list[UplinkDocument], default([])]
    probes: Annotated[tuple[ProbeHealth, ...], default(())]
    neighbours: Annotated[tuple[str, ...], default(())]
    wires: Annotated[list[NodeWireDocument], default([])]
    stated: Annotated[list[StatedPathDocument], default([])]
    suspicion: Annotated[NodeSuspicionDocument | None, default(None)]
    places: NotRequired[Annotated[list[FabricPlaceDocument], default([])]]
    stale: Annotated[bool, default(False)]
    beat_age_s: Annotated[float | None, default(None)]


class TopologyDocument(TypedDict):
    """The tree. `run` names the process that counts `generation`; `node` only where asked for.

    `capacity_version` grows whenever what is free, used, held or cordoned may differ. `wires` are
    those of the nodes shown.
    `restored_age_s`: the tree is that of the state file, so old, and no source has spoken yet.
    `warnings` are about the master itself; those about a source are in `sources`. `as_of` only
    where a moment was asked for: then it has no sources and nobody's GPUs are counted.
    `fabrics` only where several are known; `fabric` is that of the groups, where it was asked for.
    """

    generation: int
    run: Annotated[str, default("")]
    capacity_version: Annotated[int, default(0)]
    mode: Annotated[TreeMode, default("")]
    restored_age_s: Annotated[float | None, default(None)]
    groups: list[GroupDocument]
    unplaced: Annotated[list[UnplacedDocument], default([])]
    wires: Annotated[list[WireDocument], default([])]
    conflicts: Annotated[tuple[ConflictDocument, ...], default(())]
    unjoined: Annotated[list[UnjoinedDocument], default([])]
    sources: Annotated[list[SourceDocument], default([])]
    warnings: Annotated[list[WarningDocument], default([])]
    fabrics: NotRequired[Annotated[list[FabricDocument], default([])]]
    fabric: NotRequired[Annotated[str, default("")]]
    node: NotRequired[Annotated[NodeDetailDocument | None, default(None)]]
    as_of: NotRequired[Annotated[AsOfDocument | None, default(None)]]
