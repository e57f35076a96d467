"""Request bodies: a job and how to place it, or an operator's decision about a node.

The descriptions are those of the refusals, too: "pods is the number of pods, …".
"""

from typing import Annotated, Literal

from pydantic import Field

from topo.model.limits import (
    MAX_KEY_CHARS,
    MAX_NAMESPACE_CHARS,
    MAX_PODS,
    NAMESPACE,
    OWN_KEYS,
)
from topo.model.machine import MAX_GPUS
from topo.model.rest.document import Body

MAX_SELECTOR = 64
MAX_NODES = 20_000
MAX_REASON_CHARS = 256
_MAX_KEY = 317
_MAX_VALUE = 63
"""Of labels, as Kubernetes allows: a prefix of 253, a slash, a name of 63; a value of 63."""

Name = Annotated[str, Field(min_length=1, max_length=253)]
LabelKey = Annotated[str, Field(min_length=1, max_length=_MAX_KEY)]
LabelValue = Annotated[str, Field(max_length=_MAX_VALUE)]
Nodes = Annotated[list[Name], Field(max_length=MAX_NODES)]
Seconds = Annotated[float, Field(gt=0)]
HELD_FOR = "seconds for which the placement is reserved"


class TolerationBody(Body):
    """As Kubernetes defines it; an empty key with `Exists` tolerates every taint."""

    key: str = Field("", max_length=_MAX_KEY, description="the taint's key")
    operator: Literal["Equal", "Exists"] = Field("Equal", description="Equal or Exists")
    value: LabelValue = Field("", description="the taint's value")
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = Field(
        "", description="NoSchedule, PreferNoSchedule or NoExecute; empty is every effect"
    )


class AssumeBody(Body):
    """Nodes to see otherwise than they are; nothing is changed."""

    free: Nodes = Field(
        default_factory=list, description="nodes on which nothing runs and which are open"
    )
    down: Nodes = Field(default_factory=list, description="nodes that are not ready")
    drain: Nodes = Field(default_factory=list, description="nodes that take no new pods")


class JobBody(Body):
    """Identical pods in identical groups, which nodes they may use, and what is to be reserved."""

    pods: int = Field(
        ge=1, le=MAX_PODS, description="the number of pods, a whole number from 1 to 1000000"
    )
    gpus_per_pod: int = Field(
        ge=1, le=MAX_GPUS, description="GPUs of each pod, a whole number from 1 to 128"
    )
    group_size: Annotated[int, Field(ge=1, le=MAX_PODS * MAX_GPUS)] | None = Field(
        None,
        description="GPUs of each group that must be near each other, a multiple of gpus_per_pod",
    )
    mode: Literal["required", "preferred"] = Field(
        "required",
        description="required, or preferred: groups may then be split where they do not fit whole",
    )
    within: Name | None = Field(
        None,
        description="the kind of group that all of the job must share one of, such as switchbox, "
        "or leaf of another fabric than the tree's",
    )
    gpu_type: Annotated[str, Field(max_length=256)] | None = Field(
        None,
        description="the model of GPU; without it the types are tried one after the other, "
        '"" is that of nodes whose model nobody says',
    )
    selector: Annotated[dict[LabelKey, LabelValue], Field(max_length=MAX_SELECTOR)] = Field(
        default_factory=dict,
        description="labels that the nodes must have, at most 64, keys up to 317 and values "
        "up to 63 characters",
    )
    tolerations: Annotated[list[TolerationBody], Field(max_length=MAX_SELECTOR)] = Field(
        default_factory=list, description="taints that the pods bear, at most 64"
    )
    exclude: Nodes = Field(
        default_factory=list, description="names of nodes that are not to be used"
    )
    usage: Literal["training", "inference"] | None = Field(
        None,
        description="what the job is, training or inference: it gets nodes of that pool, of the "
        "hybrid one, or of none",
    )
    explain: bool = Field(
        False,
        description="whether the answer has sentences on why a plan is as it is, true or false",
    )
    hold_s: Seconds | None = Field(None, description=HELD_FOR)
    key: Annotated[str, Field(min_length=1, max_length=MAX_KEY_CHARS)] | None = Field(
        None,
        description="a text of up to 255 characters: who asks again with it gets the same hold; "
        f"not {', '.join(OWN_KEYS)}…, as the master's own keys begin",
    )
    namespace: Annotated[str, Field(max_length=MAX_NAMESPACE_CHARS, pattern=NAMESPACE)] | None = (
        Field(
            None,
            description="with hold_s, the namespace of Kubernetes whose pods take shares of the "
            "hold by their annotation, up to 63 lower case letters, digits and '-'; else none do",
        )
    )


class PlacementBody(JobBody):
    """What `POST /v1/placements` takes."""

    assume: AssumeBody | None = Field(
        None, description="what-if: nodes to see as free, down or drain"
    )


class PodsBody(Body):
    """A node, and how many pods are on it."""

    name: Name = Field(description="a node's name")
    pods: int = Field(ge=1, le=MAX_PODS, description="the number of pods on it")


class GroupBody(Body):
    """A group of an earlier answer; only its nodes count."""

    nodes: list[PodsBody] = Field(
        min_length=1, max_length=MAX_PODS, description="the nodes in rank order"
    )
    index: int | None = Field(None, description="ignored: groups come in their order")
    tail: bool | None = Field(
        None, description="ignored: the last group is the tail if it is smaller"
    )
    domains: list[dict[str, object]] | None = Field(None, description="ignored: it is told anew")


class HoldBody(JobBody):
    """What `POST /v1/holds` takes: a job, and possibly the groups that an earlier answer gave."""

    hold_s: Seconds = Field(description=HELD_FOR)
    generation: Annotated[int, Field(ge=0)] | None = Field(
        None, description="the generation of the answer that the groups are from"
    )
    groups: Annotated[list[GroupBody], Field(min_length=1, max_length=MAX_PODS)] | None = Field(
        None, description="the groups of an earlier answer, taken if they still fit"
    )


class DecisionBody(Body):
    """An operator's decision about a node, or about one link of it."""

    reason: str = Field("", max_length=MAX_REASON_CHARS, description="why, for whoever comes later")
    link: str = Field(
        "", max_length=MAX_REASON_CHARS, description="the link, as `topo node` names it; else all"
    )
