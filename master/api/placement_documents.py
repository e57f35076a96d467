"""The JSON documents of placements, holds and fragmentation as types.

What comes in is checked against these, strictly; what goes out is built by `topo.publish` and
checked against them in the tests.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from topo.placement.booking.holds import MAX_KEY_CHARS
from topo.placement.job.request import MAX_GPUS_PER_POD, MAX_PODS

MAX_SELECTOR = 64
MAX_NODES = 20_000
_MAX_KEY = 317
_MAX_VALUE = 63
"""Of labels, as Kubernetes allows: a prefix of 253, a slash, a name of 63; a value of 63."""

Name = Annotated[str, Field(min_length=1, max_length=253)]
LabelKey = Annotated[str, Field(min_length=1, max_length=_MAX_KEY)]
LabelValue = Annotated[str, Field(max_length=_MAX_VALUE)]
Nodes = Annotated[list[Name], Field(max_length=MAX_NODES)]


class _Asked(BaseModel):
    """What people send: nothing unknown, numbers are numbers."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True
    )


class TolerationBody(_Asked):
    """As Kubernetes defines it; an empty key with `Exists` tolerates every taint."""

    key: Annotated[str, Field(max_length=_MAX_KEY)] = ""
    """the taint's key"""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Equal or Exists"""
    value: LabelValue = ""
    """the taint's value"""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    """NoSchedule, PreferNoSchedule or NoExecute; empty is every effect"""


class AssumeBody(_Asked):
    """Nodes to see otherwise than they are; nothing is changed."""

    free: Nodes = []
    """nodes on which nothing runs and which are open"""
    down: Nodes = []
    """nodes that are not ready"""
    drain: Nodes = []
    """nodes that take no new pods"""


class JobBody(_Asked):
    """A job: identical pods in identical groups, and which nodes they may use."""

    pods: Annotated[int, Field(ge=1, le=MAX_PODS)]
    """the number of pods, a whole number from 1 to 1000000"""
    gpus_per_pod: Annotated[int, Field(ge=1, le=MAX_GPUS_PER_POD)]
    """GPUs of each pod, a whole number from 1 to 128"""
    group_size: Annotated[int, Field(ge=1, le=MAX_PODS * MAX_GPUS_PER_POD)] | None = None
    """GPUs of each group that must be near each other, a multiple of gpus_per_pod"""
    mode: Literal["required", "preferred"] = "required"
    """required, or preferred: groups may then be split where they do not fit whole"""
    within: Name | None = None
    """the kind of group that all of the job must share one of, such as switchbox"""
    gpu_type: Annotated[str, Field(max_length=256)] | None = None
    """the model of GPU; without it the types are tried one after the other, "" is that of nodes
    whose model nobody says"""
    selector: Annotated[dict[LabelKey, LabelValue], Field(max_length=MAX_SELECTOR)] = {}
    """labels that the nodes must have, at most 64, keys up to 317 and values up to 63 characters"""
    tolerations: Annotated[list[TolerationBody], Field(max_length=MAX_SELECTOR)] = []
    """taints that the pods bear, at most 64"""
    exclude: Nodes = []
    """names of nodes that are not to be used"""
    hold_s: Annotated[float, Field(gt=0)] | None = None
    """seconds for which the placement is reserved"""
    key: Annotated[str, Field(min_length=1, max_length=MAX_KEY_CHARS)] | None = None
    """a text of up to 255 characters: who asks again with it gets the same hold"""


class PlacementBody(JobBody):
    """What `POST /v1/placements` takes."""

    assume: AssumeBody | None = None
    """what-if: nodes to see as free, down or drain"""


class PodsBody(_Asked):
    """So many pods on this node."""

    name: Name
    """a node's name"""
    pods: Annotated[int, Field(ge=1, le=MAX_PODS)]
    """the number of pods on it"""


class GroupBody(_Asked):
    """A group of an earlier answer; what is not about its nodes is told anew."""

    nodes: Annotated[list[PodsBody], Field(min_length=1, max_length=MAX_PODS)]
    """the nodes in rank order"""
    index: int | None = None
    """ignored: groups come in their order"""
    tail: bool | None = None
    """ignored: the last group is the tail if it is smaller"""
    domains: list[dict[str, object]] | None = None
    """ignored: it is told anew"""


class HoldBody(JobBody):
    """What `POST /v1/holds` takes: a job, and possibly the groups that an earlier answer gave."""

    hold_s: Annotated[float, Field(gt=0)]
    """seconds for which the placement is reserved"""
    generation: Annotated[int, Field(ge=0)] | None = None
    """the generation of the answer that the groups are from"""
    groups: Annotated[list[GroupBody], Field(min_length=1, max_length=MAX_PODS)] | None = None
    """the groups of an earlier answer, taken if they still fit"""


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DomainDocument(_Document):
    """A group of the tree; `path` ends with its own name."""

    kind: str
    name: str
    path: list[str]


class PodsDocument(_Document):
    """So many pods on this node."""

    name: str
    pods: int


class PodGroupDocument(_Document):
    """One group of pods, nodes in rank order; more than one domain: it is split."""

    index: int
    tail: bool
    domains: list[DomainDocument]
    nodes: list[PodsDocument]


class HoldSummary(_Document):
    """A hold; `expires_in_s` is None once it is committed."""

    id: str
    key: str | None
    state: Literal["held", "committed"]
    hold_s: float
    expires_in_s: float | None
    age_s: float
    generation: int
    mode: Literal["required", "preferred"]
    gpu_type: str
    pods: int
    gpus_per_pod: int
    group_size: int | None
    gpus: int
    nodes: int


class LostDocument(_Document):
    """A node of a hold that is gone, closed or too small by now."""

    name: str
    why: str


class HoldDocument(HoldSummary):
    """A hold with its groups."""

    groups: list[PodGroupDocument]
    lost: list[LostDocument]


class HoldsDocument(_Document):
    """All holds, the oldest first."""

    holds: list[HoldSummary]


class EndedDocument(_Document):
    """A hold that was given back."""

    id: str
    state: Literal["released"]


class RoomDocument(_Document):
    """How full a group is that the plan uses: free on open nodes before it, and taken by it."""

    path: list[str]
    kind: str
    tier: int
    free_gpus: int
    taken_gpus: int


class FitsDocument(_Document):
    """A plan with its proof: nodes by group in rank order, objective, bounds, one sentence each.

    `objective` in the order of comparison; `bounds` has the best value that any placement could
    have, None where unknown. These, and `capacity`, are empty where a key's hold is told again.
    `replanned` only where groups were given: whether others had to be found, and why.
    """

    feasible: Literal[True]
    generation: int
    run: str
    mode: Literal["required", "preferred"]
    gpu_type: str
    used_reserve: bool
    groups: list[PodGroupDocument]
    objective: dict[str, int | dict[str, int]]
    bounds: dict[str, int | None]
    certified: dict[str, bool]
    explanation: list[str]
    capacity: list[RoomDocument]
    hold: HoldSummary | None = None
    replanned: bool | None = None
    replanned_because: str | None = None


class SuggestionDocument(_Document):
    """A change that would let the job in, tried out.

    Either a `request` to send instead, or nodes to repair or empty (`assume`) or `owners` of
    bookings to release, with the request as it is. `numbers` are those of the text.
    """

    kind: str
    text: str
    request: JobBody | None
    assume: AssumeBody | None
    owners: list[str]
    numbers: dict[str, int]


class NoFitDocument(_Document):
    """No placement exists now: the test that failed, its numbers, changes that would help."""

    feasible: Literal[False]
    generation: int
    run: str
    mode: Literal["required", "preferred"]
    failed: Literal["label", "gpus", "slots", "groups", "tail", "span"]
    shortfall: dict[str, int]
    would_fit: list[SuggestionDocument]
    explanation: list[str]


PlacementDocument = Annotated[FitsDocument | NoFitDocument, Field(discriminator="feasible")]


class ShareDocument(_Document):
    """Jobs of one shape and their weight among all."""

    pods: int
    gpus_per_pod: int
    group_size: int | None
    weight: float


class TierDocument(_Document):
    """The groups of one tier and kind; `profile` has pairs (free whole groups, how many have so
    many).
    """

    tier: int
    kind: str
    domains: int
    pristine: int
    partly_used: int
    full: int
    closed: int
    whole_groups: int
    profile: list[tuple[int, int]]


class LargestDocument(_Document):
    """The most pods that fit now in groups of a size; `tier` None: no group could ever hold it."""

    group_size: int
    gpus_per_pod: int
    pods: int
    gpus: int
    tier: int | None


class TypeDocument(_Document):
    """What is free of one GPU type; `integrity` is the share of free GPUs in whole groups."""

    gpu_type: str
    nodes: int
    open_nodes: int
    gpus: int
    free_gpus: int
    node_gpus: int
    group_gpus: int
    whole_groups: int
    integrity: float
    tiers: list[TierDocument]
    largest: list[LargestDocument]
    unusable_gpus: float


class FragmentationDocument(_Document):
    """How broken up the free capacity is; `mix_observed`: jobs were seen, not assumed."""

    generation: int
    run: str
    types: list[TypeDocument]
    mix: list[ShareDocument]
    mix_observed: bool
