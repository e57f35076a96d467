"""Which whole groups a job should get: the one entry to placement."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from topo.model.errors import BadInputError
from topo.placement.capacity.capacity import Capacity
from topo.placement.job.allocation import Draft
from topo.placement.job.plan import FitTest, NoFit, Plan
from topo.placement.job.request import Mode, Request, flaw
from topo.placement.quality.certificate import bounds_of
from topo.placement.quality.measure import Key, weighed
from topo.placement.search.assign_nodes import penalty_of, planned
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
from topo.placement.search.one_domain import in_cell
from topo.placement.search.reserve import Reserves, kept_back, taken_from
from topo.placement.search.split_groups import found_split
from topo.placement.search.whole_groups import Found, Proof, found_whole, judged
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
        found = _of_type(capacity, request, gpu_type)
        if isinstance(found, Plan):
            return found
        if failed is None or _TESTS.index(found.failed) > _TESTS.index(failed.failed):
            failed = found
    assert failed is not None, "there is always a type to try"  # noqa: S101
    return failed


def _of_type(capacity: Capacity, request: Request, gpu_type: str) -> Plan | NoFit:
    view = view_of(capacity, request, gpu_type)
    refused = short_of_slots(request, view.shape, view.slots) or no_group_so_large(request, view)
    if refused:
        return refused
    if request.within is None or impossible_span(capacity, request, view) is None:
        found = searched(view, request, capacity.policy.reserves)
        if found is not None:
            return _plan(capacity, request, gpu_type, found)
    if request.mode is Mode.REQUIRED:
        refused = short_of_groups(request, view)
    refused = refused or impossible_span(capacity, request, view)
    return refused or short_of_span(request, _most(view, request))


def view_of(capacity: Capacity, request: Request, gpu_type: str) -> FreeView:
    """What a search works on; groups that no domain could hold live in the top tier."""
    shape = shape_of(capacity, request, gpu_type)
    slots = capacity.slots(request.eligible, gpu_type, request.gpus_per_pod)
    layout = capacity.layout()
    if shape.tier:
        return FreeView(layout, shape, slots, slots.free)
    return FreeView(layout, replace(shape, tier=shape.tiers), slots, slots.free, fits=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """A draft, the view that it was found on and the one that bounds it."""

    found: Found
    view: FreeView
    bounding: FreeView
    mode: Mode
    used_reserve: bool = False


Search = Callable[[FreeView, Request], Answer | None]


def searched(view: FreeView, request: Request, reserves: Reserves = ()) -> Answer | None:
    """The best way: groups whole, at need out of reserves; else split, if the job may be."""
    searches: tuple[Search, ...] = (_whole, _split)
    for search in searches if request.mode is Mode.PREFERRED else searches[:1]:
        answer = _sparing(reserves, view, request, search)
        if answer is not None:
            return answer
    return None


def _sparing(reserves: Reserves, view: FreeView, request: Request, search: Search) -> Answer | None:
    """The best way of all if it leaves the reserves, else one that does, else the best of all.

    Which groups of a reserve stay free is chosen for the second, so that it proves nothing; what
    bounds all placements bounds it, too.
    """
    best = search(view, request)
    if best is None or taken_from(view, best.found.draft.cells, reserves) is None:
        return best
    free = kept_back(view.layout, view.shape, view.slots.free, reserves)
    other = search(view.only(free), request)
    if other is None:
        return replace(best, used_reserve=True)
    return replace(other, found=replace(other.found, proof=Proof.NONE), bounding=best.bounding)


def _whole(view: FreeView, request: Request) -> Answer | None:
    """The best way that splits no group."""
    if not view.fits:
        return None
    if request.within is None:
        found = found_whole(view, None)
        return Answer(found, view, view, Mode.REQUIRED) if found else None
    parts = [*_parts(view, request)]
    answers = [(found_whole(part, tier), part) for tier, part in parts]
    best = min(
        ((found, part) for found, part in answers if found),
        key=lambda each: _key(each[1], each[0]),
        default=None,
    )
    if best is None:
        return None
    proof = best[0].proof if len(parts) == 1 else Proof.NONE
    bounding = _bounding(view, request)
    return Answer(replace(best[0], proof=proof), best[1], bounding, Mode.REQUIRED)


def _bounding(view: FreeView, request: Request) -> FreeView:
    """The slots that the job may use at all."""
    if request.within is None:
        return view
    return view.only(inside_any(view.layout, view.free, request.within))


def _parts(view: FreeView, request: Request) -> Iterator[tuple[int, FreeView]]:
    """For each tier of the kind asked for, the slots inside such groups."""
    assert request.within is not None, "asked for limited jobs only"  # noqa: S101
    for tier, free in limited(view.layout, view.free, request.within):
        if tier >= view.shape.tier or not view.fits:
            yield tier, view.only(free)


def _key(view: FreeView, found: Found) -> Key:
    return found.key or judged(view, found.draft).key


def _split(view: FreeView, request: Request) -> Answer | None:
    """A way that splits as few groups as it can."""
    bounding = _bounding(view, request)
    best: tuple[Key, Answer] | None = None
    for piece in _pieces(view, request):
        draft = found_split(piece)
        if draft is not None:
            whole = sum(share.groups + share.tail for share in draft.shares)
            found = judged(piece, draft)
            key = (-whole, *found.key)
            if best is None or key < best[0]:
                best = key, Answer(found, piece, bounding, Mode.PREFERRED)
    return best[1] if best else None


def _pieces(view: FreeView, request: Request) -> Iterator[FreeView]:
    """The view itself, or the domains asked for with the most whole groups, each alone."""
    if request.within is None:
        yield view
        return
    for tier, part in _parts(view, request):
        rooms = part.layout.rolled(part.free, tier)
        able = np.flatnonzero(rooms >= part.shape.pods)
        whole = part.groups(tier)[able] if part.fits else able * 0
        best = np.lexsort((able, rooms[able], -np.minimum(whole, part.shape.m)))[:_SPLIT_TRIES]
        firsts = part.layout.firsts[tier]
        for domain in able[best].tolist():
            free = part.free * 0
            inside = slice(firsts[domain], firsts[domain + 1])
            free[inside] = part.free[inside]
            yield part.only(free)


def _most(view: FreeView, request: Request) -> int:
    if request.within is None:
        return int(view.free.sum())
    return max(
        (
            int(view.layout.rolled(free, tier).max())
            for tier, free in limited(view.layout, view.free, request.within)
        ),
        default=0,
    )


def _mildest(capacity: Capacity, view: FreeView, found: Found) -> Draft:
    """The draft, or the same in an equal cell whose nodes have less penalty."""
    if len(found.ties) <= 1:
        return found.draft
    pods = view.shape.pods
    return in_cell(view, min(found.ties, key=lambda at: penalty_of(capacity, view, at, pods)))


def _plan(capacity: Capacity, request: Request, gpu_type: str, answer: Answer) -> Plan:
    view = answer.view
    groups = planned(capacity, view, _mildest(capacity, view, answer.found))
    objective = weighed(capacity, view, [group.pods for group in groups])
    split = answer.mode is Mode.PREFERRED
    bounds, certified = bounds_of(answer.bounding, objective, answer.found.proof, split=split)
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
