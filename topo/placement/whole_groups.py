"""Where a job goes if no group of it is split.

Result: the best candidate found, with what is proven of it. None if the job does not fit.

How: the lowest tier at which one domain can hold the whole job is the best one to use, since
fewer domains of the tiers above come first in the objective. There are three cases.

- One tier-1 domain holds the job. `one_domain.py` finds the best one exactly.
- One domain of a higher tier holds it. `domain_bounds.py` says for each such domain what a
  placement inside it costs at least. We look into the domains in that order by the window rule
  (`window_search.py`), and stop at the first whose bound the best candidate has reached.
- Several top domains are needed. The window rule chooses them. If the tiers below could do with
  fewer domains, `exact/fewest_children.py` looks for a choice that does.

Why the result is right: each candidate is weighed by the whole objective, and a domain is passed
over only where its bound says that nothing better is in it. For groups of the canonical size that
live in tier 1 the window rule is exact (see `window.py`), so there the best candidate is proven.
For other groups `exact/improve.py` then searches what could still be better, as far as a budget
allows.

Cost: a few passes over all domains, then at most LOOKED_INTO windows and MOST_STEPS steps.

Example: switchboxes with 8, 8, 4 / 8, 8 / 8, 8, 8 free slots, a job of 2 groups of 8 and a tail
of 4. No dragonfly holds 20 slots. The first and the third switchbox hold 2 groups and the tail.
The bounds say 3 dragonflies for each; 2 groups lost in the first, 3 in the third. So the first
switchbox is looked into first: it gives 8, 8, 4, as good as its bound. The third cannot be
better, and nobody looks into it.
"""

from itertools import islice

from topo.placement.capacity.layout import DomainIndices
from topo.placement.exact.fewest_children import fewest_children
from topo.placement.exact.improve import improve_in_one_domain, improve_over_domains
from topo.placement.job.plan import joined
from topo.placement.quality.candidate import Candidate, Proven, better_of
from topo.placement.quality.lower_bounds import least_domains
from topo.placement.search.domain_bounds import domain_bounds
from topo.placement.search.one_domain import best_tier1_domains, in_tier1_domain
from topo.placement.search.window_search import best_inside, ways_over
from topo.placement.view.free_view import FreeView

LOOKED_INTO = 48
"""Domains that could hold the whole job and are looked into, the one with the best bound first."""
MOST_TIES = 64
"""Equal tier-1 domains whose nodes are compared by penalty."""


def best_whole(view: FreeView, limit: int | None) -> Candidate | None:
    """Return the best candidate with every group whole, or None.

    With `limit` the whole job is inside one domain of that tier.
    """
    shape = view.shape
    if not view.free.size:
        return None
    if shape.tier == 1 or not shape.m:
        # No group is too large for a tier-1 domain: its slots alone tell whether it holds the job.
        found = _in_tier1_domain(view)
        if found is not None:
            return found
    for tier in range(max(2, shape.tier), (limit or shape.tiers) + 1):
        able = (view.holds(tier) >= shape.m).nonzero()[0]
        if able.size:
            return _in_one_domain(view, tier, able)
    return _in_several_domains(view) if limit is None else None


def _in_tier1_domain(view: FreeView) -> Candidate | None:
    best = best_tier1_domains(view)
    if not best:
        return None
    ties = tuple(best[:MOST_TIES]) if view.slots.penalized else ()
    # The key stays empty: nothing is compared with a job in one tier-1 domain.
    return Candidate(in_tier1_domain(view, best[0]), (), Proven.NEWLY_BROKEN, ties)


def _in_one_domain(view: FreeView, tier: int, able: DomainIndices) -> Candidate | None:
    """Return the best candidate inside one of the domains of a tier that can hold the job."""
    shape = view.shape
    bounds = domain_bounds(view, tier, able)
    best: Candidate | None = None
    complete = len(bounds) <= LOOKED_INTO
    for bound in islice(bounds, LOOKED_INTO):
        if best and bound.cannot_improve(best.key):
            complete = True
            break
        best = better_of(view, best, best_inside(view, tier, bound.domain, (shape.m, shape.r > 0)))
    exact_window = shape.tier == 1 and tier == 2 and shape.k == shape.canonical
    if best is None or not (exact_window and view.nothing_kept_back):
        return improve_in_one_domain(view, tier, bounds, best)
    if complete:
        return best.with_proof(Proven.PROFILE_TIER1)
    return best.with_proof(Proven.PROFILE_TOP) if bounds[0].reached(best.key) else best


def _in_several_domains(view: FreeView) -> Candidate | None:
    """Return the best candidate over as few domains of the top tier as hold the job."""
    shape = view.shape
    tier = shape.tiers
    everywhere = range(len(view.layout.firsts[tier]) - 1)
    best: Candidate | None = None
    for allocation in ways_over(view, tier, everywhere, (shape.m, shape.r > 0)):
        best = better_of(view, best, allocation)
    if best is None:
        return None
    if shape.tier == tier == 1 and shape.k == shape.canonical and view.nothing_kept_back:
        return best.with_proof(Proven.PROFILE_TIER1)
    if not _spans_meet_bounds(view, best.key[0]):
        best = _with_fewer_children(view, tier, best)
    elif not shape.r and shape.k == shape.canonical and shape.tier == shape.canonical_tier:
        # All choices lose as many groups, and the window left the largest top domains alone.
        best = best.with_proof(Proven.PROFILE_TOP)
    return improve_over_domains(view, tier, best)


def _with_fewer_children(view: FreeView, tier: int, best: Candidate) -> Candidate:
    """Return the same, or a candidate that uses fewer domains of the tier below the top."""
    if tier == 1:
        return best
    demands, exact = fewest_children(view, tier, best.key[0][:2])
    parts = [best_inside(view, tier, domain, demand) for domain, demand in demands]
    if demands and all(part is not None for part in parts):
        best = better_of(view, best, joined(part for part in parts if part is not None)) or best
    # With more than two tiers the spans below the second are not compared.
    return best.with_proof(Proven.SPANS) if exact and tier == 2 else best


def _spans_meet_bounds(view: FreeView, span: tuple[int, ...]) -> bool:
    """Return whether counting alone says that no placement uses fewer domains of any tier."""
    tiers = view.shape.tiers
    return all(
        least_domains(view, tier, span[tiers - tier], split=False) == span[tiers - tier]
        for tier in range(tiers - 1, 0, -1)
    )
