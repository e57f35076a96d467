"""A placement as numbers, before pods are given to nodes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


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
