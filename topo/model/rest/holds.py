"""`/v1/holds`: placements that are reserved for a time, kept, or given back."""

from typing import Annotated, Literal

from topo.model.rest.document import Document, one_of
from topo.model.rest.pod_groups import PlacementMode, PodGroupDocument


class HoldSummary(Document):
    """A hold; `expires_in_s` is null once it is committed. `nodes` is their number."""

    id: str
    key: str | None = None
    state: Annotated[str, one_of("held", "committed")] = "held"
    hold_s: float = 0.0
    expires_in_s: float | None = None
    age_s: float = 0.0
    generation: int = 0
    mode: PlacementMode = ""
    gpu_type: str = ""
    pods: int
    gpus_per_pod: int
    group_size: int | None = None
    gpus: int = 0
    nodes: int


class LostDocument(Document):
    """A node of a hold that is gone, closed or too small by now."""

    name: str
    why: str


class HoldDocument(HoldSummary):
    """A hold with its groups."""

    groups: tuple[PodGroupDocument, ...] = ()
    lost: tuple[LostDocument, ...] = ()


class HoldsDocument(Document):
    """All holds, the oldest first."""

    holds: tuple[HoldSummary, ...]


class EndedDocument(Document):
    """A hold that was given back."""

    id: str
    state: Literal["released"]
