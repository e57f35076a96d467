"""An allocation beside its place in the order of the objective, and what is proven of it."""

from dataclasses import dataclass, replace
from enum import IntEnum

from topo.placement.job.plan import Allocation
from topo.placement.quality.measure import Effect, Key, effect_of, key_of
from topo.placement.view.free_view import FreeView


class Proven(IntEnum):
    """Up to which number of the objective nothing better exists; each includes those before it."""

    NONE = 0
    SPANS = 1
    PROFILE_TOP = 2
    PROFILE_TIER1 = 3
    NEWLY_BROKEN = 4


@dataclass(frozen=True, slots=True)
class Candidate:
    """An allocation that may become the plan. Of two candidates the one with the lesser key wins.

    `ties` are tier-1 domains that could take the whole job equally well, but for the penalty of
    their nodes. It is filled only where some node has a penalty. `effect` is what the key says,
    where it was counted.
    """

    allocation: Allocation
    key: Key
    proven: Proven = Proven.NONE
    ties: tuple[int, ...] = ()
    effect: Effect | None = None

    def with_proof(self, proven: Proven) -> "Candidate":
        """Return the same candidate, proven at least so far."""
        return self if proven <= self.proven else replace(self, proven=proven)


def candidate_of(view: FreeView, allocation: Allocation) -> Candidate:
    """Return an allocation with its key; O(tier-1 domains used x tiers)."""
    effect = effect_of(view, allocation.tier1_pods)
    return Candidate(allocation, key_of(effect, allocation), effect=effect)


def better_of(view: FreeView, one: Candidate | None, other: Allocation | None) -> Candidate | None:
    """Return the better of a candidate and an allocation, either of which may be missing."""
    if other is None:
        return one
    candidate = candidate_of(view, other)
    return candidate if one is None or candidate.key < one.key else one
