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
from topo.placement.search.domain_bounds import DomainBound, domain_bounds
from topo.placement.search.free_view import FreeView
from topo.placement.search.one_domain import best_cells, in_cell
from topo.placement.search.window import fewest

LOOKED_INTO = 48
"""Domains that could hold all and are looked into, the most promising first."""
TIED_CELLS = 64
"""Equal tier-1 domains that are compared by penalty."""
MOST_STEPS = 3_000
"""Steps (a third of a microsecond each) of exact search that a job may take."""
LOOK_STEPS = 40
"""Steps that looking into a domain costs, however small the job."""
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
    ranked = domain_bounds(view, tier, able)
    best: Found | None = None
    complete = len(ranked) <= LOOKED_INTO
    for bound in ranked[:LOOKED_INTO]:
        if best and bound.cannot_improve(best.key):
            complete = True
            break
        draft = inside(view, tier, bound.domain, (shape.m, shape.r > 0))
        best = _better(best, judged(view, draft) if draft else None)
    if shape.tier == 1 and tier == 2 and shape.k == shape.canonical and view.whole_cells:
        if complete:
            return _proven(best, Proof.LOW)
        at_end = best and ranked[0].spans_reached(best.key) and ranked[0].tied(best.key)
        return _proven(best, Proof.TOP if at_end else Proof.NONE)
    return _refined_one(view, tier, ranked, best)


def _refined_one(
    view: FreeView, tier: int, ranked: Sequence[DomainBound], best: Found | None
) -> Found | None:
    """The best after exact search in the domains that might still beat it, if they are few."""
    shape = view.shape
    inner = view.unit(shape.pods) if tier == shape.tier else view
    search: Best | None = None
    steps = 0
    for bound in ranked:
        if best and bound.cannot_improve(best.key):
            break
        search = search or best_on(inner)
        steps += _steps(inner, tier, bound.domain)
        if steps > MOST_STEPS:
            return _proven(best, Proof.SPANS) if best and _spans_proven(ranked, best) else best
        draft = _searched(search, tier, bound.domain)
        if draft and inner is not view:
            draft = Draft((Share(bound.domain, shape.m, shape.r > 0),), draft.cells)
        best = _better(best, judged(view, draft) if draft else None)
    if search is None:
        return _proven(best, Proof.BROKEN)
    return _proven(best, _exactly(inner, search))


def _exactly(view: FreeView, search: Best) -> Proof:
    """What a search that left out nothing proves."""
    if view.shape.tier > 1:
        return Proof.NONE
    return Proof.BROKEN if search.pack.exact else Proof.TOP


def _spans_proven(ranked: Sequence[DomainBound], best: Found) -> bool:
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
    return LOOK_STEPS + uses * (tails * most + (0 if shape.tier == 1 else LEAF_STEPS))


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
    return _refined_several(view, tier, best)


def _fewer_below(view: FreeView, tier: int, best: Found) -> Found:
    """The best after a search for fewer domains below the top tier, and an exact one if short."""
    if tier > 1:
        wanted, exact = fewest_below(view, tier, best.key[0][:2])
        parts = [inside(view, tier, domain, need) for domain, need in wanted]
        if wanted and all(part is not None for part in parts):
            draft = joined(part for part in parts if part is not None)
            best = _better(best, judged(view, draft)) or best
        if exact and tier == 2:
            best = Found(best.draft, best.key, Proof.SPANS)
    return _refined_several(view, tier, best)


def _bounded(view: FreeView, span: tuple[int, ...]) -> bool:
    """Whether no placement could use fewer domains of any tier."""
    tiers = view.shape.tiers
    return all(
        least_domains(view, tier, span[tiers - tier], split=False) == span[tiers - tier]
        for tier in range(tiers - 1, 0, -1)
    )


def _refined_several(view: FreeView, tier: int, best: Found) -> Found:
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
    if steps <= MOST_STEPS and tier > 1:
        steps += sum(_steps(view, tier, d) for d in able.tolist())
    if steps > MOST_STEPS:
        return best
    search = best_on(view)
    draft = search.over(tier, able.tolist(), (shape.m, int(shape.r > 0)), least)
    found = _better(best, judged(view, draft) if draft else None) or best
    return _proven(found, _exactly(view, search)) or found
