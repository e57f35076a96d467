"""A better candidate than the window rule's, by exact search where that is affordable.

Result: the best of the candidate and of all that `tree_dp.py` finds, with what that proves.

Why it is right: a domain is left out of the search only where its bound says that it holds
nothing better, or where it gives less than each of the fewest domains must give. A search that
left out nothing else, and stayed within its budget, has seen the best there is.

Cost: at most MOST_STEPS steps of about a third of a microsecond. The steps of a domain are
counted before it is searched, from the groups that it holds. They depend on the state alone,
never on the clock, so that the same question always gets the same answer.

Example: one switchbox with dragonflies of 11, 8 and 9 free slots, a job of 12 pods in groups of 3,
canonical groups of 8. Two dragonflies are needed. The window rule keeps the largest alone: 3 groups
in 9 and 1 in 8. That breaks 2 canonical groups. The search tries all ways:

    9 gives 3, 8 gives 1     2 canonical groups lost
    11 gives 3, 9 gives 1    2 lost
    11 gives 1, 9 gives 3    1 lost: 11 keeps 8, which is a whole canonical group

The last one is the answer, and nothing was left out, so it is proven.
"""

from collections.abc import Sequence

import numpy as np

from topo.placement.exact.tree_dp import MOST_TABLE_STEPS, ExactSearch, exact_search
from topo.placement.job.plan import Allocation, Share
from topo.placement.quality.candidate import Candidate, Proven, better_of
from topo.placement.search.domain_bounds import DomainBound
from topo.placement.view.free_view import FreeView
from topo.placement.view.window import fewest

MOST_STEPS = 3_000
"""Steps (a third of a microsecond each) of exact search that a job may take."""
DOMAIN_STEPS = 40
"""Steps that a domain costs, however small the job."""
SPREAD_STEPS = 100
"""Steps that one use of a domain costs whose groups spread over domains of a lower tier."""


def improve_in_one_domain(
    view: FreeView, tier: int, bounds: Sequence[DomainBound], best: Candidate | None
) -> Candidate | None:
    """Return the best candidate inside one domain of a tier; `bounds` come in the order of the
    search.
    """
    shape = view.shape
    # A single group inside a domain of its own tier is a job of single pods below that tier.
    inner = view.single_pods(shape.pods) if tier == shape.tier else view
    search: ExactSearch | None = None
    steps = 0
    for bound in bounds:
        if best and bound.cannot_improve(best.key):
            break
        search = search or exact_search(inner)
        steps += _steps(search, tier, bound.domain)
        if steps > MOST_STEPS:
            return best.with_proof(Proven.SPANS) if best and _spans_proven(bounds, best) else best
        found = _best_inside(search, tier, bound.domain)
        if found and inner is not view:
            found = Allocation((Share(bound.domain, shape.m, shape.r > 0),), found.tier1_pods)
        best = better_of(view, best, found)
    # Without a search the bounds have shown that nothing better exists.
    proven = _proven_by(search) if search else Proven.NEWLY_BROKEN
    return best and best.with_proof(proven)


def improve_over_domains(view: FreeView, tier: int, best: Candidate) -> Candidate:
    """Return the best candidate over all top-tier domains that could be one of the fewest."""
    shape = view.shape
    groups, holds = view.groups(tier), view.holds(tier)
    others = int(np.sort(groups)[::-1][: best.key[0][0] - 1].sum())
    # Even if all others are the largest there are, each domain must give so many groups.
    least = max(0, shape.m - others)
    able = np.flatnonzero((groups >= least) & ((groups > 0) | (holds >= 0)))
    steps = int((np.minimum(groups[able], shape.m) - least + 1).sum()) * (shape.m + 1)
    steps *= 4 if shape.r else 1
    steps += DOMAIN_STEPS * len(able) if tier > 1 else 0
    if steps > MOST_STEPS:
        return best
    search = exact_search(view)
    for domain in able.tolist() if tier > 1 else ():
        steps += _steps(search, tier, domain) - DOMAIN_STEPS
        if steps > MOST_STEPS:
            return best
    found = search.over(tier, able.tolist(), (shape.m, shape.r > 0), least)
    return (better_of(view, best, found) or best).with_proof(_proven_by(search))


def _proven_by(search: ExactSearch) -> Proven:
    """Return what a search proves that left out nothing."""
    if search.by_window:
        # The window rule is exact in the number of tier-1 domains of a tier-2 domain.
        return Proven.SPANS if search.view.shape.tier == 2 else Proven.NONE
    return Proven.NEWLY_BROKEN if search.tables.packing.exact else Proven.PROFILE_TOP


def _spans_proven(bounds: Sequence[DomainBound], best: Candidate) -> bool:
    """Return whether the candidate uses as few children as any bound, and there is no tier below
    them.
    """
    return bounds[0].spans_reached(best.key) and len(best.key[0]) <= bounds[0].depth + 1


def _best_inside(search: ExactSearch, tier: int, domain: int) -> Allocation | None:
    """Return the best inside one domain, from as few children as it needs."""
    view, shape = search.view, search.view.shape
    bounds = view.layout.below(tier, tier - 1)
    first, last = bounds[domain], bounds[domain + 1]
    groups = view.groups(tier - 1)[first:last].tolist()
    holds = view.holds(tier - 1)[first:last].tolist()
    least = 0 if shape.r else _least_each(sorted(groups, reverse=True), shape.m)
    children = [
        first + i
        for i, (cap, held) in enumerate(zip(groups, holds, strict=True))
        if cap >= max(least, 1) or (not least and held >= 0)
    ]
    return search.over(tier - 1, children, (shape.m, shape.r > 0), least)


def _least_each(descending: list[int], need: int) -> int:
    """Return what each of the fewest domains must give: the need less the most that the others
    hold.
    """
    count = fewest(descending, need)
    return max(0, need - sum(descending[: count - 1])) if count else 0


def _steps(search: ExactSearch, tier: int, domain: int) -> int:
    """About what an exact search inside a domain costs: uses of its children times table states."""
    view, shape = search.view, search.view.shape
    bounds = view.layout.below(tier, shape.tier)
    groups = view.groups(shape.tier)[bounds[domain] : bounds[domain + 1]]
    tails = 4 if shape.r else 1
    most = min(shape.m, int(view.groups(tier)[domain])) + 1
    uses = int(np.minimum(groups, shape.m).sum()) + len(groups)
    steps = DOMAIN_STEPS + uses * tails * most
    if shape.tier == 1:
        return steps
    tables = search.table_steps[bounds[domain] : bounds[domain + 1]]
    spreads = SPREAD_STEPS * (np.minimum(groups, shape.m) + 1)
    return steps + int(np.where(tables > MOST_TABLE_STEPS, spreads, tables).sum())
