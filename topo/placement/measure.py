"""The objective of a placement: one function for plans, baselines and oracles.

`whole_groups_left` and both profiles are counted over the job's own eligible slots. The profile of
the top tier counts canonical groups; `profile_tier1` counts slots, in the domains in which a
canonical group lives (tier 1 wherever those are large enough): smaller pieces matter to no one.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from topo.model.ids import NodeName
from topo.placement.capacity import Capacity
from topo.placement.objective import Objective, Profile
from topo.placement.plan import Pods
from topo.placement.request import Request
from topo.placement.shape import Shape, shape_of
from topo.placement.slots import Slots
from topo.placement.structure import Layout


@dataclass(frozen=True, slots=True)
class Effect:
    """What taking slots in some cells changes; `span` the top tier first, `lost` whole groups."""

    span: tuple[int, ...]
    lost: int
    top: Profile
    low: Profile
    broken: int


def measure(capacity: Capacity, request: Request, groups: Sequence[Pods]) -> Objective:
    """The vector of a placement that is not booked yet; O(nodes + domains of the canonical tier).

    All nodes must be known and of one GPU type.
    """
    layout = capacity.layout()
    gpu_type = _gpu_type(capacity, groups)
    shape = shape_of(capacity, request, gpu_type)
    slots = capacity.slots(request.eligible, gpu_type, request.gpus_per_pod)
    of = layout.of[shape.whole_in]
    cells: dict[int, int] = defaultdict(int)
    places: set[int] = set()
    penalty = split = 0
    for group in groups:
        domains = set()
        for name, pods in group:
            at, place = capacity.position(name)
            cells[at] += pods
            places.add(place)
            domains.add(of[at])
            penalty += pods * _penalty(capacity, name) if slots.marked else 0
        split += not shape.tier or len(domains) > 1
    effect = effect_of(layout, shape, slots, cells)
    return Objective(
        split_groups=split,
        span=effect.span,
        whole_groups_left=whole_groups(layout, shape, slots) - effect.lost,
        profile_top=effect.top,
        profile_tier1=effect.low,
        newly_broken=effect.broken,
        penalty=penalty,
        order=tuple(sorted(places)),
    )


def whole_groups(layout: Layout, shape: Shape, slots: Slots) -> int:
    """Canonical groups that are free before the job comes."""
    return int((layout.rolled(slots.free, shape.canonical_tier) // shape.canonical).sum())


def effect_of(layout: Layout, shape: Shape, slots: Slots, cells: Mapping[int, int]) -> Effect:
    """What taking so many slots of each cell changes; O(cells x tiers + domains they are in)."""
    span = []
    for tier in range(layout.tiers, 1, -1):
        of = layout.of[tier]
        span.append(len({of[at] for at in cells}))
    span.append(len(cells))
    low: Counter[int] = Counter()
    tops: dict[int, int] = defaultdict(int)
    lost, canonical = 0, shape.canonical
    for domain, taken in _gathered(layout, shape.canonical_tier, cells).items():
        before = _free(layout, shape.canonical_tier, slots, domain)
        low[before] -= 1
        low[before - taken] += 1
        gone = before // canonical - (before - taken) // canonical
        if gone:
            lost += gone
            first = layout.firsts[shape.canonical_tier][domain]
            tops[layout.of[layout.tiers][first]] += gone
    return Effect(
        span=tuple(span),
        lost=lost,
        top=_top_profile(layout, shape, slots, tops),
        low=_profile(low),
        broken=sum(
            int(not slots.busy[at] and taken < slots.free[at]) for at, taken in cells.items()
        ),
    )


def leximax_key(profile: Profile) -> tuple[tuple[int, int, int], ...]:
    """A key under which the profile that leaves more, the largest capacities first, is smaller."""
    return (
        *((1, capacity, -change) if change < 0 else (-1, -capacity, -change)
          for capacity, change in profile),
        (0, 0, 0),
    )  # fmt: skip


def _gathered(layout: Layout, tier: int, cells: Mapping[int, int]) -> Mapping[int, int]:
    if tier == 1:
        return cells
    of = layout.of[tier]
    domains: dict[int, int] = defaultdict(int)
    for at, taken in cells.items():
        domains[of[at]] += taken
    return domains


def _free(layout: Layout, tier: int, slots: Slots, domain: int) -> int:
    firsts = layout.firsts[tier]
    return int(slots.free[firsts[domain] : firsts[domain + 1]].sum())


def _top_profile(layout: Layout, shape: Shape, slots: Slots, tops: Mapping[int, int]) -> Profile:
    changes: Counter[int] = Counter()
    for domain, gone in tops.items():
        before = groups_in(layout, shape, slots, domain)
        changes[before] -= 1
        changes[before - gone] += 1
    return _profile(changes)


def groups_in(layout: Layout, shape: Shape, slots: Slots, domain: int) -> int:
    """Canonical groups that are free in a domain of the top tier."""
    tier = shape.canonical_tier
    bounds = layout.below(layout.tiers, tier) if tier < layout.tiers else None
    first, last = (bounds[domain], bounds[domain + 1]) if bounds else (domain, domain + 1)
    return sum(_free(layout, tier, slots, inner) // shape.canonical for inner in range(first, last))


def _profile(changes: Counter[int]) -> Profile:
    return tuple(sorted(((c, d) for c, d in changes.items() if d), reverse=True))


def _penalty(capacity: Capacity, name: NodeName) -> int:
    host = capacity.host(name)
    return host.penalty if host else 0


def _gpu_type(capacity: Capacity, groups: Sequence[Pods]) -> str:
    host = capacity.host(groups[0][0][0])
    return host.gpu_type if host else ""
