"""The answers of `/v1/placements` and `/v1/holds`: plans, refusals, what is reserved."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from topo.model.rest.document import default, one_of

PlacementMode = Annotated[str, one_of("required", "preferred")]
"""Whether a group of pods might be split where it did not fit whole."""


class DomainDocument(TypedDict):
    """A group of the tree; `path` ends with its own name."""

    kind: str
    name: str
    path: tuple[str, ...]


class InsideDocument(DomainDocument):
    """The group that all nodes share, of the kind that the job must be within.

    `fabric` is empty for one of the tree; of another fabric `path` is of the names there.
    """

    fabric: Annotated[str, default("")]


class PodsDocument(TypedDict):
    """A node, and how many pods are on it."""

    name: str
    pods: int


class PodGroupDocument(TypedDict):
    """One group of pods, nodes in rank order; more than one domain: it is split."""

    index: int
    tail: Annotated[bool, default(False)]
    domains: list[DomainDocument]
    nodes: list[PodsDocument]


class HoldSummary(TypedDict):
    """A hold; `expires_in_s` is null once it is committed. `nodes` is their number.

    `namespace`: whose pods take shares of it by their annotation, empty where none may. `gpus` is
    what it books: fewer than `pods` times `gpus_per_pod` where some pods of a job ask for less.
    """

    id: str
    key: Annotated[str | None, default(None)]
    namespace: Annotated[str, default("")]
    state: Annotated[str, one_of("held", "committed"), default("held")]
    hold_s: Annotated[float, default(0.0)]
    expires_in_s: Annotated[float | None, default(None)]
    age_s: Annotated[float, default(0.0)]
    generation: Annotated[int, default(0)]
    mode: Annotated[PlacementMode, default("")]
    gpu_type: Annotated[str, default("")]
    pods: int
    gpus_per_pod: int
    group_size: Annotated[int | None, default(None)]
    gpus: Annotated[int, default(0)]
    nodes: int


class LostDocument(TypedDict):
    """A node of a hold that is gone, closed or too small by now."""

    name: str
    why: str


class HoldDocument(HoldSummary):
    """A hold with its groups; `inside` is null without a kind, or if they share none by now."""

    inside: Annotated[InsideDocument | None, default(None)]
    groups: Annotated[list[PodGroupDocument], default([])]
    lost: Annotated[list[LostDocument], default([])]


class HoldsDocument(TypedDict):
    """All holds, the oldest first."""

    holds: list[HoldSummary]


class EndedDocument(TypedDict):
    """A hold that was given back."""

    id: str
    state: Literal["released"]


class RoomDocument(TypedDict):
    """How full a group is that the plan uses: free on open nodes before it, and taken by it."""

    path: tuple[str, ...]
    kind: Annotated[str, default("")]
    tier: Annotated[int, default(0)]
    free_gpus: int
    taken_gpus: int


class PlanExtras(TypedDict, total=False):
    """The keys of a plan that not every answer has.

    `replanned` only where groups were given: whether others had to be found, and why. `inside`
    only where the job must be within one group of a kind: the group that was chosen.
    """

    inside: Annotated[InsideDocument | None, default(None)]
    replanned: Annotated[bool | None, default(None)]
    replanned_because: Annotated[str | None, default(None)]
    hold: Annotated[HoldSummary | None, default(None)]


class FitsDocument(PlanExtras):
    """A plan with its proof: nodes by group in rank order, objective, bounds, one sentence each.

    `objective` in the order of comparison; `bounds` has the best value that a placement with the
    same numbers before could have, null where unknown. These, and `capacity`, are empty where a
    key's hold is told again.
    """

    feasible: Literal[True]
    generation: Annotated[int, default(0)]
    mode: Annotated[PlacementMode, default("")]
    gpu_type: Annotated[str, default("")]
    used_reserve: Annotated[bool, default(False)]
    groups: Annotated[list[PodGroupDocument], default([])]
    objective: Annotated[dict[str, int | dict[str, int]], default({})]
    bounds: Annotated[dict[str, int | None], default({})]
    certified: Annotated[dict[str, bool], default({})]
    explanation: Annotated[tuple[str, ...], default(())]
    capacity: Annotated[list[RoomDocument], default([])]
    run: Annotated[str, default("")]


class TolerationDocument(TypedDict):
    """A taint that all pods of a job bear, as Kubernetes defines it."""

    key: Annotated[str, default("")]
    operator: Annotated[str, default("Equal")]
    value: Annotated[str, default("")]
    effect: Annotated[str, default("")]


class JobDocument(TypedDict):
    """A job as `POST /v1/placements` takes it."""

    pods: int
    gpus_per_pod: int
    group_size: Annotated[int | None, default(None)]
    mode: Annotated[PlacementMode, default("required")]
    within: Annotated[str | None, default(None)]
    gpu_type: Annotated[str | None, default(None)]
    selector: Annotated[dict[str, str], default({})]
    tolerations: Annotated[list[TolerationDocument], default([])]
    exclude: Annotated[list[str], default([])]
    usage: Annotated[str | None, default(None)]


class AssumeDocument(TypedDict):
    """Nodes to see otherwise than they are, as `POST /v1/placements` takes them."""

    free: tuple[str, ...]
    down: tuple[str, ...]
    drain: tuple[str, ...]


class SuggestionDocument(TypedDict):
    """A change that would let the job in, tried out.

    Either a `request` to send instead, or nodes to repair or empty (`assume`) or `owners` of
    bookings to release, with the request as it is. `numbers` are those of the text.
    """

    kind: str
    text: str
    request: Annotated[JobDocument | None, default(None)]
    assume: Annotated[AssumeDocument | None, default(None)]
    owners: Annotated[tuple[str, ...], default(())]
    numbers: Annotated[dict[str, int], default({})]


class NoFitDocument(TypedDict):
    """No placement exists now: the test that failed, its numbers, changes that would help.

    `never`: it would not even fit if all nodes were open and empty; `largest_pods` is then the
    largest such job that would, 0 for none.
    """

    feasible: Literal[False]
    generation: Annotated[int, default(0)]
    mode: Annotated[PlacementMode, default("")]
    failed: Annotated[str, one_of("label", "gpus", "slots", "groups", "tail", "span")]
    shortfall: Annotated[dict[str, int], default({})]
    never: Annotated[bool, default(False)]
    largest_pods: Annotated[int | None, default(None)]
    would_fit: Annotated[list[SuggestionDocument], default([])]
    explanation: Annotated[tuple[str, ...], default(())]
    run: Annotated[str, default("")]


PlacementDocument = Annotated[FitsDocument | NoFitDocument, Field(discriminator="feasible")]
