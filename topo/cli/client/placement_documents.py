"""The placement documents of the master as types, checked once at the border.

The shapes are those of `POST /v1/placements`, `/v1/holds` and `GET /v1/fragmentation` (see the
master's `/openapi.json`). What only makes a picture richer may be absent.
"""

from typing import Any, NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypedDict  # pydantic needs it before Python 3.12


class DomainDoc(TypedDict):
    """A group of the tree; `path` ends with its own name."""

    kind: str
    name: str
    path: list[str]


class PodsDoc(TypedDict):
    """How many pods of a group one node gets."""

    name: str
    pods: int


class PodGroupDoc(TypedDict):
    """One group of pods with its nodes in rank order."""

    index: int
    tail: NotRequired[bool]
    domains: list[DomainDoc]
    nodes: list[PodsDoc]


class RoomDoc(TypedDict):
    """GPUs under one group of the tree: free before the plan, and taken by it."""

    path: list[str]
    free_gpus: int
    taken_gpus: int


class SuggestionDoc(TypedDict):
    """One change that would let the job in, verified by the master."""

    text: str


class LostDoc(TypedDict):
    """A node of a hold that is not as it was, and why."""

    name: str
    why: str


class HoldDoc(TypedDict):
    """A reservation; without `expires_in_s` it lasts until it is released.

    `nodes` is their number; `groups` and `lost` come when one hold is asked for.
    """

    id: str
    key: NotRequired[str | None]
    state: NotRequired[str]
    expires_in_s: NotRequired[float | None]
    pods: NotRequired[int]
    gpus_per_pod: NotRequired[int]
    group_size: NotRequired[int | None]
    gpu_type: NotRequired[str]
    nodes: NotRequired[int]
    groups: NotRequired[list[PodGroupDoc]]
    lost: NotRequired[list[LostDoc]]


class PlacementDoc(TypedDict):
    """The answer of `POST /v1/placements`: a plan with its proof, or a refusal with its numbers."""

    feasible: bool
    generation: NotRequired[int]
    mode: NotRequired[str]
    gpu_type: NotRequired[str]
    groups: NotRequired[list[PodGroupDoc]]
    objective: NotRequired[dict[str, Any]]
    bounds: NotRequired[dict[str, Any]]
    certified: NotRequired[dict[str, bool]]
    explanation: NotRequired[list[str]]
    hold: NotRequired[HoldDoc | None]
    used_reserve: NotRequired[bool]
    capacity: NotRequired[list[RoomDoc]]
    failed: NotRequired[str]
    shortfall: NotRequired[dict[str, int]]
    text: NotRequired[str]
    would_fit: NotRequired[list[SuggestionDoc]]


class HoldsDoc(TypedDict):
    """The answer of `GET /v1/holds`."""

    holds: list[HoldDoc]


class TierDoc(TypedDict):
    """The groups of one tier and kind, by how much of them is used."""

    tier: int
    kind: str
    domains: int
    pristine: int
    partly_used: int
    full: int
    closed: int
    whole_groups: int


class LargestJobDoc(TypedDict):
    """The most pods that fit now in groups of `group_size` GPUs; no tier: never, even if empty."""

    group_size: int
    gpus_per_pod: int
    pods: int
    gpus: int
    tier: NotRequired[int | None]


class TypeDoc(TypedDict):
    """What is free of one GPU type, and how whole it is."""

    gpu_type: str
    nodes: int
    open_nodes: int
    gpus: int
    free_gpus: int
    group_gpus: int
    whole_groups: int
    integrity: float
    unusable_gpus: float
    tiers: list[TierDoc]
    largest: list[LargestJobDoc]


class FragmentationDoc(TypedDict):
    """The answer of `GET /v1/fragmentation`."""

    generation: NotRequired[int]
    types: list[TypeDoc]


PLACEMENT = TypeAdapter(PlacementDoc)
HOLD = TypeAdapter(HoldDoc)
HOLDS = TypeAdapter(HoldsDoc)
FRAGMENTATION = TypeAdapter(FragmentationDoc)
