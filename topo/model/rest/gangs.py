"""The answers of `/v1/gangs`: jobs whose pods go together, where each stands and why."""

from typing import Annotated

from pydantic import Field

from topo.model.conditions.gang_states import GangState
from topo.model.rest.document import Document, one_of
from topo.model.rest.placements import PlacementMode, PodGroupDocument

GangStateWord = Annotated[str, one_of(*GangState)]
"""The state of a gang; docs/how-placement-reaches-the-scheduler.md says what each means."""
PodState = Annotated[str, one_of("gated", "nominated", "open", "bound", "ending")]
"""How far a pod of a gang is: behind its gate, nominated there, free to be bound, bound, ending."""


class GangSummary(Document):
    """A gang without its pods.

    `text` says why it stands where it does, `would_fit` the smallest change that would let it in.
    `ahead` is the number of gangs that have their turn before it, null where it is not in line.
    `there`, `placed` and `bound` are pods: those that exist, those that have a node, those that
    are bound to it.
    """

    id: str
    namespace: str
    name: str
    kind: str
    state: GangStateWord
    text: str = ""
    would_fit: str = ""
    ahead: int | None = None
    priority: int = 0
    age_s: float = 0.0
    mode: PlacementMode = ""
    within: str | None = None
    pods: int
    gpus_per_pod: int
    group_size: int | None = None
    there: int = 0
    placed: int = 0
    bound: int = 0


class GangPodDocument(Document):
    """A pod of a gang; `node` is where it is or shall be, null while it has no place."""

    name: str
    rank: int
    group: int
    node: str | None = None
    state: PodState


class TolerationDocument(Document):
    """A taint that all pods of a gang bear, as Kubernetes defines it."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class GangDocument(GangSummary):
    """A gang with its pods by rank, and where its groups are: of pods that have a node.

    `selector`, `tolerations` and `exclude` say which nodes it may have, as a placement asks it.
    A required node affinity is in `exclude`: the nodes that it leaves out.
    """

    selector: dict[str, str] = Field(default_factory=dict)
    tolerations: tuple[TolerationDocument, ...] = ()
    exclude: tuple[str, ...] = ()
    members: tuple[GangPodDocument, ...] = ()
    groups: tuple[PodGroupDocument, ...] = ()


class OffDocument(Document):
    """A part of the service that is switched off: what is off, and how it is switched on."""

    detail: str
    fix: str


class GangsDocument(Document):
    """All gangs there are: those that wait in the order of their turns, then the others.

    `off` says that the service places none and how it would; null where it does.
    """

    gangs: tuple[GangSummary, ...]
    off: OffDocument | None = None
