"""Which whole groups a job should get: the one entry to placement."""

from dataclasses import replace
from itertools import pairwise

from topo.model.errors import BadInputError
from topo.placement.bounds import bounds_of
from topo.placement.capacity import Capacity
from topo.placement.draft import Draft, Key, key_of
from topo.placement.field import Field
from topo.placement.fill import planned
from topo.placement.measure import effect_of, measure
from topo.placement.plan import FitTest, NoFit, Plan
from topo.placement.refusal import (
    impossible_span,
    no_group_so_large,
    short_of_groups,
    short_of_slots,
    short_of_span,
)
from topo.placement.request import Mode, Request, flaw
from topo.placement.reserve import kept_back
from topo.placement.search import found_whole
from topo.placement.shape import shape_of
from topo.placement.split import found_split
from topo.placement.within import limited

_TESTS = tuple(FitTest)


def place(capacity: Capacity, request: Request) -> Plan | NoFit:
    """The best placement of a job now, or the first test that it fails.

    Equal state and request give an equal answer. Never changes the capacity. A flawed request
    raises `BadInputError` with the field and the fix.
    """
    refusal = flaw(request)
    if refusal is not None:
        raise BadInputError(refusal)
    wished = request.eligible.gpu_type
    types = (wished,) if wished is not None else capacity.gpu_types() or ("",)
    failed: NoFit | None = None
    for gpu_type in types:
        found = _of_type(capacity, request, gpu_type)
        if isinstance(found, Plan):
            return found
        if failed is None or _TESTS.index(found.failed) > _TESTS.index(failed.failed):
            failed = found
    assert failed is not None, "there is always a type to try"  # noqa: S101
    return failed


def _of_type(capacity: Capacity, request: Request, gpu_type: str) -> Plan | NoFit:
    shape = shape_of(capacity, request, gpu_type)
    slots = capacity.slots(request.eligible, gpu_type, request.gpus_per_pod)
    refused = short_of_slots(request, shape, slots) or no_group_so_large(request, shape)
    if refused:
        return refused
    layout = capacity.layout()
    fits = shape.tier > 0
    field = Field(layout, replace(shape, tier=shape.whole_in), slots, slots.free, fits)
    if request.mode is Mode.REQUIRED:
        refused = short_of_groups(request, field)
    refused = refused or impossible_span(capacity, request, shape)
    if refused:
        return refused
    free = kept_back(layout, field.shape, slots.free, capacity.policy.reserves)
    used_reserve = False
    found = _searched(replace(field, free=free, _groups={}, _losses={}), request)
    if found is None and free is not slots.free:
        used_reserve = True
        found = _searched(field, request)
    if found is None:
        return short_of_span(request, _most(field, request))
    return _plan(capacity, request, (gpu_type, used_reserve), found)


_Found = tuple[Field, Draft, Mode]


def _searched(field: Field, request: Request) -> _Found | None:
    """The best way, groups whole if at all possible."""
    fields: list[tuple[int | None, Field]] = [(None, field)]
    if request.within is not None:
        fields = [
            (tier, replace(field, free=free, _groups={}, _losses={}))
            for tier, free in limited(field.layout, field.free, request.within)
            if tier >= field.shape.tier or not field.fits
        ]
    best: tuple[Key, _Found] | None = None
    for limit, part in fields:
        found = found_whole(part, limit) if field.fits else None
        best = _better(best, part, found.draft if found else None, Mode.REQUIRED)
    if best is None and request.mode is Mode.PREFERRED:
        for limit, part in fields:
            for piece in _pieces(part, limit):
                best = _better(best, piece, found_split(piece), Mode.PREFERRED)
    return best[1] if best else None


def _better(
    best: tuple[Key, _Found] | None, field: Field, draft: Draft | None, mode: Mode
) -> tuple[Key, _Found] | None:
    if draft is None:
        return best
    effect = effect_of(field.layout, field.shape, field.slots, draft.cells)
    whole = sum(share.groups + share.tail for share in draft.shares)
    key = (-whole, *key_of(effect, draft))
    return (key, (field, draft, mode)) if best is None or key < best[0] else best


def _pieces(field: Field, limit: int | None) -> list[Field]:
    """The field itself, or each domain of a tier alone."""
    if limit is None:
        return [field]
    pieces = []
    firsts = field.layout.firsts[limit]
    for first, last in pairwise(firsts):
        if int(field.free[first:last].sum()) >= field.shape.pods:
            free = field.free * 0
            free[first:last] = field.free[first:last]
            pieces.append(replace(field, free=free, _groups={}, _losses={}))
    return pieces


def _most(field: Field, request: Request) -> int:
    if request.within is None:
        return int(field.free.sum())
    return max(
        (
            int(field.layout.rolled(free, tier).max())
            for tier, free in limited(field.layout, field.free, request.within)
        ),
        default=0,
    )


def _plan(capacity: Capacity, request: Request, how: tuple[str, bool], found: _Found) -> Plan:
    field, draft, mode = found
    gpu_type, used_reserve = how
    groups = planned(capacity, field, draft)
    objective = measure(capacity, request, [group.pods for group in groups])
    bounds, certified = bounds_of(field, objective, split=mode is Mode.PREFERRED)
    return Plan(
        request=request,
        mode=mode,
        gpu_type=gpu_type,
        groups=groups,
        objective=objective,
        bounds=bounds,
        certified=certified,
        used_reserve=used_reserve,
    )
