"""What placement answers: a plan with its proof, or a refusal with its numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from topo.model.ids import GroupName, GroupPath, Kind, NodeName
from topo.placement.job.objective import Objective
from topo.placement.job.request import PlacementMode, Request

Pods = tuple[tuple[NodeName, int], ...]
"""Pods by node, in rank order: neighbours in rank are near each other in the tree."""


@dataclass(frozen=True, slots=True)
class DomainRef:
    """A group of the forest; `path` ends with its own name."""

    kind: Kind
    name: GroupName
    path: GroupPath


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """One group of pods. More than one of the domains it had to share: it is split."""

    index: int
    tail: bool
    pods: Pods
    domains: tuple[DomainRef, ...]


class GroupsOnNodes(NamedTuple):
    """The groups of a job, and the places of all of their nodes in the natural order of hosts."""

    groups: tuple[PlannedGroup, ...]
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rejected:
    """The best alternative that lost first at the objective named."""

    objective: str
    domains: tuple[GroupPath, ...]
    value: Objective


@dataclass(frozen=True, slots=True)
class Plan:
    """A placement, and what is known of better ones.

    `bounds` has the best value that a placement with the same numbers before could have, None
    where unknown. `certified` says for each name whether the value is proven the best possible
    given those before it. `mode` is the one used, `gpu_type` the one found.
    """

    request: Request
    mode: PlacementMode
    gpu_type: str
    groups: tuple[PlannedGroup, ...]
    objective: Objective
    bounds: Mapping[str, int | None]
    certified: Mapping[str, bool]
    rejected: tuple[Rejected, ...] = ()
    used_reserve: bool = False


class FitTest(StrEnum):
    """The tests of a request, in the order in which they are made."""

    LABEL = "label"
    GPUS = "gpus"
    SLOTS = "slots"
    GROUPS = "groups"
    TAIL = "tail"
    SPAN = "span"


@dataclass(frozen=True, slots=True)
class NoFit:
    """Why no placement exists now: the first test that failed and its numbers.

    `shortfall` has at least `needed`, `available` and `missing`, in the unit of the test.
    """

    request: Request
    failed: FitTest
    shortfall: Mapping[str, int]
    text: str
