"""The values of a placement in the objective, and how full it makes the groups.

`whole_groups_left` and both profiles are counted over the job's own eligible slots. The profile of
the top tier counts canonical groups; `profile_tier1` counts slots, in the domains in which a
canonical group lives (tier 1 wherever those are large enough): smaller pieces matter to no one.

Example: dragonflies of two nodes, a slot each, with 2 2 1 slots free, and nobody's pods in the
first two. A canonical group is two slots. One pod may go to the first or to the third:

    to the first   1 2 1   one group lost, slots 2→1: (2, -1), (1, +1), one dragonfly newly broken
    to the third   2 2 0   none lost,      slots 1→0: (1, -1), (0, +1), none: it was in use before

Both use one dragonfly; the third is better, since no group is lost.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, NamedTuple

from topo.model.ids import NODE, GroupPath
from topo.model.rest.placements import RoomDocument
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.job.plan import Allocation, GroupsOnNodes, Objective, Plan, Pods, Profile
from topo.placement.job.request import Eligibility, Request
from topo.placement.view import FreeView, view_of

_ONE_GPU = 1


class Effect(NamedTuple):
    """What taking slots changes, number by number of the objective.

    `span`: domains used, the top tier first. `lost`: canonical groups. `top`, `low`: the profiles
    of the top tier and of slots. `broken`: tier-1 domains newly broken. `penalty`: the least of so
    many pods there.
    """

    span: tuple[int, ...]
    lost: int
    top: Profile
    low: Profile
    broken: int
    penalty: int


def measure(capacity: CapacityView, request: Request, groups: Sequence[Pods]) -> Objective:
    """Return the vector of a placement that is not booked yet; O(nodes + domains of the canonical
    tier).

    All nodes must be known and of one GPU type.
    """
    host = capacity.host(groups[0][0][0])
    gpu_type = host.gpu_type if host else ""
    return objective_of(capacity, view_of(capacity, request, gpu_type), groups)


def objective_of(capacity: CapacityView, view: FreeView, groups: Sequence[Pods]) -> Objective:
    """Return `measure` where the numbers of the job are at hand."""
    of = view.layout.of[view.shape.tier]
    tier1_pods: dict[int, int] = {}
    places: list[int] = []
    split = 0
    for group in groups:
        here = capacity.located(group, places)
        for at, pods in here.items():
            tier1_pods[at] = tier1_pods.get(at, 0) + pods
        split += not view.group_can_fit or (len(here) > 1 and len({of[at] for at in here}) > 1)
    order = tuple(sorted(set(places)))
    penalty = _penalty(capacity, view, groups)
    effect = effect_of(view, tier1_pods)
    return _objective(view, effect, split=split, penalty=penalty, order=order)


def objective_of_planned(
    capacity: CapacityView, view: FreeView, planned: GroupsOnNodes, effect: Effect
) -> Objective:
    """Return the same of groups whose domains and places are known, as is what they change."""
    groups = planned.groups
    split = sum([not view.group_can_fit or len(group.domains) > 1 for group in groups])
    penalty = _penalty(capacity, view, (group.pods for group in groups))
    return _objective(view, effect, split=split, penalty=penalty, order=planned.order)


def _objective(
    view: FreeView, effect: Effect, *, split: int, penalty: int, order: tuple[int, ...]
) -> Objective:
    return Objective(
        split_groups=split,
        span=effect.span,
        whole_groups_left=view.whole_before - effect.lost,
        profile_top=effect.top,
        profile_tier1=effect.low,
        newly_broken=effect.broken,
        penalty=penalty,
        order=order,
    )


def effect_of(view: FreeView, tier1_pods: Mapping[int, int]) -> Effect:
    """Return what taking so many slots of each tier-1 domain changes; O(domains x tiers)."""
    layout, shape, slots = view.layout, view.shape, view.slots
    span = []
    for tier in range(layout.tiers, 1, -1):
        of = layout.of[tier]
        span.append(len({of[at] for at in tier1_pods}))
    span.append(len(tier1_pods))
    low: dict[int, int] = {}
    tops: dict[int, int] = {}
    lost, canonical = 0, shape.canonical
    free_slots, outer = _canonical(view, tier1_pods)
    for domain, taken in outer.items():
        before = free_slots[domain]
        after = before - taken
        low[before] = low.get(before, 0) - 1
        low[after] = low.get(after, 0) + 1
        # A canonical group is lost when a multiple of its size is crossed.
        gone = before // canonical - after // canonical
        if gone:
            lost += gone
            top = layout.of[layout.tiers][layout.firsts[shape.canonical_tier][domain]]
            tops[top] = tops.get(top, 0) + gone
    free, busy = slots.free_list, slots.busy
    broken = sum([taken < free[at] and not busy[at] for at, taken in tier1_pods.items()])
    penalties = view.penalties
    penalty = sum(penalties.of(*each) for each in tier1_pods.items()) if penalties else 0
    return Effect(tuple(span), lost, _top_profile(view, tops), profile_of(low), broken, penalty)


def best_of(view: FreeView, allocations: Iterable[Allocation]) -> Allocation | None:
    """Return the best of some allocations that split equally many groups; a single one is not
    measured.
    """
    found = list(allocations)
    # Measuring costs more than finding: it is left out if there is nothing to compare.
    if len(found) <= 1:
        return found[0] if found else None
    return min(found, key=lambda each: key_of(effect_of(view, each.tier1_pods), each))


def _canonical(
    view: FreeView, tier1_pods: Mapping[int, int]
) -> tuple[Sequence[int], Mapping[int, int]]:
    """Return free slots and slots taken by domain of the canonical tier."""
    tier = view.shape.canonical_tier
    if tier == 1:
        return view.slots.free_list, tier1_pods
    of = view.layout.of[tier]
    taken: dict[int, int] = {}
    for at, pods in tier1_pods.items():
        taken[of[at]] = taken.get(of[at], 0) + pods
    return view.free_canonical.data, taken


def leximax_key(profile: Profile) -> tuple[tuple[int, int, int], ...]:
    """Return a key under which the profile that leaves more, the largest capacities first, is
    smaller.
    """
    # The largest capacity at which two profiles differ decides: losing domains there is worse,
    # gaining some is better, and nothing (0) lies between.
    key = [(1, at, -by) if by < 0 else (-1, -at, -by) for at, by in profile]
    key.append((0, 0, 0))
    return tuple(key)


Key = tuple[Any, ...]


def key_of(effect: Effect, allocation: Allocation) -> Key:
    """Return the order of allocations that split equally many groups: less is better, no two are
    equal.
    """
    return (
        effect.span,
        effect.lost,
        leximax_key(effect.top),
        leximax_key(effect.low),
        effect.broken,
        effect.penalty,
        sorted(allocation.tier1_pods),
    )


def _top_profile(view: FreeView, tops: Mapping[int, int]) -> Profile:
    if not tops:
        return ()
    changes: dict[int, int] = {}
    groups = view.tops_before.data
    for domain, gone in tops.items():
        before = groups[domain]
        changes[before] = changes.get(before, 0) - 1
        changes[before - gone] = changes.get(before - gone, 0) + 1
    return profile_of(changes)


def profile_of(changes: Mapping[int, int]) -> Profile:
    """Return changes of the number of domains by their capacity, without those that cancel out."""
    return tuple(sorted([(at, by) for at, by in changes.items() if by], reverse=True))


def _penalty(capacity: CapacityView, view: FreeView, groups: Iterable[Pods]) -> int:
    if not view.slots.penalized:
        return 0
    return sum(capacity.penalty(group) for group in groups)


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

    `effect` is what the key says, where it was counted.
    """

    allocation: Allocation
    key: Key
    proven: Proven = Proven.NONE
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
    if one is None:
        return candidate
    # What is better than a proven candidate equals it as far as that is proven.
    return candidate.with_proof(one.proven) if candidate.key < one.key else one


def group_usage(capacity: CapacityView, plan: Plan) -> list[RoomDocument]:
    """Return a row for every group that a node of the plan is in, in the order of the tree, parents
    first.

    GPUs are those of the plan's type; nodes whose taints the job would have to tolerate are not
    counted. `capacity` is the one that the plan was made on. O(nodes of the plan x tiers).
    """
    layout = capacity.layout()
    by_domain = pods_by_domain(capacity, (group.pods for group in plan.groups))
    slots = capacity.slots(Eligibility(gpu_type=plan.gpu_type), plan.gpu_type, _ONE_GPU)
    rows: dict[GroupPath, tuple[int, int, RoomDocument]] = {}
    for tier in range(1, layout.tiers + 1):
        taken: Counter[int] = Counter()
        for at, pods in by_domain.items():
            taken[layout.of[tier][at]] += pods * plan.request.gpus_per_pod
        for domain, gpus in taken.items():
            ref = layout.ref(tier, domain)
            if ref.kind == NODE or ref.path in rows:
                continue
            first, last = layout.firsts[tier][domain], layout.firsts[tier][domain + 1]
            room = RoomDocument(
                path=ref.path,
                kind=ref.kind,
                tier=tier,
                free_gpus=int(slots.free[first:last].sum()),
                taken_gpus=gpus,
            )
            rows[ref.path] = first, -tier, room
    return [room for _, _, room in sorted(rows.values(), key=lambda row: row[:2])]


def pods_by_domain(capacity: CapacityView, groups: Iterable[Pods]) -> Counter[int]:
    """Return the pods of some groups by tier-1 domain; O(nodes of the groups)."""
    by_domain: Counter[int] = Counter()
    for group in groups:
        by_domain.update(capacity.located(group, []))
    return by_domain
