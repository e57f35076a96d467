"""Whole groups and a tail, in the fewest domains of the group tier.

Result: shares of the fewest domains that hold the groups and the tail. With a tail there is a
result for each domain that could be its host and costs no more domains and groups than the best.

Why it is right: without a tail the window rule (`window_rule.py`) is exact. With one, fix its host:
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
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from topo.placement.capacity.layout import Counts
from topo.placement.job.plan import Share
from topo.placement.search.window_rule import fewest, window

FEW = 64
"""Domains up to which plain lists are sorted."""
Shares = tuple[Share, ...]
Amounts = dict[int, int]
"""Groups by domain."""


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


def fewest_for_pods(domains: range, free_slots: list[int], pods: int) -> Amounts | None:
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
