"""Where a job goes if no group of it is split.

Result: the best candidate found, with what is proven of it. None if the job does not fit.

How: the lowest tier at which one domain can hold the whole job is the best one to use, since
fewer domains of the tiers above come first in the objective. There are three cases.

- One tier-1 domain holds the job. The best one is found exactly.
- One domain of a higher tier holds it. `domain_bounds.py` says for each such domain what a
  placement inside it costs at least. We look into the domains in that order by the window rule
  (`search/inside_domain.py`), and stop at the first whose bound the best candidate has reached.
- Several top domains are needed. The window rule chooses them. If the tiers below could do with
  fewer domains, `exact/fewest_children.py` looks for a choice that does.

Why the result is right: each candidate is weighed by the whole objective, and a domain is passed
over only where its bound says that nothing better is in it. For groups of the canonical size that
live in tier 1 the window rule is exact (see `search/window_rule.py`), so there the best candidate
is proven. For other groups an exact search then looks for what could still be better, as far as a
budget allows.

Cost: a few passes over all domains, then at most LOOKED_INTO windows and MOST_STEPS steps.

Example: switchboxes with 8, 8, 4 / 8, 8 / 8, 8, 8 free slots, a job of 2 groups of 8 and a tail
of 4. No dragonfly holds 20 slots. The first and the third switchbox hold 2 groups and the tail.
The bounds say 3 dragonflies for each; 2 groups lost in the first, 3 in the third. So the first
switchbox is looked into first: it gives 8, 8, 4, as good as its bound. The third cannot be
better, and nobody looks into it.

One tier-1 domain. Result: all tier-1 domains whose use is best by the whole objective, but for the
penalty of nodes.

Why it is right: with one domain each number of the objective follows from the free slots of that
domain and of the canonical domain around it. Each step keeps those that are best in one number, in
the order of the objective.

Cost: a few passes over the canonical domains: how much each is missed is kept between calls.

Example: a job of 3 pods, canonical groups of 8, free slots 11, 8, 5 and 3. 11, 5 and 3 lose no
canonical group, 8 loses one and is out. Of 11, 5 and 3 the smallest leaves the largest ones
alone: 3 is the answer.

Exact search. Result: the best of the window rule's candidate and of all that `exact/tree_dp.py`
finds, with what that proves.

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

from itertools import islice

import numpy as np

from topo.placement.capacity.layout import Counts, DomainIndices
from topo.placement.capacity.slots import BROKEN
from topo.placement.exact.fewest_children import fewest_children
from topo.placement.exact.tree_dp import MOST_TABLE_STEPS, ExactSearch, exact_search
from topo.placement.job.plan import Allocation, Share, joined
from topo.placement.quality.certificate import least_domains
from topo.placement.quality.measure import Candidate, Key, Proven, better_of, candidate_of
from topo.placement.search.domain_bounds import DomainBounds, domain_bounds
from topo.placement.search.inside_domain import best_inside, first_inside, ways_over
from topo.placement.search.window_rule import fewest
from topo.placement.view import FreeView

LOOKED_INTO = 48
"""Domains that could hold the whole job and are looked into, the one with the best bound first."""
LOOKED_CLOSELY = 8
"""Of these, domains in which all hosts of the tail are compared, not the smallest alone."""
MOST_TIES = 64
"""Equal tier-1 domains whose nodes are compared by penalty."""
LOOKED_THROUGH = 4
"""Equal canonical domains that are looked through one by one before all of them are together."""
MOST_STEPS = 3_000
"""Steps (a third of a microsecond each) of exact search that a job may take."""
DOMAIN_STEPS = 40
"""Steps that a domain costs, however small the job."""
SPREAD_STEPS = 100
"""Steps that one use of a domain costs whose groups spread over domains of a lower tier."""


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
    best = _best_tier1_domains(view)
    if not best:
        return None
    penalties, pods = view.penalties, view.shape.pods
    at = min(best[:MOST_TIES], key=lambda at: penalties.of(at, pods)) if penalties else best[0]
    # The key stays empty: nothing is compared with a job in one tier-1 domain.
    return Candidate(_all_in(view, at), (), Proven.NEWLY_BROKEN)


def _in_one_domain(view: FreeView, tier: int, able: DomainIndices) -> Candidate | None:
    """Return the best candidate inside one of the domains of a tier that can hold the job."""
    shape = view.shape
    bounds = domain_bounds(view, tier, able)
    best: Candidate | None = None
    # Exact for groups of the canonical size that live in tier 1.
    exact_window = shape.tier == 1 and tier == 2 and shape.k == shape.canonical
    need = shape.m, shape.r > 0
    is_rough = bool(shape.r) and tier > shape.tier and not exact_window
    look = first_inside if is_rough else best_inside
    complete = len(bounds) <= LOOKED_INTO
    keys: list[tuple[Key, int]] = []
    for bound in islice(bounds, LOOKED_INTO):
        if best and bound.cannot_improve(best.key):
            complete = True
            break
        found = look(view, tier, bound.domain, need)
        if found is not None:
            other = candidate_of(view, found)
            keys.append((other.key, bound.domain))
            best = other if best is None or other.key < best.key else best
    for _, domain in sorted(keys)[:LOOKED_CLOSELY] if is_rough else ():
        best = better_of(view, best, best_inside(view, tier, domain, need))
    if best is None or not (exact_window and view.nothing_kept_back):
        return _improve_in_one_domain(view, tier, bounds, best)
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
    return _improve_over_domains(view, tier, best)


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


def _best_tier1_domains(view: FreeView) -> list[int]:
    """Return the domains that hold the job and whose use is best, but for penalties; empty: none
    does.

    Where no node has a penalty only the first of them.
    """
    shape, slots, layout = view.shape, view.slots, view.layout
    tier, pods = shape.canonical_tier, shape.pods
    # Where something is free, one pod has room.
    most = view.most_in_one(tier) if pods > 1 else view.free_slots_of(tier)
    holding = (most >= pods).nonzero()[0]
    if not holding.size:
        return []
    missed = _missed(view, holding)
    at = int(missed.argmin())
    if not slots.penalized:
        first = _first_in_use(view, [holding.item(at)])
        if first is not None:
            return [first]
    domains = holding[missed == missed[at]]
    if not slots.penalized:
        first = _first_in_use(view, domains[1:LOOKED_THROUGH].tolist())
        if first is not None:
            return [first]
    if tier > 1:
        inside = layout.inside(tier, domains)
        domains = inside[view.free[inside] >= pods]
    broken = (slots.busy[domains] == 0) & (slots.free[domains] > pods)
    at = int(broken.argmin())
    if not slots.penalized:
        return [domains.item(at)]
    found: list[int] = domains[broken == broken[at]].tolist()
    return found


def _first_in_use(view: FreeView, domains: list[int]) -> int | None:
    """Return the first tier-1 domain in some canonical ones that holds the job and is not newly
    broken.

    A few short looks: mostly the first canonical domain has one, and numpy takes ten passes to say
    so of all. Where they have none it still tells.
    """
    firsts, free = view.layout.firsts[view.shape.canonical_tier], view.free.data
    all_free, busy, pods = view.slots.free_list, view.slots.busy.data, view.shape.pods
    for domain in domains:
        for at in range(firsts[domain], firsts[domain + 1]):
            # An exact fit breaks nothing, wherever it is.
            if free[at] >= pods and (busy[at] or all_free[at] == pods):
                return at
    return None


def _missed(view: FreeView, domains: DomainIndices) -> Counts:
    """Return how much some canonical domains are missed if the job takes its slots there.

    Compared by whether one more canonical group breaks, then, where groups are lost at all, by
    those of the top domain, then by free slots: three digits of one number.
    """
    shape, layout = view.shape, view.layout
    tier = shape.canonical_tier
    # Of whole canonical groups all domains lose equally many.
    lost, rest = divmod(shape.pods, shape.canonical)
    missed: Counts = view.missed(rest)[domains]
    # Where canonical domains are top domains, fewer free slots are no more groups.
    if tier < layout.tiers and (lost or missed.min() >= BROKEN):
        tops = layout.starts_in(tier, layout.tiers)[domains]
        missed = view.tops_before[tops] * (shape.largest + 1) + missed
    return missed


def _all_in(view: FreeView, at: int) -> Allocation:
    """Return the whole job in one tier-1 domain."""
    shape = view.shape
    domain = view.layout.of[shape.tier][at]
    return Allocation((Share(domain, shape.m, shape.r > 0),), {at: shape.pods})


def _improve_in_one_domain(
    view: FreeView, tier: int, bounds: DomainBounds, best: Candidate | None
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


def _improve_over_domains(view: FreeView, tier: int, best: Candidate) -> Candidate:
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
    return Proven.NEWLY_BROKEN if search.packing.exact else Proven.PROFILE_TOP


def _spans_proven(bounds: DomainBounds, best: Candidate) -> bool:
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
