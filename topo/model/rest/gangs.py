"""The answers of `/v1/gangs`: jobs whose pods start together, the state of each, and why."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from topo.model.conditions.catalogue import publish_codes
from topo.model.conditions.gang_states import GangState
from topo.model.rest.document import default, one_of
from topo.model.rest.placements import (
    InsideDocument,
    PlacementMode,
    PodGroupDocument,
    TolerationDocument,
)

GangStateWord = Annotated[str, one_of(*GangState)]
"""The state of a gang; docs/how-placement-reaches-the-scheduler.md says what each means."""
PodState = Annotated[str, one_of("gated", "nominated", "open", "bound", "ending")]
"""How far a pod of a gang is: behind its gate, nominated there, free to be bound, bound, ending."""


class LossDocument(TypedDict):
    """What a running job lost: why a node of its pods is NotReady, and the seconds since.

    `group` is that of its pods there, by number. `since_s` is null where that is not known. The
    pods are left alone.
    """

    node: str
    group: int
    code: Annotated[str, Field(json_schema_extra=publish_codes)]
    text: str
    since_s: Annotated[float | None, default(None)]


class GangSummary(TypedDict):
    """A gang without its pods.

    `text` says why it stands where it does, `would_fit` the smallest change that would let it in.
    `ahead` is the number of gangs that have their turn before it, null where it is not in line.
    `there`, `placed` and `bound` are pods: those that exist, those that have a node, those that
    are bound to it. `losses`: what is wrong on the nodes of bound pods.
    """

    id: str
    namespace: str
    name: str
    kind: str
    state: GangStateWord
    text: Annotated[str, default("")]
    would_fit: Annotated[str, default("")]
    ahead: Annotated[int | None, default(None)]
    priority: Annotated[int, default(0)]
    age_s: Annotated[float, default(0.0)]
    mode: Annotated[PlacementMode, default("")]
    within: Annotated[str | None, default(None)]
    pods: int
    gpus_per_pod: int
    group_size: Annotated[int | None, default(None)]
    there: Annotated[int, default(0)]
    placed: Annotated[int, default(0)]
    bound: Annotated[int, default(0)]
    losses: Annotated[list[LossDocument], default([])]


class GangPodDocument(TypedDict):
    """A pod of a gang; `node` is where it is or shall be, null while it has no place."""

    name: str
    rank: int
    group: int
    node: Annotated[str | None, default(None)]
    state: PodState


class TransitionDocument(TypedDict):
    """A gang came into `state` at `at` (RFC 3339), for the reason in `text`.

    `source` is `leader` where the answering master saw it, and `pod` where it is read from the
    condition of the gang's first pod, which an earlier leader wrote.
    """

    at: str
    state: GangStateWord
    text: str
    source: Annotated[str, one_of("leader", "pod")]


class GangDocument(GangSummary):
    """A gang with its pods by rank, and where its groups are: of pods that have a node.

    `selector`, `tolerations` and `exclude` say which nodes it may have, as a placement asks it.
    A required node affinity is in `exclude`: the nodes that it leaves out. `usage` is what the job
    is, `training` or `inference`, empty for neither; `hybrid` are those of its nodes that are of
    the hybrid pool, which such a job gets only where its groups fit on no others. `inside` is the
    group of the kind `within` that all of its nodes share, null where there is none.

    `history` are its last 20 changes of state, the oldest first. Those before `history_from`
    (RFC 3339), when the answering master came to lead, are not known but for one of a `pod`.
    """

    selector: Annotated[dict[str, str], default({})]
    tolerations: Annotated[list[TolerationDocument], default([])]
    exclude: Annotated[list[str], default([])]
    usage: Annotated[str, default("")]
    inside: Annotated[InsideDocument | None, default(None)]
    hybrid: Annotated[list[str], default([])]
    members: Annotated[list[GangPodDocument], default([])]
    groups: Annotated[list[PodGroupDocument], default([])]
    history: Annotated[list[TransitionDocument], default([])]
    history_from: Annotated[str, default("")]


class KeeperDocument(TypedDict):
    """A job or a request, and the GPUs that it keeps ahead.

    `kind` is `gang` (a job whose pods wait at our gate), `group` (one of the extender), `request`
    (a ProvisioningRequest) or `workload` (a Workload of Kueue).
    """

    kind: Annotated[str, one_of("gang", "group", "request", "workload")]
    name: str
    gpus: int


class AheadDocument(TypedDict):
    """What the jobs of a namespace keep of a type of GPUs for pods that are not made yet.

    `counted` of these GPUs count against `limit`, null for none, which `source` sets: GPUs that a
    queue of Kueue reserved do not count against a share. `for_s`: since so many seconds. `keepers`
    are at most 20, those that keep the most first.
    """

    namespace: str
    gpu_type: str
    gpus: int
    counted: int
    limit: Annotated[int | None, default(None)]
    source: str
    for_s: float
    keepers: list[KeeperDocument]


class OffDocument(TypedDict):
    """A part of the service that is switched off: what is off, and how it is switched on."""

    detail: str
    fix: str


class GangsDocument(TypedDict):
    """All gangs there are: those that wait in the order of their turns, then the others.

    `off` says that the service places none and how it would; null where it does. `ahead` is what
    namespaces keep for pods that are not made yet, the most first.
    """

    gangs: list[GangSummary]
    off: Annotated[OffDocument | None, default(None)]
    ahead: Annotated[list[AheadDocument], default([])]
