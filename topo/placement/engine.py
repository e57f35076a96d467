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
"""

from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

from topo.model.errors import BadInputError
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.slots import Slots
from topo.placement.job.plan import Allocation, FitTest, NoFit, Objective, Plan, PlannedGroup
from topo.placement.job.request import PlacementMode, Request, flaw
from topo.placement.one_type import Search, SearchResult, could_place, most_slots, searches
from topo.placement.quality.candidate import Candidate, Proven
from topo.placement.quality.certificate import bounds_of, could_be_better, not_proven_worse
from topo.placement.quality.measure import Key, effect_of, objective_of_planned
from topo.placement.search.assign_nodes import penalty_of, planned_groups
from topo.placement.search.fit_tests import (
    impossible_span,
    no_group_known,
    no_group_so_large,
    short_of_groups,
    short_of_slots,
    short_of_span,
    unknown_kind,
)
from topo.placement.search.one_domain import in_tier1_domain
from topo.placement.view.free_view import FreeView
from topo.placement.view.job_shape import shape_of

_TESTS = tuple(FitTest)


def place(capacity: CapacityView, request: Request) -> Plan | NoFit:
    """Return the best placement of a job now, or the first test that it fails.

    Equal capacities and requests give equal answers. A flawed request raises `BadInputError` with
    the field and the fix.
    """
    refusal = flaw(request)
    if refusal is not None:
        raise BadInputError(refusal)
    failed = unknown_kind(capacity, request)
    if failed is not None:
        return failed
    views: list[FreeView] = []
    refusals: list[NoFit] = []
    for gpu_type in capacity.types_for(request.eligible) or ("",):
        view = view_of(capacity, request, gpu_type)
        refused = _refused_at_once(capacity, request, view)
        if refused is None:
            views.append(view)
        else:
            refusals.append(refused)
    for search in searches(request.mode):
        results = _results(capacity, request, views, search)
        if results:
            return _plan(capacity, request, results)
    # Of equal tests that of a type on which a search was worth while says more.
    refusals = [*(_refused_by_search(request, view) for view in views), *refusals]
    return max(refusals, key=lambda each: _TESTS.index(each.failed))


def fits(capacity: CapacityView, request: Request) -> bool:
    """Return whether `place` would give a plan, by counting; O(domains) for each GPU type.

    For callers that need no plan: finding the best one costs much more.
    """
    types = capacity.types_for(request.eligible)
    return any(could_place(view_of(capacity, request, gpu_type), request) for gpu_type in types)


def view_of(capacity: CapacityView, request: Request, gpu_type: str) -> FreeView:
    """Return what a search for the job sees on nodes of one type."""
    return view_on(
        capacity, request, capacity.slots(request.eligible, gpu_type, request.gpus_per_pod)
    )


def view_on(capacity: CapacityView, request: Request, slots: Slots) -> FreeView:
    """Return what a search for the job would see if these slots were free."""
    shape = shape_of(capacity, request, slots.eligibility.gpu_type or "")
    layout = capacity.layout()
    if request.within is not None and not shape.m:
        # Inside one group of the kind a job of fewer pods than a group is whole anyway.
        limit = capacity.kinds().get(request.within, shape.tier)
        shape = replace(shape, tier=min(shape.tier, limit))
    if shape.tier:
        return FreeView(layout, shape, slots, slots.free)
    widest = replace(shape, tier=shape.tiers)
    return FreeView(layout, widest, slots, slots.free, group_can_fit=False)


def _refused_at_once(capacity: CapacityView, request: Request, view: FreeView) -> NoFit | None:
    """Return the refusal of a job that no search on these nodes could place, or None."""
    refused = (
        short_of_slots(request, view.shape, view.slots)
        or no_group_known(capacity, request, view)
        or no_group_so_large(request, view)
    )
    if refused is not None:
        return refused
    impossible = impossible_span(capacity, request, view)
    if impossible is None:
        return None
    return _short_of_groups(request, view) or impossible


def _refused_by_search(request: Request, view: FreeView) -> NoFit:
    """Return the refusal of a job that a search on these nodes did not place."""
    return _short_of_groups(request, view) or short_of_span(request, most_slots(view, request))


def _short_of_groups(request: Request, view: FreeView) -> NoFit | None:
    required = request.mode is PlacementMode.REQUIRED
    return short_of_groups(request, view) if required else None


def _results(
    capacity: CapacityView, request: Request, views: Sequence[FreeView], search: Search
) -> list[SearchResult]:
    """Return what was found on the types that could have the best placement, the best first."""
    reserves = capacity.policy.reserves
    if len(views) == 1:
        found = search(views[0], request, reserves)
        return [found] if found is not None else []
    ranked: list[tuple[tuple[bool, Key], SearchResult]] = []
    least: tuple[bool, Key] | None = None
    for view in views:
        if least and not least[0] and not could_be_better(view, least[1]):
            continue
        found = search(view, request, reserves)
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
    allocation = _with_least_penalty(capacity, view, result.found)
    planned = planned_groups(capacity, view, allocation)
    known = result.found.effect if allocation is result.found.allocation else None
    effect = known or effect_of(view, allocation.tier1_pods)
    return planned.groups, objective_of_planned(capacity, view, planned, effect)


def _with_least_penalty(capacity: CapacityView, view: FreeView, found: Candidate) -> Allocation:
    """Return the allocation, or one in an equal tier-1 domain whose nodes have less penalty."""
    if len(found.ties) <= 1:
        return found.allocation
    pods = view.shape.pods
    return in_tier1_domain(
        view, min(found.ties, key=lambda at: penalty_of(capacity, view, at, pods))
    )


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
