"""Where a job goes if no group of it is split."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from topo.placement.capacity.layout import DomainIndices
from topo.placement.exact.fewest_children import fewest_below
from topo.placement.exact.tree_dp import Best, best_on
from topo.placement.job.allocation import Draft, Share, joined
from topo.placement.quality.lower_bounds import least_domains
from topo.placement.quality.measure import Key, effect_of, key_of
from topo.placement.search.descend import inside, over
from topo.placement.search.domain_bounds import Promise, promises
from topo.placement.search.free_view import FreeView
from topo.placement.search.job_shape import Shape
from topo.placement.search.one_domain import best_cells, in_cell
from topo.placement.search.window import fewest

LOOKED_INTO = 24
"""Domains that could hold all and are looked into, the most promising first."""
TIES_LOOKED_INTO = 1
"""Of those, domains that could only be better in the leximax of slots, if there are many."""
TIED_CELLS = 64
"""Equal tier-1 domains that are compared by penalty."""
FEW = 4
"""Domains that are all looked into."""
QUICK_STEPS = 800
"""Steps (a third of a microsecond each) of exact search where only a profile could be better."""
MIDDLE_STEPS = 2_500
"""Steps spent where more whole groups might be left."""
REFINE_STEPS = 15_000
"""Steps spent where even the number of domains is not proven."""
LEAF_STEPS = 100
"""Steps that one use of a domain costs whose groups spread over smaller ones."""


class Proof(IntEnum):
    """How far a draft is proven to be the best: each includes those before it."""

    NONE = 0
    SPANS = 1
    TOP = 2
    LOW = 3
    BROKEN = 4


@dataclass(frozen=True, slots=True)
class Found:
    """A draft with its key, and what its search proves.

    `ties`: cells for the whole job that are equal up to the penalty of their nodes, where any node
    has one.
    """

    draft: Draft
    key: Key
    proof: Proof = Proof.NONE
    ties: tuple[int, ...] = ()


def found_whole(view: FreeView, limit: int | None) -> Found | None:
    """The best way found with every group whole, in one domain of the tier `limit` if given."""
    shape = view.shape
    if not view.free.size:
        return None
    if shape.tier == 1 and shape.m + (shape.r > 0) == 1:
        able = (view.free >= shape.pods).nonzero()[0]
        if able.size:
            return _in_cell(view, able)
    for tier in range(shape.tier, (limit or shape.tiers) + 1):
        able = (view.holds(tier) >= shape.m).nonzero()[0]
        if able.size:
            return _in_one(view, tier, able)
    return _in_several(view) if limit is None else None


def _in_cell(view: FreeView, able: DomainIndices) -> Found:
    cells = best_cells(view, able)
    ties = tuple(cells[:TIED_CELLS]) if view.slots.penalized else ()
    return Found(in_cell(view, cells[0]), (), Proof.BROKEN, ties)


def judged(view: FreeView, draft: Draft, proof: Proof = Proof.NONE) -> Found:
    """A draft with its key."""
    return Found(draft, key_of(effect_of(view, draft.cells), draft), proof)


def _better(one: Found | None, other: Found | None) -> Found | None:
    if one is None or other is None:
        return one or other
    return other if other.key < one.key else one


def _proven(found: Found | None, proof: Proof) -> Found | None:
    return found and Found(found.draft, found.key, max(proof, found.proof))


def _in_one(view: FreeView, tier: int, able: DomainIndices) -> Found | None:
    """In one domain of a tier, which is best: all higher tiers need one domain too."""
    shape = view.shape
    if tier == 1:
        return _in_cell(view, able)
    ranked = promises(view, tier, able)
    sound = shape.tier == 1 and tier == 2 and shape.k == shape.canonical and view.whole_cells
    best: Found | None = None
    seen: set[object] = set()
    ties = 0
    for promise in ranked:
        if best and promise.beaten_by(best.key):
            return _proven(best, Proof.LOW) if sound else _refined_one(view, tier, ranked, best)
        look = view.signature(tier, promise.domain)
        if look in seen:
            continue
        ties += best is not None and _only_low(promise, best)
        if len(seen) == LOOKED_INTO or (ties > TIES_LOOKED_INTO and len(ranked) > FEW):
            break
        seen.add(look)
        draft = inside(view, tier, promise.domain, (shape.m, shape.r > 0))
        if draft is None:
            continue
        best = _better(best, judged(view, draft))
        if best and best.draft is draft and sound and _perfect(view, best, ranked):
            return _proven(best, Proof.BROKEN)
    else:
        if sound:
            return _proven(best, Proof.LOW)
    if sound and best:
        at_end = ranked[0].spans_reached(best.key) and ranked[0].tied(best.key)
        return _proven(best, Proof.TOP if at_end else Proof.NONE)
    return _refined_one(view, tier, ranked, best)


def _only_low(promise: Promise, best: Found) -> bool:
    return promise.spans_reached(best.key) and promise.tied(best.key)


def _perfect(view: FreeView, found: Found, ranked: Sequence[Promise]) -> bool:
    """Whether domains are used up that no other choice of as many domains can beat.

    Without a tail: equal ones, since another choice of as many has a larger one among them, which
    is then missed. With a tail: domains of just one group each, and one of just the tail.
    """
    shape, free = view.shape, view.slots.free_list
    cells = found.draft.cells
    if any(free[at] != pods for at, pods in cells.items()):
        return False
    rooms = sorted(cells.values())
    if shape.r and rooms != [shape.r] + [shape.k] * (len(rooms) - 1):
        return False
    if not shape.r and rooms[0] != rooms[-1]:
        return False
    return ranked[0].spans_reached(found.key) and ranked[0].tied(found.key)


def _refined_one(
    view: FreeView, tier: int, ranked: Sequence[Promise], best: Found | None
) -> Found | None:
    """The best after exact search in the domains that might still beat it, if they are few."""
    shape = view.shape
    inner = view.unit(shape.pods) if tier == shape.tier else view
    search: Best | None = None
    budget = REFINE_STEPS
    if best and ranked[0].spans_reached(best.key):
        budget = QUICK_STEPS if ranked[0].tied(best.key) else MIDDLE_STEPS
    seen: set[object] = set()
    for promise in ranked:
        if best and promise.beaten_by(best.key):
            break
        look = view.signature(tier, promise.domain)
        if look in seen:
            continue
        seen.add(look)
        search = search or best_on(inner)
        if search.steps + _steps(inner, tier, promise.domain) > budget:
            return _proven(best, Proof.SPANS) if best and _spans_proven(ranked, best) else best
        draft = _searched(search, tier, promise.domain)
        if draft and inner is not view:
            draft = Draft((Share(promise.domain, shape.m, shape.r > 0),), draft.cells)
        best = _better(best, judged(view, draft) if draft else None)
    return _proven(best, _exactly(inner, search))


def _exactly(view: FreeView, search: Best | None) -> Proof:
    """What a search that left out nothing proves."""
    if view.shape.tier > 1 or search is None:
        return Proof.NONE
    return Proof.BROKEN if search.pack.exact else Proof.TOP


def _spans_proven(ranked: Sequence[Promise], best: Found) -> bool:
    return ranked[0].spans_reached(best.key) and len(best.key[0]) <= ranked[0].depth + 1


def _searched(search: Best, tier: int, domain: int) -> Draft | None:
    """The best inside one domain, from as few children as it needs."""
    view = search.view
    shape = view.shape
    bounds = view.layout.below(tier, tier - 1)
    first, last = bounds[domain], bounds[domain + 1]
    groups = view.groups(tier - 1)[first:last].tolist()
    holds = view.holds(tier - 1)[first:last].tolist()
    least = _least_each(sorted(groups, reverse=True), shape.m, tail=shape.r > 0)
    able = [
        first + i
        for i, (cap, held) in enumerate(zip(groups, holds, strict=True))
        if cap >= max(least, 1) or (not least and held >= 0)
    ]
    return search.over(tier - 1, able, (shape.m, int(shape.r > 0)), least)


def _least_each(caps: list[int], need: int, *, tail: bool) -> int:
    """What each of the fewest domains must give at least; 0 where a tail may have its own."""
    count = fewest(caps, need)
    if tail or not count:
        return 0
    return max(0, need - sum(caps[: count - 1]))


def _steps(view: FreeView, tier: int, domain: int) -> int:
    """About what an exact search inside a domain costs."""
    shape = view.shape
    bounds = view.layout.below(tier, shape.tier)
    groups = view.groups(shape.tier)[bounds[domain] : bounds[domain + 1]]
    tails = 4 if shape.r else 1
    most = min(shape.m, int(view.groups(tier)[domain])) + 1
    uses = int(np.minimum(groups, shape.m).sum()) + len(groups)
    return uses * (tails * most + (0 if shape.tier == 1 else LEAF_STEPS))


def _in_several(view: FreeView) -> Found | None:
    shape = view.shape
    tier = shape.tiers
    everywhere = range(len(view.layout.firsts[tier]) - 1)
    best: Found | None = None
    for draft in over(view, tier, everywhere, (shape.m, shape.r > 0)):
        best = _better(best, judged(view, draft))
    if best is None:
        return None
    if shape.tier == tier == 1 and shape.k == shape.canonical and view.whole_cells:
        return _proven(best, Proof.LOW)
    if not _bounded(view, best.key[0]):
        return _fewer_below(view, tier, best)
    if not shape.r and shape.k == shape.canonical and shape.tier == shape.canonical_tier:
        # All choices lose as many groups, and the window left the largest top domains alone.
        best = Found(best.draft, best.key, Proof.TOP)
    return _refined_several(view, tier, best, _where_proven(shape))


def _fewer_below(view: FreeView, tier: int, best: Found) -> Found:
    """The best after a search for fewer domains below the top tier, and an exact one if short."""
    shape = view.shape
    budget = REFINE_STEPS
    if tier > 1:
        wanted, exact = fewest_below(view, tier, best.key[0][:2])
        parts = [inside(view, tier, domain, need) for domain, need in wanted]
        if wanted and all(part is not None for part in parts):
            draft = joined(part for part in parts if part is not None)
            best = _better(best, judged(view, draft)) or best
        if exact and tier == 2:
            best = Found(best.draft, best.key, Proof.SPANS)
            budget = _where_proven(shape)
    return _refined_several(view, tier, best, budget)


def _where_proven(shape: Shape) -> int:
    """Steps to spend where no placement uses fewer domains."""
    return QUICK_STEPS if shape.k == shape.canonical else MIDDLE_STEPS


def _bounded(view: FreeView, span: tuple[int, ...]) -> bool:
    """Whether no placement could use fewer domains of any tier."""
    tiers = view.shape.tiers
    return all(
        least_domains(view, tier, span[tiers - tier], split=False) == span[tiers - tier]
        for tier in range(tiers - 1, 0, -1)
    )


def _refined_several(view: FreeView, tier: int, best: Found, budget: int) -> Found:
    """The best after exact search over all domains of the top tier that could be used."""
    shape = view.shape
    groups = view.groups(tier)
    ranked = np.sort(groups)[::-1]
    most = int(ranked[: best.key[0][0] - 1].sum())
    least = max(0, shape.m - most)
    holds = view.holds(tier)
    able = np.flatnonzero(groups >= least)
    able = able[(groups[able] > 0) | (holds[able] >= 0)]
    steps = int((np.minimum(groups[able], shape.m) - least + 1).sum()) * (shape.m + 1)
    steps *= 4 if shape.r else 1
    if steps <= budget and tier > 1:
        steps += sum(_steps(view, tier, d) for d in able.tolist())
    if steps > budget:
        return best
    search = best_on(view)
    draft = search.over(tier, able.tolist(), (shape.m, int(shape.r > 0)), least)
    found = _better(best, judged(view, draft) if draft else None) or best
    return _proven(found, _exactly(view, search)) or found
