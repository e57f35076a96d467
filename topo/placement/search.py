"""Where a job goes if no group of it is split."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topo.placement.cells import best_cell
from topo.placement.draft import Draft, Key, Share, key_of
from topo.placement.exact import Best, best_on
from topo.placement.field import Field
from topo.placement.measure import effect_of
from topo.placement.promise import Promise, promises
from topo.placement.spread import inside, over
from topo.placement.structure import Places
from topo.placement.window import fewest

LOOKED_INTO = 24
"""Domains that could hold all and are looked into, the most promising first."""
QUICK_STEPS = 1_500
"""Steps (a third of a microsecond each) of exact search spent on any job."""
REFINE_STEPS = 15_000
"""Steps spent where even the number of domains is not proven."""


@dataclass(frozen=True, slots=True)
class Found:
    """A draft and its key; `exact`: no other one has a better key, but for the order of names."""

    draft: Draft
    key: Key
    exact: bool = False


def found_whole(field: Field, limit: int | None) -> Found | None:
    """The best way found with every group whole, in one domain of the tier `limit` if given."""
    shape = field.shape
    if not field.free.size:
        return None
    for tier in range(shape.tier, (limit or shape.tiers) + 1):
        able = np.flatnonzero(field.holds(tier) >= shape.m)
        if able.size and (shape.m or shape.r):
            return _in_one(field, tier, able)
    return _in_several(field) if limit is None else None


def judged(field: Field, draft: Draft, *, exact: bool = False) -> Found:
    """A draft with its key."""
    effect = effect_of(field.layout, field.shape, field.slots, draft.cells)
    return Found(draft, key_of(effect, draft), exact)


def _better(one: Found | None, other: Found | None) -> Found | None:
    if one is None or other is None:
        return one or other
    return other if other.key < one.key else one


def _in_one(field: Field, tier: int, able: Places) -> Found | None:
    """In one domain of a tier, which is best: all higher tiers need one domain too."""
    shape = field.shape
    if tier == 1:
        return judged(field, best_cell(field, able), exact=True)
    ranked = promises(field, tier, able)
    best: Found | None = None
    seen: set[bytes] = set()
    looked = 0
    for promise in ranked:
        if best and promise.beaten_by(best.key):
            break
        look = field.signature(tier, promise.domain)
        if look in seen:
            continue
        if looked == LOOKED_INTO:
            break
        seen.add(look)
        looked += 1
        draft = inside(field, tier, promise.domain, (shape.m, shape.r > 0))
        best = _better(best, judged(field, draft) if draft else None)
        if best and best.draft is draft and _perfect(field, best):
            break
    return _refined_one(field, tier, ranked, best)


def _perfect(field: Field, found: Found) -> bool:
    """Whether equal domains are used up, which no other choice of as many domains can beat."""
    if field.shape.canonical_tier != 1 or field.shape.tier != 1:
        return False
    free = field.slots.free
    rooms = {int(free[at]) for at in found.draft.cells}
    return len(rooms) == 1 and all(free[at] == pods for at, pods in found.draft.cells.items())


def _refined_one(
    field: Field, tier: int, ranked: Sequence[Promise], best: Found | None
) -> Found | None:
    """The best after exact search in the domains that might still beat it, if they are few."""
    shape = field.shape
    inner = field.unit(shape.pods) if tier == shape.tier else field
    exact = inner.shape.tier == 1
    search: Best | None = None
    seen: set[bytes] = set()
    for promise in ranked:
        if best and promise.beaten_by(best.key):
            return Found(best.draft, best.key, exact=exact)
        look = field.signature(tier, promise.domain)
        if look in seen:
            continue
        seen.add(look)
        search = search or best_on(inner)
        budget = QUICK_STEPS if best and _spans_proven(ranked, best) else REFINE_STEPS
        if search.steps + _steps(inner, tier, promise.domain) > budget:
            return best
        draft = _searched(search, tier, promise.domain)
        if draft and inner is not field:
            draft = Draft((Share(promise.domain, shape.m, shape.r > 0),), draft.cells)
        best = _better(best, judged(field, draft) if draft else None)
    return Found(best.draft, best.key, exact=exact) if best else None


def _spans_proven(ranked: Sequence[Promise], best: Found) -> bool:
    return bool(ranked[0].spans_reached(best.key))


def _searched(search: Best, tier: int, domain: int) -> Draft | None:
    """The best inside one domain, from as few children as it needs."""
    field = search.field
    shape = field.shape
    bounds = field.layout.below(tier, tier - 1)
    children = range(bounds[domain], bounds[domain + 1])
    groups = field.groups(tier - 1)
    caps = sorted((int(groups[child]) for child in children), reverse=True)
    holds = field.holds(tier - 1)
    least = _least_each(caps, shape.m, tail=shape.r > 0)
    able = [c for c in children if groups[c] >= max(least, 1) or (not least and holds[c] >= 0)]
    return search.over(tier - 1, able, (shape.m, int(shape.r > 0)), least)


def _least_each(caps: list[int], need: int, *, tail: bool) -> int:
    """What each of the fewest domains must give at least; 0 where a tail may need one for itself."""
    count = fewest(caps, need)
    if tail or not count:
        return 0
    return max(0, need - sum(caps[: count - 1]))


def _steps(field: Field, tier: int, domain: int) -> int:
    """About what an exact search inside a domain costs."""
    shape = field.shape
    bounds = field.layout.below(tier, shape.tier)
    groups = field.groups(shape.tier)[bounds[domain] : bounds[domain + 1]]
    tails = 2 if shape.r else 1
    ways = np.minimum(groups, shape.m) + 1
    return int(ways.sum()) * tails * tails * (shape.m + 1)


def _in_several(field: Field) -> Found | None:
    shape = field.shape
    tier = shape.tiers
    everywhere = range(len(field.layout.firsts[tier]) - 1)
    best: Found | None = None
    for draft in over(field, tier, everywhere, (shape.m, shape.r > 0)):
        best = _better(best, judged(field, draft))
    return best and _refined_several(field, tier, best)


def _refined_several(field: Field, tier: int, best: Found) -> Found:
    """The best after exact search over all domains of the top tier that could be used."""
    shape = field.shape
    groups = field.groups(tier)
    ranked = np.sort(groups)[::-1]
    used = best.key[0][0]  # type: ignore[index]
    most = int(ranked[: used - 1].sum())
    least = max(0, shape.m - most)
    holds = field.holds(tier)
    able = [int(d) for d in np.flatnonzero(groups >= least) if groups[d] or holds[d] >= 0]
    if shape.tier == tier:
        steps = sum(min(int(groups[d]), shape.m) - least + 1 for d in able) * (shape.m + 1)
        steps *= 4 if shape.r else 1
    else:
        steps = sum(_steps(field, tier, d) for d in able)
        steps += sum(min(int(groups[d]), shape.m) - least + 1 for d in able) * (shape.m + 1)
    if steps > REFINE_STEPS:
        return best
    draft = best_on(field).over(tier, able, (shape.m, int(shape.r > 0)), least)
    found = _better(best, judged(field, draft) if draft else None)
    assert found is not None, "there was one before"  # noqa: S101
    return Found(found.draft, found.key, exact=shape.tier == 1)
