"""By what rules objects are admitted, and what comes of one."""

from dataclasses import dataclass
from enum import StrEnum

from topo.gangs.admission.json_patch import Operation
from topo.gangs.terms import Way
from topo.gangs.words import Words
from topo.model.errors import Refusal
from topo.placement.job.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """`gpu_resources` are whole GPUs; `way` is that of jobs that name none."""

    words: Words
    gpu_resources: tuple[str, ...] = Policy().gpu_resources
    way: Way = Way.NOMINATION


class Result(StrEnum):
    """What became of an object, also the values of a metric's label."""

    STAMPED = "stamped"
    """A job whose pods are placed in groups."""
    GATED = "gated"
    """A pod that waits for its place."""
    LABELLED = "labelled"
    """A pod that knows its group, and that nobody holds back."""
    UNCHANGED = "unchanged"
    """It is as it should be, or no business of ours."""
    LEFT = "left"
    """Its user decides by other means; a warning says which."""
    INVALID = "invalid"
    """What is asked of its groups cannot be."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`patch` is RFC 6902; `refusal` says why an object is invalid. Warnings are one line each."""

    result: Result
    patch: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()
    refusal: Refusal | None = None


UNCHANGED = Outcome(Result.UNCHANGED)
