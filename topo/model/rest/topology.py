"""`GET /v1/topology`: the tree with statuses and reasons, and what could not be placed."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from pydantic import Field

from topo.model.forest import Conflict, LinkState, Reason, Status
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
from topo.model.rest.document import Document, one_of, optional
from topo.model.rest.history import AsOfDocument

TreeMode = Annotated[str, one_of("config", "dragonfly", "switchbox", "nvlink", "auto")]
"""How groups are found: `--mode` of the master."""


class SharedCardsDocument(Document):
    """What there is of a resource in which cards are shared, and what pods have of it.

    The numbers are in the resource's own unit: shares of cards (`metax-tech.com/sgpu`), virtual
    GPUs (`volcano.sh/vgpu-number`), hundredths of a card (`tencent.com/vcuda-core`).
    """

    resource: str
    allocatable: int
    used: int


class NodeDocument(Document):
    """A leaf. `gpus` are those that its worker sees, else those that Kubernetes says it has.

    `gpu_type` is their model, empty where nobody says.
    `used_gpus` are those of pods, `held_gpus` those that holds keep for pods to come, `free_gpus`
    what a pod could get now: none of a node that is not ready or `cordoned`. `since_s`: seconds
    since its status changed or it came, null where that was before the master started. `pool`:
    what Kubernetes says the node is for, `training`, `inference` or `hybrid`; absent where it does
    not. `shared`: absent but for a node whose cards are shared, which has no whole GPU to give.
    """

    name: str
    kind: Literal["node"]
    status: Status
    reasons: tuple[Reason, ...] = ()
    gpus: int = 0
    gpu_type: str = ""
    free_gpus: int = 0
    used_gpus: int = 0
    held_gpus: int = 0
    cordoned: bool = False
    since_s: float | None = None
    pool: str = optional("")
    shared: tuple[SharedCardsDocument, ...] = optional(())


class Capacity(Document):
    """Counts over a whole subtree, whatever of it is shown.

    Free, used and held as of a node. `cordoned_gpus`: of cordoned nodes, booked by nobody. What is
    left of `gpus` is on nodes that are not ready.
    """

    nodes: int
    ready: int
    gpus: int
    ready_gpus: int = 0
    free_gpus: int = 0
    used_gpus: int = 0
    held_gpus: int = 0
    cordoned_gpus: int = 0


class GroupDocument(Document):
    """A group; `path` are the names from its root down, `expected` the nodes it should have.

    `source` stated the membership and calls the group `key`. `child` is empty below `depth`.
    """

    name: str
    kind: str
    tier: int
    path: tuple[str, ...]
    key: str = ""
    status: Status
    reasons: tuple[Reason, ...] = ()
    expected: int | None = None
    source: str | None = None
    capacity: Capacity
    child: "tuple[Child, ...]" = ()


Child = Annotated[NodeDocument | GroupDocument, Field(union_mode="left_to_right")]
"""What stands below a group. Tried in this order, since most children are nodes."""


def walk(
    children: Iterable[NodeDocument | GroupDocument], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], NodeDocument | GroupDocument]]:
    """Every node and group with the names from `above` down to it; a group before its children."""
    for child in children:
        path = (*above, child.name)
        yield path, child
        if isinstance(child, GroupDocument):
            yield from walk(child.child, path)


class UnplacedDocument(NodeDocument):
    """A known node in no group, and why."""

    reason: Reason


class UnjoinedDocument(Document):
    """A machine of the cluster manager that matches no node: the names by which it was tried."""

    id: str
    names: dict[str, str]
    group: tuple[str, ...] = ()
    text: str = ""


class WireDocument(Document):
    """A wire between the slots of two nodes, told once.

    `server` is the UUID that `node` sees at the other end. `peer` is null, and the wire
    `unconfirmed`, while no node states that UUID and claims this one back. `down`: an end judges it
    dead.
    """

    node: str
    slot: int
    peer: str | None = None
    peer_slot: int | None = None
    server: str = ""
    state: Annotated[str, one_of("up", "down", "unconfirmed")]


class SourceDocument(Document):
    """How a source fares: seconds since its last good answer, and for how long it has failed.

    `trouble` is why, `fix` the source's own next step. `warnings`: what is odd although it may
    answer, such as reports that are refused or a config file that is read but doubted.
    """

    source: str
    state: Annotated[str, one_of("ok", "waiting", "failing")]
    age_s: float | None = None
    failing_s: float | None = None
    trouble: str = ""
    fix: str = ""
    warnings: tuple[Reason, ...] = ()


class WarningDocument(Document):
    """What is wrong with how the master itself is run, and the next step.

    `code`: a kind of secret that others can read, such as `worker-token-in-clear`, a kind of file
    that cannot be used as it is, such as `worker-token-file`, or a resource of Kubernetes that
    cannot be followed, such as `kubernetes-nodes`.
    """

    code: str
    text: str
    fix: str = ""


class NodeWireDocument(Document):
    """One wire as this node sees it: its slot, and the server that should be at the other end.

    `nodes` state that server's UUID: one as a rule, none where no worker has reported from it,
    several where the UUID is cloned. One whose cable is out stays, `down`; `text` says why.
    """

    slot: int
    server: str
    nodes: tuple[str, ...] = ()
    state: LinkState
    text: str = ""


class NodeDetailDocument(Document):
    """What the node's worker said last, `beat_age_s` seconds ago; empty where it never spoke.

    `wires` are what discovery makes of the `peers` it said, now and before.
    """

    identity: NodeIdentity | None = None
    gpus: tuple[Gpu, ...] = ()
    matrix: LinkMatrix | None = None
    ports: tuple[LinkPort, ...] = ()
    peers: ServerPeers | None = None
    fabrics: tuple[GpuFabric, ...] = ()
    nics: tuple[NetworkPort, ...] = ()
    probes: tuple[ProbeHealth, ...] = ()
    neighbours: tuple[str, ...] = ()
    wires: tuple[NodeWireDocument, ...] = ()
    stale: bool = False
    beat_age_s: float | None = None


class TopologyDocument(Document):
    """The tree. `run` names the process that counts `generation`; `node` only where asked for.

    `capacity_version` grows whenever what is free, used, held or cordoned may differ. `wires` are
    those of the nodes shown.
    `restored_age_s`: the tree is that of the state file, so old, and no source has spoken yet.
    `warnings` are about the master itself; those about a source are in `sources`. `as_of` only
    where a moment was asked for: then it has no sources and nobody's GPUs are counted.
    """

    generation: int
    run: str = ""
    capacity_version: int = 0
    mode: TreeMode = ""
    restored_age_s: float | None = None
    groups: tuple[GroupDocument, ...]
    unplaced: tuple[UnplacedDocument, ...] = ()
    wires: tuple[WireDocument, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    unjoined: tuple[UnjoinedDocument, ...] = ()
    sources: tuple[SourceDocument, ...] = ()
    warnings: tuple[WarningDocument, ...] = ()
    node: NodeDetailDocument | None = optional(None)
    as_of: AsOfDocument | None = optional(None)
