"""Which whole groups a job should get: the one entry to placement.

Result: the best plan on any of the GPU types that the job may have. Types compete under the
objective: reserves left alone first, then the vector. Where two types are equal the operator's
order decides, before the names of the nodes do.

Why it is right: a job never mixes types, and takes nothing from the types that it does not use. So
the changes that placements make, in domains and free capacities, compare as they do on one type.
Where a plan is proven the best on its type, the other types could still have a better one: they
take part in its bounds, and what is proven of it is no more than what is proven of each of them.

Cost: a search on each type that has slots enough, and whose bound on the number of groups is not
above what was found.

Example: a job of one group of 8 that may be split. A has 7 free slots in one dragonfly and 5 in
another, B has 8. With A first in the order the job still gets B: no group of it is split there.

On one GPU type. Result: a candidate with every group whole, or one that splits few groups; inside
one group of the kind that the job names; with the reserves left alone where a placement is found
that does.

Where the kind is of another fabric, whole groups are looked for in some of its groups, one by one
(`search/other_groups.py`), and the best place wins. It is measured over all nodes that the job may
use: a dragonfly that lies across two leaves is broken, whichever half the job takes.

Cost: one search (`whole_groups.py`, `split_groups.py`), one more for each way to keep a reserve
that is tried, and one for each group of the kind that is tried one by one.

Example: a job of 2 groups of 8 inside one switchbox, of which A has 8, 7 and 1 free slots, B 8 and
8. Whole groups are looked for in the slots of both switchboxes: B holds the job. If B had 4, 4, 4
and 4, none would; then A and B are tried one by one, and A wins: it splits 1 group of 2, B both.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import itemgetter

import numpy as np

from topo.model.errors import BadInputError
from topo.model.ids import Kind
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.layout import Counts, Layout
from topo.placement.capacity.other_fabrics import RoomElsewhere
from topo.placement.job.plan import FitTest, NoFit, Objective, Plan, PlannedGroup
from topo.placement.job.request import PlacementMode, Request, flaw
from topo.placement.quality.certificate import bounds_of, could_be_better, not_proven_worse
from topo.placement.quality.measure import (
    Candidate,
    Key,
    Proven,
    candidate_of,
    effect_of,
    objective_of_planned,
)
from topo.placement.search.assign_nodes import planned_groups
from topo.placement.search.equal_domains import with_least_penalty
from topo.placement.search.other_groups import (
    MOST_TRIED,
    able_groups,
    most_slots_in_one,
    slots_outside,
)
from topo.placement.search.policies import (
    Reserves,
    reserve_taken_from,
    use_extra_domains,
    ways_to_keep,
)
from topo.placement.split_groups import MOST_SPLIT_STEPS, best_split, improve_split
from topo.placement.view import (
    TAIL_CANNOT_FIT,
    FreeView,
    impossible_span,
    no_group_so_large,
    short_of_groups,
    short_of_slots,
    short_of_span,
    type_in_words,
    unknown_kind,
    view_of,
)
from topo.placement.whole_groups import best_whole

_TESTS = tuple(FitTest)
_SPLIT_TRIES = 24
"""Groups of the kind asked for in which a job that must be split is tried."""
_LEAST_STEPS = 5_000
"""Steps of exact search in each of them."""


@dataclass(frozen=True)
class SearchResult:
    """A candidate, and what it was found on.

    `view` is what that search was allowed to use, `bounding` what any search might have used.
    `split` counts the groups that are split.
    """

    found: Candidate
    view: FreeView
    bounding: FreeView
    mode: PlacementMode
    split: int = 0
    used_reserve: bool = False

    @cached_property
    def vector(self) -> Key:
        """Split groups, then the objective up to the domains that are newly broken."""
        return (self.split, *_key_in(self.view, self.found)[:5])


_Search = Callable[[FreeView, Request], SearchResult | None]
_Refusal = tuple[FreeView, NoFit]
"""What a job lacks on the nodes of one type, and what was free there."""


def place(capacity: CapacityView, request: Request) -> Plan | NoFit:
    """Return the best placement of a job now, or the first test that it fails.

    Equal capacities and requests give equal answers. A flawed request raises `BadInputError` with
    the field and the fix. A job with a usage gets hybrid nodes only where the others have no room
    for it; the request of its plan says which nodes were looked at.
    """
    refusal = flaw(request)
    if refusal is not None:
        raise BadInputError(refusal)
    *before, last = request.by_pool()
    plans = (_place(capacity, each) for each in before)
    plan = next((each for each in plans if isinstance(each, Plan)), None)
    return plan or _place(capacity, last)


def _place(capacity: CapacityView, request: Request) -> Plan | NoFit:
    failed = unknown_kind(capacity, request)
    if failed is not None:
        return failed
    views: list[FreeView] = []
    refusals: list[_Refusal] = []
    for gpu_type in capacity.types_for(request.eligible) or ("",):
        view = view_of(capacity, request, gpu_type)
        refused = _refused_at_once(capacity, request, view)
        if refused is None:
            views.append(view)
        else:
            refusals.append((view, refused))
    for search in _searches(request.mode):
        results = _results(capacity, request, views, search)
        if results:
            return _plan(capacity, request, results)
    return _nearest([(view, _refused_by_search(request, view)) for view in views], refusals)


def _nearest(searched: Sequence[_Refusal], at_once: Sequence[_Refusal]) -> NoFit:
    """Return the refusal on the type on which the job came furthest.

    Of those that failed the same test it is one after a search, which says more, then that on the
    type with most free GPUs, then one on a type with a name.
    """

    def nearness(refusal: _Refusal) -> tuple[int, int, bool]:
        view, refused = refusal
        has_name = bool(view.slots.eligibility.gpu_type)
        return _TESTS.index(refused.failed), view.slots.free_gpus, has_name

    best = [max(some, key=nearness) for some in (searched, at_once) if some]
    view, refused = max(best, key=lambda each: _TESTS.index(each[1].failed))
    refusals = (*searched, *at_once)
    gpu_type, text = view.slots.eligibility.gpu_type or "", refused.text
    if sum(other.slots.nodes > 0 for other, _ in refusals) > 1:
        text += f", counted on {type_in_words(gpu_type)} alone: all GPUs of a job are of one type"
    return replace(refused, text=text, gpu_type=gpu_type)


def fits(capacity: CapacityView, request: Request) -> bool:
    """Return whether `place` would give a plan, by counting; O(domains) for each GPU type.

    For callers that need no plan: finding the best one costs much more.
    """
    types = capacity.types_for(request.eligible)
    return any(could_place(view_of(capacity, request, gpu_type), request) for gpu_type in types)


def _refused_at_once(capacity: CapacityView, request: Request, view: FreeView) -> NoFit | None:
    """Return the refusal of a job that no search on these nodes could place, or None."""
    refused = short_of_slots(request, view.shape, view.slots) or no_group_so_large(
        capacity, request, view
    )
    if refused is not None:
        return refused
    impossible = impossible_span(capacity, request, view)
    if impossible is None:
        return None
    return _short_of_groups(request, view) or impossible


def _refused_by_search(request: Request, view: FreeView) -> NoFit:
    """Return the refusal of a job that a search on these nodes did not place."""
    short = _short_of_groups(request, view)
    if short is not None:
        return short
    outside = slots_outside(view, view.others) if view.others is not None else 0
    return short_of_span(request, most_slots(view, request), outside)


def _short_of_groups(request: Request, view: FreeView) -> NoFit | None:
    required = request.mode is PlacementMode.REQUIRED
    return short_of_groups(request, view) if required else None


def _results(
    capacity: CapacityView, request: Request, views: Sequence[FreeView], search: _Search
) -> list[SearchResult]:
    """Return what was found on the types that could have the best placement, the best first."""
    reserves = capacity.policy.reserves
    if len(views) == 1:
        found = _within_reserves(reserves, views[0], request, search)
        return [found] if found is not None else []
    ranked: list[tuple[tuple[bool, Key], SearchResult]] = []
    least: tuple[bool, Key] | None = None
    for view in views:
        if least and not least[0] and not could_be_better(view, least[1]):
            continue
        found = _within_reserves(reserves, view, request, search)
        if found is not None:
            rank = found.used_reserve, found.vector
            least = min(least or rank, rank)
            ranked.append((rank, found))
    ranked.sort(key=itemgetter(0))
    equals = [found for rank, found in ranked if rank == least]
    if len(equals) > 1 and any(each.view.slots.penalized for each in equals):
        equals.sort(key=lambda each: _groups(capacity, each)[1].penalty)
    return equals + [found for rank, found in ranked if rank != least]


def _groups(
    capacity: CapacityView, result: SearchResult
) -> tuple[tuple[PlannedGroup, ...], Objective]:
    view = result.view
    allocation = with_least_penalty(view, result.found.allocation)
    planned = planned_groups(capacity, view, allocation)
    known = result.found.effect if allocation is result.found.allocation else None
    effect = known or effect_of(view, allocation.tier1_pods)
    return planned.groups, objective_of_planned(capacity, view, planned, effect)


def _plan(capacity: CapacityView, request: Request, results: Sequence[SearchResult]) -> Plan:
    """Make the plan of the first result; it is proven only as far as the others are no better."""
    best = results[0]
    groups, objective = _groups(capacity, best)
    proven, rivals = best.found.proven, []
    for other in results[1:] if len(results) > 1 else ():
        level = not_proven_worse(other.vector, other.found.proven, best.vector)
        if level is not None:
            proven = min(proven, level)
            rivals.append(other.bounding)
    split = best.mode is PlacementMode.PREFERRED
    views = best.bounding, *(rivals if proven < Proven.NEWLY_BROKEN else ())
    bounds, certified = bounds_of(views, objective, proven, split=split)
    return Plan(
        request=request,
        mode=best.mode,
        gpu_type=best.view.slots.eligibility.gpu_type or "",
        groups=groups,
        objective=objective,
        bounds=bounds,
        certified=certified,
        used_reserve=best.used_reserve,
    )


def find_best(view: FreeView, request: Request) -> SearchResult | None:
    """Return the best result with all groups whole, or else the best split if the job may be.

    It may take from the reserves.
    """
    found = (search(view, request) for search in _searches(request.mode))
    return next(filter(None, found), None)


def _searches(mode: PlacementMode) -> tuple[_Search, ...]:
    """Return the searches to try in order: whole groups, then split ones if that is allowed."""
    return (_whole, _split)[: 1 + (mode is PlacementMode.PREFERRED)]


def could_place(view: FreeView, request: Request) -> bool:
    """Return whether any search would find a placement, by counting; O(domains).

    Counting decides it, since groups share nothing but the slots of their domains. A job that may
    be split needs slots alone, in one group of the kind that it must be within.
    """
    if request.mode is PlacementMode.PREFERRED:
        return most_slots(view, request) >= request.pods
    if not view.group_can_fit:
        return False
    if view.others is not None:
        return able_groups(view, view.others).size > 0
    if request.within is not None:
        parts = _inside_kind(view, request)
        return any(bool((part.holds(tier) >= view.shape.m).any()) for tier, part in parts)
    tier = view.shape.tier
    groups, tail_loss = view.groups(tier), view.losses(tier) if view.shape.r else np.zeros(1)
    return bool(groups.sum() - tail_loss.min(initial=TAIL_CANNOT_FIT) >= view.shape.m)


def most_slots(view: FreeView, request: Request) -> int:
    """Return the most free slots that the job may use: in one group of its kind, or in all."""
    if request.within is None:
        return int(view.free.sum())
    if view.others is not None:
        return most_slots_in_one(view, view.others)
    inside = _free_inside_by_tier(view.layout, view.free, request.within)
    return max((int(view.layout.rolled(free, tier).max()) for tier, free in inside), default=0)


def _within_reserves(
    reserves: Reserves, view: FreeView, request: Request, search: _Search
) -> SearchResult | None:
    """Return the best result that leaves the reserves alone, or else the best result.

    If the best result takes from a reserve, groups of it are kept back and the search repeated.
    Which groups we keep is a choice, and another might be better, so nothing is proven of that
    result. The bounds of all placements hold for it too.
    """
    best = search(view, request)
    if (
        best is None
        or not reserves
        or reserve_taken_from(view, best.found.allocation.tier1_pods, reserves) is None
    ):
        return best
    others = [search(view.only(free), request) for free in ways_to_keep(view, reserves)]
    other = min(filter(None, others), key=lambda each: each.vector, default=None)
    if other is None:
        return replace(best, used_reserve=True)
    return replace(other, found=replace(other.found, proven=Proven.NONE), bounding=best.bounding)


def _whole(view: FreeView, request: Request) -> SearchResult | None:
    """Return the best result that splits no group."""
    if not view.group_can_fit:
        return None
    if request.within is None:
        found = best_whole(view, None)
        if found is None:
            return None
        if view.shape.extra_domains:
            found = use_extra_domains(view, found, partial(best_whole, limit=None))
        return SearchResult(found, view, view, PlacementMode.REQUIRED)
    if view.others is not None:
        return _whole_elsewhere(view, view.others)
    answers = [(best_whole(part, tier), part) for tier, part in _inside_kind(view, request)]
    placed = [(found, part) for found, part in answers if found is not None]
    if not placed:
        return None
    best, part = min(placed, key=lambda each: _key_in(each[1], each[0]))
    found = replace(best, proven=min(found.proven for found, _ in placed))
    return SearchResult(found, part, _bounding(view, request), PlacementMode.REQUIRED)


def _whole_elsewhere(view: FreeView, room: RoomElsewhere) -> SearchResult | None:
    """Return the best result of those in the most promising groups of another fabric."""
    able = able_groups(view, room)
    parts = [view.inside(room, number) for number in able[:MOST_TRIED].tolist()]
    answers = [(best_whole(part, None), part) for part in parts]
    placed = [(found, part) for found, part in answers if found is not None]
    if not placed:
        return None
    best, part = min(placed, key=lambda each: _key_in(each[1], each[0]))
    all_tried = len(able) == len(placed)
    proven = min(_proven_in_part(found) for found, _ in placed) if all_tried else Proven.NONE
    return SearchResult(replace(best, proven=proven), part, view, PlacementMode.REQUIRED)


def _proven_in_part(found: Candidate) -> Proven:
    """Return what is proven of a candidate that may use only some nodes of a domain.

    Counting holds there; what searches prove of profiles goes by domains that are used whole or
    not. In one tier-1 domain all are compared.
    """
    return (
        found.proven if len(found.allocation.tier1_pods) == 1 else min(found.proven, Proven.SPANS)
    )


def _bounding(view: FreeView, request: Request) -> FreeView:
    """Return the slots that the job may use at all, or more."""
    if request.within is None or view.others is not None:
        return view
    return view.only(_free_inside(view.layout, view.free, request.within))


def _inside_kind(view: FreeView, request: Request) -> Iterator[tuple[int, FreeView]]:
    """Yield each tier that groups of the kind have, with a view of the slots inside them."""
    assert request.within is not None, "asked for limited jobs only"  # noqa: S101 - for mypy
    for tier, free in _free_inside_by_tier(view.layout, view.free, request.within):
        if tier >= view.shape.tier or not view.group_can_fit:
            yield tier, view.only(free)
        elif not view.shape.m:
            yield tier, view.only(free).whole_in(tier)


def _key_in(view: FreeView, found: Candidate) -> Key:
    """Return the key of a candidate; it is counted now if nothing was compared with it before."""
    return found.key or candidate_of(view, found.allocation).key


def _split(view: FreeView, request: Request) -> SearchResult | None:
    """Return a result with the fewest split groups found: the most whole groups, then the rest.

    Of several groups of the kind that the job may stand in those count that split the fewest.
    """
    parts = [*_split_views(view, request)]
    groups = view.shape.m + (view.shape.r > 0)
    placed = [(best_split(part), part) for part in parts]
    counted = [
        (groups - sum(share.groups + share.tail for share in found.shares), found, part)
        for found, part in placed
        if found is not None
    ]
    least = min((split for split, _, _ in counted), default=0)
    equal = [(found, part) for split, found, part in counted if split == least]
    if not equal:
        return None
    steps = max(MOST_SPLIT_STEPS // len(equal), _LEAST_STEPS)
    improved = [
        (improve_split(part, candidate_of(part, found), steps), part) for found, part in equal
    ]
    best, part = min(improved, key=lambda each: each[0].key)
    all_tried = len(parts) < _SPLIT_TRIES
    proven = min(found.proven for found, _ in improved) if all_tried else Proven.NONE
    if view.others is not None:
        proven = min(proven, _proven_in_part(best))
    found = replace(best, proven=proven)
    return SearchResult(found, part, _bounding(view, request), PlacementMode.PREFERRED, least)


def _split_views(view: FreeView, request: Request) -> Iterator[FreeView]:
    """Yield the view, or single groups of the kind asked for, the most whole groups first."""
    if request.within is None:
        yield view
        return
    if view.others is not None:
        able = able_groups(view, view.others, split=True)[:_SPLIT_TRIES].tolist()
        yield from (view.inside(view.others, number) for number in able)
        return
    for tier, part in _inside_kind(view, request):
        free_slots = part.layout.rolled(part.free, tier)
        able = np.flatnonzero(free_slots >= part.shape.pods)
        whole = part.groups(tier)[able] if part.group_can_fit else able * 0
        best = np.lexsort((able, free_slots[able], -np.minimum(whole, part.shape.m)))[:_SPLIT_TRIES]
        firsts = part.layout.firsts[tier]
        for domain in able[best].tolist():
            free = part.free * 0
            inside = slice(firsts[domain], firsts[domain + 1])
            free[inside] = part.free[inside]
            yield part.only(free)


def _free_inside_by_tier(layout: Layout, free: Counts, kind: Kind) -> Iterator[tuple[int, Counts]]:
    """Yield each tier that groups of a kind have, with the free slots inside of them."""
    for tier, domains in layout.of_kind(kind).items():
        inside = free * 0
        inside[domains] = free[domains]
        yield tier, inside


def _free_inside(layout: Layout, free: Counts, kind: Kind) -> Counts:
    """Return the free slots inside groups of a kind, of any tier."""
    inside = free * 0
    for _, some in _free_inside_by_tier(layout, free, kind):
        inside += some
    return inside
