"""The window rule: the fewest domains that hold a job, chosen so that the largest stay free.

Result: p domains, with p the least number that covers the need, such that the sorted list of what
stays free is as large as possible (leximax).

Why it is right: slide a window of p down the sorted capacities as far as its sum still covers the
need. Every choice of p domains has a largest one of at least this size. Fix that one, and repeat
with p - 1 and the rest. The slots that the job leaves are fewer than every chosen domain has, or
p - 1 domains would do; so they can stay together in one of the chosen domains. The proof is in
docs/placement.md, "The window rule".

Cost: one pass for the sums, then a binary search for each of the p.

Example: capacities 10, 9, 9 and a need of 18. The sums of two neighbours are 19 and 18: the last
window that covers the need starts at the first 9. With it fixed, 9 are missing: the last window
of one that covers them is the second 9. So 9 and 9 are taken, and 10 stays. Largest first and
best fit for the last one would take 10 and 9, and leave 9 and 1.

Whole groups and a tail, over domains of the group tier. Result: shares of the fewest domains that
hold the groups and the tail. With a tail there is a result for each domain that could be its host
and costs no more domains and groups than the best.

Why it is right: without a tail the window rule is exact. With one, fix its host:
what is left is the window rule again, over the other domains and what the host holds beside the
tail. Of two hosts that lose no group and hold equally many beside the tail, the smaller is the
better one: in any placement they could change places.

Cost: a sort, and a window for each host. There are at most as many hosts as sizes of domains.

Example: 9, 8, 5 and 4 free slots, groups of 8 and a tail of 4, 12 pods in all. Hosts:

    4    holds 0 groups beside the tail and loses none; the window adds 8    2 domains
    5    the same, but 4 is smaller: passed over
    8    loses its group, which 9 must hold                                  2 domains, 1 group
    9    the same

The first one is the only result: 8 and 4 are used up, and 9 stays whole.

Over the children of one domain, tier by tier down to tier 1. Result: allocations for whole groups,
and the tail or not, in one domain. There is one for each way to host the tail, and the best of them
by the whole objective is taken.

Why it is right: for the tiers above the groups, only the number of groups that a child can hold
counts. The rule chooses the fewest children and leaves the largest alone. It
is not exact for the numbers that come after the spans; what may be better is searched afterwards
(`whole_groups.py`). In the tier of the groups slots are counted instead.

Cost: a sort of the children of each domain that is used. What was found for a domain is kept for
the rest of the search.

Example: groups of 8 pods, and a tail of 4, 20 pods in all. Under one pod of switchboxes are
switchbox A with dragonflies of 8, 8 and B with 8, 4 free slots. A holds 2 groups, B 1; the tail
costs A a group and B none. With B as its host 1 group is left for A: two switchboxes. With A as
its host A holds 1 group and B 1: two as well. B loses no group, so it comes first. It is asked
for 1 group and the tail, A for 1 group.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from operator import neg
from typing import NamedTuple

import numpy as np

from topo.placement.capacity.layout import Counts
from topo.placement.job.plan import Allocation, Share, joined
from topo.placement.quality.measure import best_of
from topo.placement.view import FreeView

FEW = 64
"""Domains up to which plain lists are sorted."""
Shares = tuple[Share, ...]
Amounts = dict[int, int]
"""Groups by domain."""
TAIL_HOSTS = 4
"""Domains above the tier of the groups that are tried as the host of the tail."""

Demand = tuple[int, bool]
"""Whole groups, and whether the tail too."""
Demands = list[tuple[int, Demand]]
"""What is asked of which domains."""


def fewest(descending: Sequence[int], need: int) -> int | None:
    """Return the least number of capacities whose sum is at least the need; None if all are too
    little.
    """
    if need <= 0:
        return 0
    total = 0
    for count, capacity in enumerate(descending, start=1):
        total += capacity
        if total >= need:
            return count
    return None


def window(
    descending: Sequence[int], free_slots: Sequence[int], count: int, need: int
) -> list[int]:
    """Return indexes of at most `count` capacities that cover the need and leave the most; O(n + p
    log n).

    The first `count` must cover it. `free_slots` belong to the capacities, and descend as they do.
    Of equal free slots the first is taken, which is the first in natural order.
    """
    sums = [0, *accumulate(descending)]
    chosen: list[int] = []
    start, size = 0, len(descending)
    for left in range(count, 0, -1):
        if need <= 0:
            break
        low, high = start, size - left
        while low < high:
            middle = (low + high + 1) // 2
            if sums[middle + left] - sums[middle] >= need:
                low = middle
            else:
                high = middle - 1
        # The last start may be one of several equal ones.
        low = bisect_left(free_slots, -free_slots[low], start, low, key=neg)
        chosen.append(low)
        need -= descending[low]
        start = low + 1
    return chosen


class Pool(NamedTuple):
    """Domains, the most free slots first: slots, groups that they hold, and numbers."""

    slots: list[int]
    caps: list[int]
    domains: list[int]

    def without(self, at: int) -> "Pool":
        """Return the same but for one of them."""
        return Pool(*(each[:at] + each[at + 1 :] for each in self))


def fewest_domains(
    domains: range, free_slots: Counts, k: int, need: tuple[int, int]
) -> Iterable[Shares]:
    """Return shares that hold m groups of k and a tail of r; `need` is m and r. Empty: impossible.

    `free_slots` come along with `domains`. For groups of the canonical size the best result is
    exact up to the profile of slots.
    """
    m, r = need
    least = min(k, r) if r else k
    if len(domains) > FEW:
        # numpy sorts thousands faster, and a list a few: most domains have a dozen children.
        pool = _pool_of_many(domains, free_slots, k, least)
    else:
        numbers = free_slots.tolist()
        if not r and max(numbers, default=0) < 2 * k:
            return _single_groups(domains, numbers, k, m)
        pool = _pool_of_few(domains, numbers, k, least)
    if r:
        return _with_tail(pool, k, m, r)
    count = fewest(pool.caps, m)
    return [_shares(_window(pool, k, (m, count), None))] if count is not None else []


def _fewest_for_pods(domains: range, free_slots: list[int], pods: int) -> Amounts | None:
    """Return pods by domain where each may go anywhere by itself; None: they do not fit.

    The same rule, for the few domains inside another one.
    """
    pool = _pool_of_few(domains, free_slots, 1, 1)
    count = fewest(pool.slots, pods)
    return None if count is None else _window(pool, 1, (pods, count), None)


def _pool_of_many(domains: range, free_slots: Counts, k: int, least: int) -> Pool:
    """Return those with so many slots at least; equal ones stay in natural order."""
    able = (free_slots >= least).nonzero()[0]
    able = able[(-free_slots[able]).argsort(kind="stable")]
    ranked = free_slots[able]
    slots = ranked.tolist()
    caps = (ranked // k).tolist() if k > 1 else slots
    return Pool(slots, caps, (able + domains.start).tolist())


def _pool_of_few(domains: range, free_slots: list[int], k: int, least: int) -> Pool:
    """Return the same: plain lists cost less than arrays where there are few."""
    able = [at for at, slots in enumerate(free_slots) if slots >= least]
    able.sort(key=free_slots.__getitem__, reverse=True)
    slots = [free_slots[at] for at in able]
    caps = [each // k for each in slots] if k > 1 else slots
    return Pool(slots, caps, [domains[at] for at in able])


def _single_groups(domains: range, free_slots: list[int], k: int, m: int) -> list[Shares]:
    """Return the window rule where no domain holds two groups: the smallest that hold one."""
    able = [at for at, slots in enumerate(free_slots) if slots >= k]
    if len(able) < m:
        return []
    able.sort(key=free_slots.__getitem__)
    return [tuple([Share(domains[at], 1) for at in able[:m]])]


def _with_tail(pool: Pool, k: int, m: int, r: int) -> Iterator[Shares]:
    """Yield shares for each host of the tail that needs no more domains and groups than the best
    host.
    """
    best: tuple[int, int] | None = None
    hosts: list[tuple[int, int]] = []
    seen: set[tuple[int, int]] = set()
    caps = pool.caps
    for at in range(len(caps) - 1, -1, -1):  # the smallest first
        slots = pool.slots[at]
        beside = (slots - r) // k
        # Hosts that lose no group are alike by their groups, the others by their slots. Of each
        # kind the smallest is tried alone: it leaves the larger ones.
        kind = (caps[at], 0) if beside == caps[at] else (slots, 1)
        if slots < r or kind in seen:
            continue
        seen.add(kind)
        # What the host does not hold beside the tail is left to the others.
        count = fewest(caps[:at] + caps[at + 1 :], m - beside)
        if count is None:
            continue
        cost = count, caps[at] - beside
        if best is None or cost < best:
            best, hosts = cost, []
        if cost == best:
            hosts.append((at, count))
    for at, count in hosts:
        host = pool.domains[at]
        amounts = _window(pool.without(at), k, (m, count), (host, pool.slots[at] - r))
        yield _shares(amounts, host)


def _shares(amounts: Amounts, host: int = -1) -> Shares:
    return tuple([Share(domain, groups, domain == host) for domain, groups in amounts.items()])


def _window(pool: Pool, k: int, need: tuple[int, int], host: tuple[int, int] | None) -> Amounts:
    """Return what `count` domains take of m groups; `host` takes the tail and has so many slots
    left.
    """
    m, count = need
    beside = host[1] // k if host else 0
    chosen = window(pool.caps, pool.slots, count, m - beside)
    amounts = {pool.domains[at]: pool.caps[at] for at in chosen}
    if host:
        # The host keeps its groups beside the tail, even if they are none.
        amounts[host[0]] = beside
    over = sum(amounts.values()) - m
    if over:
        # The domain that gives up groups keeps the slots of its rest free with them.
        rests = {pool.domains[at]: pool.slots[at] % k for at in chosen}
        if host:
            rests[host[0]] = host[1] % k
        _leave(amounts, rests, over)
    return amounts


def _leave(amounts: Amounts, rests: dict[int, int], over: int) -> None:
    """Leave what is not needed in one domain, the one where most stays free."""
    while over > 0:
        # Only the host of a tail may have fewer groups than are left over.
        able = [d for d in amounts if amounts[d] >= over] or list(amounts)
        best = max(able, key=lambda d: (min(over, amounts[d]), rests[d], -d))
        less = min(over, amounts[best])
        amounts[best] -= less
        over -= less


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
        return _fewest_for_pods(children, free_slots, pods)
    # Inside a domain of the group tier pods may go anywhere: the same rule, with groups of one.
    single = view.single_pods(pods)
    found = best_of(single, ways_over(single, tier, children, (pods, False)))
    return found.tier1_pods if found else None
