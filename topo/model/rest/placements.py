"""The answers of `/v1/placements` and `/v1/holds`: plans, refusals, what is reserved."""

from typing import Annotated, Literal

from pydantic import Field

from topo.model.rest.document import Document, one_of, optional
from topo.model.rest.jobs import AssumeBody, Job

PlacementMode = Annotated[str, one_of("required", "preferred")]
"""Whether a group of pods might be split where it did not fit whole."""


class DomainDocument(Document):
    """A group of the tree; `path` ends with its own name."""

    kind: str
    name: str
    path: tuple[str, ...]


class PodsDocument(Document):
    """So many pods on this node."""

    name: str
    pods: int


class PodGroupDocument(Document):
    """One group of pods, nodes in rank order; more than one domain: it is split."""

    index: int
    tail: bool = False
    domains: tuple[DomainDocument, ...]
    nodes: tuple[PodsDocument, ...]


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


class RoomDocument(Document):
    """How full a group is that the plan uses: free on open nodes before it, and taken by it."""

    path: tuple[str, ...]
    kind: str = ""
    tier: int = 0
    free_gpus: int
    taken_gpus: int


class FitsDocument(Document):
    """A plan with its proof: nodes by group in rank order, objective, bounds, one sentence each.

    `objective` in the order of comparison; `bounds` has the best value that a placement with the
    same numbers before could have, null where unknown. These, and `capacity`, are empty where a
    key's hold is told again.
    `replanned` only where groups were given: whether others had to be found, and why.
    """

    feasible: Literal[True]
    generation: int = 0
    mode: PlacementMode = ""
    gpu_type: str = ""
    used_reserve: bool = False
    groups: tuple[PodGroupDocument, ...] = ()
    objective: dict[str, int | dict[str, int]] = Field(default_factory=dict)
    bounds: dict[str, int | None] = Field(default_factory=dict)
    certified: dict[str, bool] = Field(default_factory=dict)
    explanation: tuple[str, ...] = ()
    capacity: tuple[RoomDocument, ...] = ()
    replanned: bool | None = optional(None)
    replanned_because: str | None = optional(None)
    run: str = ""
    hold: HoldSummary | None = optional(None)


class SuggestionDocument(Document):
    """A change that would let the job in, tried out.

    Either a `request` to send instead, or nodes to repair or empty (`assume`) or `owners` of
    bookings to release, with the request as it is. `numbers` are those of the text.
    """

    kind: str
    text: str
    request: Job | None = None
    assume: AssumeBody | None = None
    owners: tuple[str, ...] = ()
    numbers: dict[str, int] = Field(default_factory=dict)


class NoFitDocument(Document):
    """No placement exists now: the test that failed, its numbers, changes that would help.

    `never`: it would not even fit if all nodes were open and empty; `largest_pods` is then the
    largest such job that would, 0 for none.
    """

    feasible: Literal[False]
    generation: int = 0
    mode: PlacementMode = ""
    failed: Annotated[str, one_of("label", "gpus", "slots", "groups", "tail", "span")]
    shortfall: dict[str, int] = Field(default_factory=dict)
    never: bool = False
    largest_pods: int | None = None
    would_fit: tuple[SuggestionDocument, ...] = ()
    explanation: tuple[str, ...] = ()
    run: str = ""


PlacementDocument = Annotated[FitsDocument | NoFitDocument, Field(discriminator="feasible")]
