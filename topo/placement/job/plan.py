"""What placement answers: a plan with its objective and its proof, or a refusal with its numbers.

The objective says what makes one placement better than another: one vector, compared from its first
number on. The order, with the reason for each in docs/placement.md: fewest split groups, fewest
groups of each tier from the top down, most whole groups left, leximax of what stays free, broken
before pristine, penalty, natural name.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from topo.model.ids import GroupName, GroupPath, Kind, NodeName
from topo.placement.job.request import PlacementMode, Request

Profile = tuple[tuple[int, int], ...]
"""How a placement changes the sorted list of free capacities: (capacity in groups, change in the
number of domains that have it), largest capacity first, no zero changes. Comparing two of them is
comparing the full sorted lists, since the lists differ nowhere else."""
Pods = tuple[tuple[NodeName, int], ...]
"""Pods by node, in rank order: neighbours in rank are near each other in the tree."""


@dataclass(frozen=True, slots=True)
class Objective:
    """The vector. `span` has the number of groups used of each tier, the top tier first.

    `whole_groups_left` counts free groups of the canonical size; `order` are the positions of the
    nodes in the natural order of the tree, the last tie-break.
    """

    split_groups: int
    span: tuple[int, ...]
    whole_groups_left: int
    profile_top: Profile
    profile_tier1: Profile
    newly_broken: int
    penalty: int
    order: tuple[int, ...]


@lru_cache(maxsize=64)
def objective_names(tiers: int) -> tuple[str, ...]:
    """Return the names of an objective over so many tiers, in the order of comparison, without
    `order`.

    `top_groups` is the topmost tier; with one tier it says the same as `tier1_groups`.
    """
    between = tuple(f"tier{tier}_groups" for tier in range(tiers - 1, 1, -1))
    return (
        "split_groups",
        "top_groups",
        *between,
        "tier1_groups",
        "whole_groups_left",
        "free_profile_top",
        "free_profile_tier1",
        "newly_broken",
        "penalty",
    )


def objective_values(objective: Objective) -> dict[str, Any]:
    """Return the same vector by name: numbers, and profiles as {capacity: change}."""
    span = objective.span if len(objective.span) > 1 else objective.span * 2
    numbers = (
        objective.split_groups,
        *span,
        objective.whole_groups_left,
        {str(capacity): change for capacity, change in objective.profile_top},
        {str(capacity): change for capacity, change in objective.profile_tier1},
        objective.newly_broken,
        objective.penalty,
    )
    return dict(zip(objective_names(len(objective.span)), numbers, strict=True))


def first_difference(one: Objective, other: Objective) -> tuple[str, int] | None:
    """Return the name at which two vectors part, and -1 if `one` is better there, 1 if `other` is.

    None: equal in all. A tie up to the names of the nodes is decided by `order`, called `order`.
    """
    tiers = len(one.span)
    pairs = [
        (one.split_groups, other.split_groups),
        *(zip(one.span, other.span, strict=True) if tiers > 1 else [(one.span, other.span)] * 2),
        (-one.whole_groups_left, -other.whole_groups_left),
        (-profile_difference(one.profile_top, other.profile_top)[1], 0),
        (-profile_difference(one.profile_tier1, other.profile_tier1)[1], 0),
        (one.newly_broken, other.newly_broken),
        (one.penalty, other.penalty),
        (one.order, other.order),
    ]
    for name, (mine, theirs) in zip((*objective_names(tiers), "order"), pairs, strict=True):
        if mine != theirs:
            return name, -1 if mine < theirs else 1
    return None


def profile_difference(one: Profile, other: Profile) -> tuple[int, int]:
    """Return the largest capacity at which two profiles differ, and how many more domains `one` has
    there.

    (0, 0) if they are equal.
    """
    mine, theirs = dict(one), dict(other)
    for capacity in sorted(mine.keys() | theirs.keys(), reverse=True):
        difference = mine.get(capacity, 0) - theirs.get(capacity, 0)
        if difference:
            return capacity, difference
    return 0, 0


class Share(NamedTuple):
    """What one domain of the group tier takes: whole groups, the tail or not, loose pods.

    Loose pods belong to groups that had to be split.
    """

    domain: int
    groups: int
    tail: bool = False
    loose: int = 0


@dataclass(frozen=True, slots=True)
class Allocation:
    """What each domain of the group tier takes, and the pods in each tier-1 domain."""

    shares: tuple[Share, ...]
    tier1_pods: dict[int, int]


def joined(allocations: Iterable[Allocation]) -> Allocation:
    """Return one allocation of several that share no domain."""
    shares: list[Share] = []
    tier1_pods: dict[int, int] = {}
    for allocation in allocations:
        shares += allocation.shares
        tier1_pods |= allocation.tier1_pods
    return Allocation(tuple(shares), tier1_pods)


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
    `gpu_type` is that of the nodes on which they were counted, None where this was no one type.
    """

    request: Request
    failed: FitTest
    shortfall: Mapping[str, int]
    text: str
    gpu_type: str | None = None
