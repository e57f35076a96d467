"""Which whole groups a job should get: the one entry to placement."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from topo.model.errors import BadInputError
from topo.placement.capacity.capacity import Capacity
from topo.placement.job.allocation import Allocation
from topo.placement.job.plan import FitTest, NoFit, Plan
from topo.placement.job.request import PlacementMode, Request, flaw
from topo.placement.quality.certificate import bounds_of
from topo.placement.quality.measure import Key, objective_of
from topo.placement.search.assign_nodes import penalty_of, planned_groups
from topo.placement.search.candidate import Candidate, Proven, candidate_of
from topo.placement.search.fit_tests import (
    impossible_span,
    no_group_so_large,
    short_of_groups,
    short_of_slots,
    short_of_span,
    unknown_kind,
)
from topo.placement.search.free_view import FreeView
from topo.placement.search.job_shape import shape_of
from topo.placement.search.one_domain import in_tier1_domain
from topo.placement.search.reserve import Reserves, taken_from, without_reserves
from topo.placement.search.split_groups import best_split
from topo.placement.search.whole_groups import best_whole
from topo.placement.search.within import inside_any, limited

_TESTS = tuple(FitTest)
_SPLIT_TRIES = 24
"""Groups of the kind asked for in which a job that must be split is tried."""


def place(capacity: Capacity, request: Request) -> Plan | NoFit:
    """The best placement of a job now, or the first test that it fails.

    Equal state and request give an equal answer. Never changes the capacity. A flawed request
    raises `BadInputError` with the field and the fix.
    """
    refusal = flaw(request)
    if refusal is not None:
        raise BadInputError(refusal)
    failed = unknown_kind(capacity, request)
    if failed is not None:
        return failed
    wished = request.eligible.gpu_type
    types = (wished,) if wished is not None else capacity.gpu_types() or ("",)
    for gpu_type in types:
        found = _place_on(capacity, request, gpu_type)
        if isinstance(found, Plan):
            return found
        if failed is None or _TESTS.index(found.failed) > _TESTS.index(failed.failed):
            failed = found
    assert failed is not None, "there is always a type to try"  # noqa: S101
    return failed


def _place_on(capacity: Capacity, request: Request, gpu_type: str) -> Plan | NoFit:
    view = view_of(capacity, request, gpu_type)
    refused = short_of_slots(request, view.shape, view.slots) or no_group_so_large(request, view)
    if refused:
        return refused
    if request.within is None or impossible_span(capacity, request, view) is None:
        found = searched(view, request, capacity.policy.reserves)
        if found is not None:
            return _plan(capacity, request, gpu_type, found)
    if request.mode is PlacementMode.REQUIRED:
        refused = short_of_groups(request, view)
    refused = refused or impossible_span(capacity, request, view)
    return refused or short_of_span(request, _largest_inside(view, request))


def view_of(capacity: Capacity, request: Request, gpu_type: str) -> FreeView:
    """What a search for the job sees on nodes of one type."""
    shape = shape_of(capacity, request, gpu_type)
    slots = capacity.slots(request.eligible, gpu_type, request.gpus_per_pod)
    layout = capacity.layout()
    if shape.tier:
        return FreeView(layout, shape, slots, slots.free)
    widest = replace(shape, tier=shape.tiers)
    return FreeView(layout, widest, slots, slots.free, group_can_fit=False)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A candidate, and what it was found on.

    `view` is what that search was allowed to use, `bounding` what any search might have used.
    """

    found: Candidate
    view: FreeView
    bounding: FreeView
    mode: PlacementMode
    used_reserve: bool = False


Search = Callable[[FreeView, Request], SearchResult | None]


def searched(view: FreeView, request: Request, reserves: Reserves = ()) -> SearchResult | None:
    """The best result with all groups whole; else, if the job may be split, the best split."""
    searches: tuple[Search, ...] = (_whole, _split)
    for search in searches if request.mode is PlacementMode.PREFERRED else searches[:1]:
        answer = _within_reserves(reserves, view, request, search)
        if answer is not None:
            return answer
    return None


def _within_reserves(
    reserves: Reserves, view: FreeView, request: Request, search: Search
) -> SearchResult | None:
    """The best result if it leaves the reserves alone, else one that does, else the best result.

    For the second one we choose which groups of a reserve stay free. Another choice might be
    better, so nothing is proven of it. The bounds of all placements hold for it too.
    """
    best = search(view, request)
    if best is None or taken_from(view, best.found.allocation.tier1_pods, reserves) is None:
        return best
    free = without_reserves(view.layout, view.shape, view.slots.free, reserves)
    other = search(view.only(free), request)
    if other is None:
        return replace(best, used_reserve=True)
    return replace(other, found=replace(other.found, proven=Proven.NONE), bounding=best.bounding)


def _whole(view: FreeView, request: Request) -> SearchResult | None:
    """The best result that splits no group."""
    if not view.group_can_fit:
        return None
    if request.within is None:
        found = best_whole(view, None)
        return SearchResult(found, view, view, PlacementMode.REQUIRED) if found else None
    views = [*_inside_kind(view, request)]
    answers = [(best_whole(part, tier), part) for tier, part in views]
    best = min(
        ((found, part) for found, part in answers if found),
        key=lambda each: _key(each[1], each[0]),
        default=None,
    )
    if best is None:
        return None
    proven = best[0].proven if len(views) == 1 else Proven.NONE
    bounding = _bounding(view, request)
    return SearchResult(replace(best[0], proven=proven), best[1], bounding, PlacementMode.REQUIRED)


def _bounding(view: FreeView, request: Request) -> FreeView:
    """The slots that the job may use at all."""
    if request.within is None:
        return view
    return view.only(inside_any(view.layout, view.free, request.within))


def _inside_kind(view: FreeView, request: Request) -> Iterator[tuple[int, FreeView]]:
    """For each tier that groups of the kind asked for have, the slots inside such groups."""
    assert request.within is not None, "asked for limited jobs only"  # noqa: S101
    for tier, free in limited(view.layout, view.free, request.within):
        if tier >= view.shape.tier or not view.group_can_fit:
            yield tier, view.only(free)


def _key(view: FreeView, found: Candidate) -> Key:
    return found.key or candidate_of(view, found.allocation).key


def _split(view: FreeView, request: Request) -> SearchResult | None:
    """A result that splits few groups: as many whole ones as are found, then the rest."""
    bounding = _bounding(view, request)
    best: tuple[Key, SearchResult] | None = None
    for part in _split_views(view, request):
        allocation = best_split(part)
        if allocation is not None:
            whole = sum(share.groups + share.tail for share in allocation.shares)
            found = candidate_of(part, allocation)
            key = (-whole, *found.key)
            if best is None or key < best[0]:
                best = key, SearchResult(found, part, bounding, PlacementMode.PREFERRED)
    return best[1] if best else None


def _split_views(view: FreeView, request: Request) -> Iterator[FreeView]:
    """The view itself; or single groups of the kind asked for, the most whole groups first."""
    if request.within is None:
        yield view
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


def _largest_inside(view: FreeView, request: Request) -> int:
    """The most free slots in one group of the kind asked for."""
    if request.within is None:
        return int(view.free.sum())
    return max(
        (
            int(view.layout.rolled(free, tier).max())
            for tier, free in limited(view.layout, view.free, request.within)
        ),
        default=0,
    )


def _with_least_penalty(capacity: Capacity, view: FreeView, found: Candidate) -> Allocation:
    """The allocation, or the same in an equal tier-1 domain whose nodes have less penalty."""
    if len(found.ties) <= 1:
        return found.allocation
    pods = view.shape.pods
    return in_tier1_domain(
        view, min(found.ties, key=lambda at: penalty_of(capacity, view, at, pods))
    )


def _plan(capacity: Capacity, request: Request, gpu_type: str, answer: SearchResult) -> Plan:
    view = answer.view
    groups = planned_groups(capacity, view, _with_least_penalty(capacity, view, answer.found))
    objective = objective_of(capacity, view, [group.pods for group in groups])
    split = answer.mode is PlacementMode.PREFERRED
    bounds, certified = bounds_of(answer.bounding, objective, answer.found.proven, split=split)
    return Plan(
        request=request,
        mode=answer.mode,
        gpu_type=gpu_type,
        groups=groups,
        objective=objective,
        bounds=bounds,
        certified=certified,
        used_reserve=answer.used_reserve,
    )
