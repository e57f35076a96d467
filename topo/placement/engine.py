"""Which whole groups a job should get: the one entry to placement."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from topo.model.errors import BadInputError
from topo.placement.bounds import bounds_of
from topo.placement.capacity import Capacity
from topo.placement.cells import in_cell
from topo.placement.draft import Draft
from topo.placement.field import Field
from topo.placement.fill import penalty_of, planned
from topo.placement.measure import Key, weighed
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
from topo.placement.search import Found, Proof, found_whole, judged
from topo.placement.shape import shape_of
from topo.placement.split import found_split
from topo.placement.within import inside_any, limited

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
    field = field_of(capacity, request, gpu_type)
    refused = short_of_slots(request, field.shape, field.slots) or no_group_so_large(request, field)
    if refused:
        return refused
    if request.within is None or impossible_span(capacity, request, field) is None:
        found = _found(capacity, request, field)
        if found is not None:
            return _plan(capacity, request, gpu_type, found)
    if request.mode is Mode.REQUIRED:
        refused = short_of_groups(request, field)
    refused = refused or impossible_span(capacity, request, field)
    return refused or short_of_span(request, _most(field, request))


def field_of(capacity: Capacity, request: Request, gpu_type: str) -> Field:
    """What a search works on; groups that no domain could hold live in the top tier."""
    shape = shape_of(capacity, request, gpu_type)
    slots = capacity.slots(request.eligible, gpu_type, request.gpus_per_pod)
    layout = capacity.layout()
    if shape.tier:
        return Field(layout, shape, slots, slots.free)
    return Field(layout, replace(shape, tier=shape.tiers), slots, slots.free, fits=False)


@dataclass(frozen=True, slots=True)
class _Answer:
    """A draft, the field that it was found on and the one that bounds it."""

    found: Found
    field: Field
    bounding: Field
    mode: Mode
    used_reserve: bool = False


def _found(capacity: Capacity, request: Request, field: Field) -> _Answer | None:
    """The best way without what reserves keep, else with it."""
    reserves = capacity.policy.reserves
    if not reserves:
        return searched(field, request)
    free = kept_back(field.layout, field.shape, field.slots.free, reserves)
    if free is field.slots.free:
        return searched(field, request)
    answer = searched(field.only(free), request)
    if answer is None:
        answer = searched(field, request)
        return answer and replace(answer, used_reserve=True)
    return answer


def searched(field: Field, request: Request) -> _Answer | None:
    """The best way, groups whole if at all possible."""
    if request.within is None:
        whole = found_whole(field, None) if field.fits else None
        if whole is not None:
            return _Answer(whole, field, field, Mode.REQUIRED)
        parts: list[tuple[int | None, Field]] = [(None, field)]
        bounding = field
    else:
        parts = [*_parts(field, request)]
        bounding = field.only(inside_any(field.layout, field.free, request.within))
        answers = [(found_whole(part, tier), part) for tier, part in parts if field.fits]
        best = min(
            ((found, part) for found, part in answers if found),
            key=lambda each: _key(each[1], each[0]),
            default=None,
        )
        if best is not None:
            proof = best[0].proof if len(parts) == 1 else Proof.NONE
            return _Answer(replace(best[0], proof=proof), best[1], bounding, Mode.REQUIRED)
    if request.mode is Mode.REQUIRED:
        return None
    return _split(parts, bounding)


def _parts(field: Field, request: Request) -> Iterator[tuple[int | None, Field]]:
    """For each tier of the kind asked for, the slots inside such groups."""
    assert request.within is not None, "asked for limited jobs only"  # noqa: S101
    for tier, free in limited(field.layout, field.free, request.within):
        if tier >= field.shape.tier or not field.fits:
            yield tier, field.only(free)


def _key(field: Field, found: Found) -> Key:
    return found.key or judged(field, found.draft).key


def _split(parts: list[tuple[int | None, Field]], bounding: Field) -> _Answer | None:
    best: tuple[Key, _Answer] | None = None
    for limit, part in parts:
        for piece in _pieces(part, limit):
            draft = found_split(piece)
            if draft is not None:
                whole = sum(share.groups + share.tail for share in draft.shares)
                found = judged(piece, draft)
                key = (-whole, *found.key)
                if best is None or key < best[0]:
                    best = key, _Answer(found, piece, bounding, Mode.PREFERRED)
    return best[1] if best else None


def _pieces(field: Field, limit: int | None) -> list[Field]:
    """The field itself, or each domain of a tier alone."""
    if limit is None:
        return [field]
    pieces = []
    for first, last in pairwise(field.layout.firsts[limit]):
        if int(field.free[first:last].sum()) >= field.shape.pods:
            free = field.free * 0
            free[first:last] = field.free[first:last]
            pieces.append(field.only(free))
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


def _mildest(capacity: Capacity, field: Field, found: Found) -> Draft:
    """The draft, or the same in an equal cell whose nodes have less penalty."""
    if len(found.ties) <= 1:
        return found.draft
    pods = field.shape.pods
    return in_cell(field, min(found.ties, key=lambda at: penalty_of(capacity, field, at, pods)))


def _plan(capacity: Capacity, request: Request, gpu_type: str, answer: _Answer) -> Plan:
    field = answer.field
    groups = planned(capacity, field, _mildest(capacity, field, answer.found))
    objective = weighed(capacity, field, [group.pods for group in groups])
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
