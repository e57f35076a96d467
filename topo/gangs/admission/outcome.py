"""The rules of admission, and the outcome for one object."""

from dataclasses import dataclass
from enum import StrEnum

from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.json_patch import Operation
from topo.gangs.native import Tiers
from topo.gangs.terms import Way
from topo.model.errors import Refusal
from topo.placement.job.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of one master.

    `gpu_resources` are the resources that count as whole GPUs; `way` is the default for jobs that
    name none. Two rules are for jobs whose nodes Volcano chooses: `tiers` are the tiers of its
    HyperNodes; `unheeded` says why its scheduler ignores groups or may ignore them, and is empty if
    it honours them.
    """

    keys: AnnotationKeys
    gpu_resources: tuple[str, ...] = Policy().gpu_resources
    way: Way = Way.NOMINATION
    tiers: Tiers = ()
    unheeded: str = ""


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
    UNDECIDED = "undecided"
    """Which groups there are is not known yet."""


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
UNDECIDED = AdmissionOutcome(Result.UNDECIDED)
