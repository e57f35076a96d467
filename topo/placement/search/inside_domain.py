"""Whole groups and a tail inside one domain: the window rule at each tier, down to tier 1.

Result: allocations for whole groups, and the tail or not, in one domain. There is one for each way
to host the tail, and the best of them by the whole objective is taken.

Why it is right: for the tiers above the groups, only the number of groups that a child can hold
counts. The rule chooses the fewest children and leaves the largest alone. It is not exact for the
numbers that come after the spans; what may be better is searched afterwards (`whole_groups.py`).
In the tier of the groups slots are counted instead (`group_shares.py`).

Cost: a sort of the children of each domain that is used. What was found for a domain is kept for
the rest of the search.

Example: groups of 8 pods, and a tail of 4, 20 pods in all. Under one pod of switchboxes are
switchbox A with dragonflies of 8, 8 and B with 8, 4 free slots. A holds 2 groups, B 1; the tail
costs A a group and B none. With B as its host 1 group is left for A: two switchboxes. With A as
its host A holds 1 group and B 1: two as well. B loses no group, so it comes first. It is asked
for 1 group and the tail, A for 1 group.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from topo.placement.job.plan import Allocation, Share, joined
from topo.placement.quality.measure import best_of
from topo.placement.search.group_shares import fewest_domains, fewest_for_pods
from topo.placement.search.window_rule import fewest, window
from topo.placement.view import FreeView

TAIL_HOSTS = 4
"""Domains above the tier of the groups that are tried as the host of the tail."""

Demand = tuple[int, bool]
"""Whole groups, and whether the tail too."""
Demands = list[tuple[int, Demand]]
"""What is asked of which domains."""


def first_inside(view: FreeView, tier: int, domain: int, need: Demand) -> Allocation | None:
    """Return the first way to do what `best_inside` does: with the smallest host of the tail."""
    bounds = view.layout.below(tier, tier - 1)
    return next(ways_over(view, tier - 1, range(bounds[domain], bounds[domain + 1]), need), None)


def best_inside(view: FreeView, tier: int, domain: int, need: Demand) -> Allocation | None:
    """Return the best way found to put whole groups, and the tail or not, into one domain of a
    tier.
    """
    if tier == view.shape.tier:
        return spread(view, Share(domain, *need))
    key = tier, domain, need
    if key not in view.allocation_cache:
        bounds = view.layout.below(tier, tier - 1)
        children = range(bounds[domain], bounds[domain + 1])
        # The window rule asks for the same few needs of the same domains again and again.
        found = best_of(view, ways_over(view, tier - 1, children, need))
        view.allocation_cache[key] = found
    return view.allocation_cache[key]


def ways_over(view: FreeView, tier: int, domains: range, need: Demand) -> Iterator[Allocation]:
    """Yield ways to use the fewest of some adjacent domains of a tier."""
    groups, tail = need
    shape = view.shape
    if tier == shape.tier:
        here = view.free_slots[domains.start : domains.stop]
        for shares in fewest_domains(domains, here, shape.k, (groups, shape.r if tail else 0)):
            yield _all_spread(view, shares)
        return
    for demands in _demands(view, tier, domains, need):
        parts = [best_inside(view, tier, domain, part) for domain, part in demands]
        if all(part is not None for part in parts):
            yield joined(part for part in parts if part is not None)


def _demands(view: FreeView, tier: int, domains: range, need: Demand) -> Iterator[Demands]:
    """Return what to ask of the fewest domains of a tier above the groups, a list for each host."""
    groups, tail = need
    caps = view.groups(tier)[domains.start : domains.stop]
    order = np.argsort(-caps, kind="stable")
    ranked = caps[order]
    # Domains without room for a group are at the end of the order: they are cut off.
    able = int(np.count_nonzero(caps))
    sizes = ranked[:able].tolist()
    pool = list(zip(sizes, (domains.start + order[:able]).tolist(), strict=True))
    if not tail:
        count = fewest(sizes, groups)
        if count is not None:
            chosen = [pool[i] for i in window(sizes, sizes, count, groups)]
            yield _amounts(view, tier, [(d, cap, False) for cap, d in chosen], groups)
        return
    for host, beside in _hosts(view, tier, domains, (sizes, groups)):
        # With the host fixed, the other domains are chosen by the window rule without a tail.
        rest = [each for each in pool if each[1] != host]
        left = [cap for cap, _ in rest]
        count = fewest(left, groups - beside) or 0
        chosen = [rest[i] for i in window(left, left, count, groups - beside)]
        full = [(d, cap, False) for cap, d in chosen]
        yield _amounts(view, tier, [*full, (host, beside, True)], groups)


def _hosts(
    view: FreeView, tier: int, domains: range, need: tuple[list[int], int]
) -> list[tuple[int, int]]:
    """Return domains that could host the tail, and the groups they hold beside it, the best first.

    Only those with which the fewest domains suffice, and of domains that hold equally many groups
    with and without the tail only the first.
    """
    sizes, groups = need
    found: list[tuple[int, int, int, int]] = []
    seen: set[tuple[int, int]] = set()
    here = slice(domains.start, domains.stop)
    caps, losses = view.groups(tier)[here].tolist(), view.losses(tier)[here].tolist()
    for domain, cap, loss in zip(domains, caps, losses, strict=True):
        # A domain that cannot take the tail has a loss greater than any capacity.
        if cap < loss or (cap, loss) in seen:
            continue
        seen.add((cap, loss))
        rest = sizes[:]
        if cap:
            rest.remove(cap)
        count = fewest(rest, groups - cap + loss)
        if count is not None:
            found.append((count, loss, cap, domain))
    found.sort()
    least = found[0][0] if found else 0
    return [(d, cap - loss) for count, loss, cap, d in found if count == least][:TAIL_HOSTS]


def _amounts(view: FreeView, tier: int, full: list[tuple[int, int, bool]], groups: int) -> Demands:
    """Return all that the chosen hold, less what is too much: left where it spares most tier-1
    domains.
    """
    left = sum(cap for _, cap, _ in full) - groups
    able = [(d, cap, tail) for d, cap, tail in full if cap >= left and (tail or cap > left)]
    if not left:
        return [(d, (cap, tail)) for d, cap, tail in full]
    if not able:
        return _levelled(full, left)
    if view.one_group_each:
        one = able[0][0]
    else:
        # The chosen hold more than the job has. Who gives less is free to choose: the one in which
        # the lower tiers save most.
        spared = [(_tier1_spared(view, tier, each, left), -i) for i, each in enumerate(able)]
        one = able[-max(spared)[1]][0]  # the first in natural order where several spare as many
    return [(d, (cap - (left if d == one else 0), tail)) for d, cap, tail in full]


def _tier1_spared(view: FreeView, tier: int, full: tuple[int, int, bool], left: int) -> int:
    """Return how many fewer tier-1 domains are used if a domain leaves so many of its groups."""
    domain, cap, tail = full
    ways = [best_inside(view, tier, domain, (groups, tail)) for groups in (cap, cap - left)]
    used = [len(way.tier1_pods) if way else 0 for way in ways]
    return used[0] - used[1]


def _levelled(full: list[tuple[int, int, bool]], left: int) -> Demands:
    """Where no domain alone can leave so much: the last ones leave all that they have."""
    demands: Demands = []
    for domain, cap, tail in reversed(full):
        less = min(cap, left)
        left -= less
        demands.append((domain, (cap - less, tail)))
    return [(d, (groups, tail)) for d, (groups, tail) in demands if groups or tail]


def _all_spread(view: FreeView, shares: Sequence[Share]) -> Allocation:
    shape = view.shape
    if shape.tier > 1:
        return joined(spread(view, share) for share in shares)
    return Allocation(tuple(shares), {share.domain: shape.pods_in(share) for share in shares})


def spread(view: FreeView, share: Share) -> Allocation:
    """Return a share of a domain of the group tier, over the fewest tier-1 domains in it."""
    shape, domain = view.shape, share.domain
    pods = shape.pods_in(share)
    if shape.tier == 1:
        return Allocation((share,), {domain: pods})
    key = shape.tier, domain, (share.groups, share.tail)
    known = view.allocation_cache.get(key)
    if known is None:
        tier1_pods = _over_children(view, domain, pods)
        known = view.allocation_cache[key] = (
            Allocation((share,), tier1_pods) if tier1_pods else Allocation((), {})
        )
    return known


def _over_children(view: FreeView, domain: int, pods: int) -> dict[int, int] | None:
    """Single pods over the fewest tier-1 domains of a domain of the group tier."""
    tier = view.shape.tier - 1
    bounds = view.layout.below(tier + 1, tier)
    children = range(bounds[domain], bounds[domain + 1])
    if tier == 1:
        free_slots = view.free[children.start : children.stop].tolist()
        return fewest_for_pods(children, free_slots, pods)
    # Inside a domain of the group tier pods may go anywhere: the same rule, with groups of one.
    single = view.single_pods(pods)
    found = best_of(single, ways_over(single, tier, children, (pods, False)))
    return found.tier1_pods if found else None
