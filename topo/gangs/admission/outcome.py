"""The rules of admission, and the outcome for one object."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.group_tree import GroupTree
from topo.gangs.json_patch import Operation
from topo.gangs.machine.gang import GangId
from topo.gangs.native import Tiers
from topo.gangs.terms import Way
from topo.model.errors import Refusal
from topo.model.ids import Kind
from topo.placement.job.policy import Policy


@dataclass(frozen=True, slots=True)
class NamedGroup:
    """What is read of a PodGroup of Kubernetes: its annotations, and how many pods start it.

    `tree`: the groups of a CompositePodGroup that it is one of; the annotations are those of the
    root then. A refusal says why that tree is no gang.
    """

    annotations: Mapping[str, object]
    min_count: int
    tree: GroupTree | Refusal | None = None


@dataclass(frozen=True, slots=True)
class ClaimedGpus:
    """The GPUs of one claim of devices; `undecided`: what of it says no number, empty if all do."""

    gpus: int
    undecided: str = ""


def _nothing_known(_namespace: str, _name: str) -> None:
    return None


def _no_pods_known(_gang: GangId) -> int | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of one master.

    `gpu_resources` are the resources that count as whole GPUs; `way` is the default for jobs that
    name none. `takes_requests`: pods that consume a ProvisioningRequest of our class are placed.
    `by_links`: the review is of a namespace whose pods without a group get their nodes by the links
    between GPUs; the name of such a pod's gang ends with `token`.
    `holds_jobs`: jobs in queues of Kueue are held before their quota. Two rules are for jobs whose
    nodes Volcano chooses: `tiers` are the tiers of its HyperNodes; `unheeded` says why its
    scheduler ignores groups or may ignore them, and is empty if it honours them.

    Four are for PodGroups of Kubernetes: with `makes_groups` gangs of kube-scheduler get one; its
    name ends with `token`, which differs from review to review. `named_group` returns the PodGroup
    of a namespace and a name, None for one that is not known. `label_keys` are the labels of nodes
    by kind of group, for jobs whose nodes kube-scheduler chooses.

    Two are for pods whose groups Kueue has to keep whole. `native_group` returns how many pods a
    group of a gang has, 0 for a gang without such pods; `has_old_pods` whether pods of a Workload,
    by namespace and name, end while none of it runs. Both return None where that is not known.

    Two are for GPUs that pods claim: `claim_template` returns those of a claim that is made of a
    ResourceClaimTemplate, `shared_claim` those of a ResourceClaim, each by namespace and name; None
    for one that is not known.
    """

    keys: AnnotationKeys
    takes_requests: bool = False
    holds_jobs: bool = False
    by_links: bool = False
    gpu_resources: tuple[str, ...] = Policy().gpu_resources
    way: Way = Way.NOMINATION
    tiers: Tiers = ()
    unheeded: str = ""
    makes_groups: bool = False
    token: str = ""
    label_keys: Mapping[Kind, str] = field(default_factory=dict)
    named_group: Callable[[str, str], NamedGroup | None] = _nothing_known
    claim_template: Callable[[str, str], ClaimedGpus | None] = _nothing_known
    shared_claim: Callable[[str, str], ClaimedGpus | None] = _nothing_known
    native_group: Callable[[GangId], int | None] = _no_pods_known
    has_old_pods: Callable[[str, str], bool | None] = _nothing_known


class Result(StrEnum):
    """The outcome for an object, also the values of a metric's label."""

    STAMPED = "stamped"
    """A job whose pods are placed in groups."""
    GATED = "gated"
    """A pod that waits for its place."""
    GROUPED = "grouped"
    """A PodGroup whose groups Volcano places."""
    LABELLED = "labelled"
    """A pod that has its group and needs no gate."""
    UNCHANGED = "unchanged"
    """An object that needs no change, or is none of ours."""
    LEFT = "left"
    """A job whose user chooses nodes by other means; a warning says which."""
    INVALID = "invalid"
    """What is asked of its groups cannot be."""
    AWAITED = "awaited"
    """A pod whose PodGroup of Kubernetes, or a job whose claim template, is not known."""
    UNDECIDED = "undecided"
    """Which groups there are is not known yet, or which pods."""
    DENIED = "denied"
    """A change or a start, of a job or of one of its pods, that would split its groups."""


@dataclass(frozen=True, slots=True)
class AdmissionOutcome:
    """The outcome of admission: `patch` is RFC 6902, `refusal` says why an object is invalid.

    A warning is one line.
    """

    result: Result
    patch: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()
    refusal: Refusal | None = None


UNCHANGED = AdmissionOutcome(Result.UNCHANGED)
AWAITED = AdmissionOutcome(Result.AWAITED)
UNDECIDED = AdmissionOutcome(Result.UNDECIDED)
