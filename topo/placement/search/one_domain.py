"""The best tier-1 domain for a job that fits in one.

Result: all tier-1 domains whose use is best by the whole objective, but for the penalty of nodes.

Why it is right: with one domain each number of the objective follows from the free slots of that
domain and of the canonical domain around it. Each step keeps those that are best in one number, in
the order of the objective.

Cost: a few passes over the canonical domains: how much each is missed is kept between calls.

Example: a job of 3 pods, canonical groups of 8, free slots 11, 8, 5 and 3. 11, 5 and 3 lose no
canonical group, 8 loses one and is out. Of 11, 5 and 3 the smallest leaves the largest ones
alone: 3 is the answer.
"""

from topo.placement.capacity.layout import Counts, DomainIndices
from topo.placement.capacity.slots import BROKEN
from topo.placement.job.plan import Allocation, Share
from topo.placement.view.free_view import FreeView

LOOKED_THROUGH = 4
"""Equal canonical domains that are looked through one by one before all of them are together."""


def best_tier1_domains(view: FreeView) -> list[int]:
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


def in_tier1_domain(view: FreeView, at: int) -> Allocation:
    """Return the whole job in one tier-1 domain."""
    shape = view.shape
    domain = view.layout.of[shape.tier][at]
    return Allocation((Share(domain, shape.m, shape.r > 0),), {at: shape.pods})
