"""The best placement of a job on the nodes of one GPU type.

Result: a candidate with every group whole, or one that splits few groups; inside one group of the
kind that the job names; with the reserves left alone where a placement is found that does.

Cost: one search (`whole_groups.py`, `split_groups.py`), one more for each way to keep a reserve
that is tried, and in preferred mode one for each group of the kind that is tried.

Example: a job of 2 groups of 8 inside one switchbox, of which A has 8, 7 and 1 free slots, B 8 and
8. Whole groups are looked for in the slots of both switchboxes: B holds the job. If B had 4, 4, 4
and 4, none would; then A and B are tried one by one, and A wins: it splits 1 group of 2, B both.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from topo.model.ids import Kind
from topo.placement.capacity.layout import Counts, Layout
from topo.placement.exact.improve import MOST_STEPS
from topo.placement.exact.split_dp import improve_split
from topo.placement.job.request import PlacementMode, Request
from topo.placement.quality.candidate import Candidate, Proven, candidate_of
from topo.placement.quality.measure import Key
from topo.placement.search.extra_domains import use_extra_domains
from topo.placement.search.reserves import Reserves, reserve_taken_from, ways_to_keep
from topo.placement.search.split_groups import best_split
from topo.placement.view.free_view import TAIL_CANNOT_FIT, FreeView
from topo.placement.whole_groups import best_whole

_SPLIT_TRIES = 24
"""Groups of the kind asked for in which a job that must be split is tried."""
_LEAST_STEPS = 500
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
        return (self.split, *key_in(self.view, self.found)[:5])


Search = Callable[[FreeView, Request, Reserves], SearchResult | None]
_Search = Callable[[FreeView, Request], SearchResult | None]


def searches(mode: PlacementMode) -> tuple[Search, ...]:
    """Return the searches to try in order: whole groups, then split ones if that is allowed."""
    return (best_with_whole_groups, best_with_split_groups)[: 1 + (mode is PlacementMode.PREFERRED)]


def find_best(view: FreeView, request: Request, reserves: Reserves = ()) -> SearchResult | None:
    """Return the best result with all groups whole, or else the best split if the job may be."""
    found = (search(view, request, reserves) for search in searches(request.mode))
    return next(filter(None, found), None)


def could_place(view: FreeView, request: Request) -> bool:
    """Return whether any search would find a placement, by counting; O(domains).

    Counting decides it, since groups share nothing but the slots of their domains. A job that may
    be split needs slots alone, in one group of the kind that it must be within.
    """
    if request.mode is PlacementMode.PREFERRED:
        return most_slots(view, request) >= request.pods
    if not view.group_can_fit:
        return False
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
    inside = free_inside_by_tier(view.layout, view.free, request.within)
    return max((int(view.layout.rolled(free, tier).max()) for tier, free in inside), default=0)


def best_with_whole_groups(
    view: FreeView, request: Request, reserves: Reserves
) -> SearchResult | None:
    """Return the best result that splits no group."""
    return _within_reserves(reserves, view, request, _whole)


def best_with_split_groups(
    view: FreeView, request: Request, reserves: Reserves
) -> SearchResult | None:
    """Return the best result where not all groups can be whole."""
    return _within_reserves(reserves, view, request, _split)


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
    answers = [(best_whole(part, tier), part) for tier, part in _inside_kind(view, request)]
    placed = [(found, part) for found, part in answers if found is not None]
    if not placed:
        return None
    best, part = min(placed, key=lambda each: key_in(each[1], each[0]))
    found = replace(best, proven=min(found.proven for found, _ in placed))
    return SearchResult(found, part, _bounding(view, request), PlacementMode.REQUIRED)


def _bounding(view: FreeView, request: Request) -> FreeView:
    """Return the slots that the job may use at all."""
    if request.within is None:
        return view
    return view.only(free_inside(view.layout, view.free, request.within))


def _inside_kind(view: FreeView, request: Request) -> Iterator[tuple[int, FreeView]]:
    """Yield each tier that groups of the kind have, with a view of the slots inside them."""
    assert request.within is not None, "asked for limited jobs only"  # noqa: S101 - for mypy
    for tier, free in free_inside_by_tier(view.layout, view.free, request.within):
        if tier >= view.shape.tier or not view.group_can_fit:
            yield tier, view.only(free)
        elif not view.shape.m:
            yield tier, view.only(free).whole_in(tier)


def key_in(view: FreeView, found: Candidate) -> Key:
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
    steps = max(MOST_STEPS // len(equal), _LEAST_STEPS)
    improved = [
        (improve_split(part, candidate_of(part, found), steps), part) for found, part in equal
    ]
    best, part = min(improved, key=lambda each: each[0].key)
    all_tried = len(parts) < _SPLIT_TRIES
    proven = min(found.proven for found, _ in improved) if all_tried else Proven.NONE
    found = replace(best, proven=proven)
    return SearchResult(found, part, _bounding(view, request), PlacementMode.PREFERRED, least)


def _split_views(view: FreeView, request: Request) -> Iterator[FreeView]:
    """Yield the view, or single groups of the kind asked for, the most whole groups first."""
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


def free_inside_by_tier(layout: Layout, free: Counts, kind: Kind) -> Iterator[tuple[int, Counts]]:
    """Yield each tier that groups of a kind have, with the free slots inside of them."""
    for tier, domains in layout.of_kind(kind).items():
        inside = free * 0
        inside[domains] = free[domains]
        yield tier, inside


def free_inside(layout: Layout, free: Counts, kind: Kind) -> Counts:
    """Return the free slots inside groups of a kind, of any tier."""
    inside = free * 0
    for _, some in free_inside_by_tier(layout, free, kind):
        inside += some
    return inside
