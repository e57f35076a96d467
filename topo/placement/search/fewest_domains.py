"""Whole groups and a tail over domains of the group tier, as few domains as can be.

Result: shares of the fewest domains that hold the groups and the tail. With a tail there is a
result for each domain that could be its host and costs no more domains and groups than the best.

Why it is right: without a tail the window rule is exact (`window.py`). With one, fix its host:
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

from collections.abc import Sequence
from typing import NamedTuple

from topo.placement.job.allocation import Share
from topo.placement.search.window import fewest, window

Shares = tuple[Share, ...]


class Pool(NamedTuple):
    """Domains, the most free slots first: slots, groups that they hold, and numbers."""

    slots: list[int]
    caps: list[int]
    domains: list[int]

    def without(self, at: int) -> "Pool":
        """The same but for one of them."""
        return Pool(*(each[:at] + each[at + 1 :] for each in self))


def fewest_domains(
    domains: Sequence[int], free_slots: Sequence[int], k: int, need: tuple[int, int]
) -> list[Shares]:
    """Shares that hold m groups of k and a tail of r; `need` is m and r. Empty: impossible.

    `domains` come in natural order, `free_slots` along with them. For groups of the canonical size
    the best result is exact up to the profile of slots.
    """
    m, r = need
    if not r and max(free_slots, default=0) < 2 * k:
        return _single_groups(domains, free_slots, k, m)
    least = min(k, r) if r else k
    able = [at for at, slots in enumerate(free_slots) if slots >= least]
    able.sort(key=free_slots.__getitem__, reverse=True)  # equal ones stay in natural order
    slots = [free_slots[at] for at in able]
    caps = [each // k for each in slots] if k > 1 else slots
    pool = Pool(slots, caps, [domains[at] for at in able])
    if r:
        return _with_tail(pool, k, m, r)
    count = fewest(caps, m)
    return [_window(pool, k, (m, count), None)] if count is not None else []


def _single_groups(
    domains: Sequence[int], free_slots: Sequence[int], k: int, m: int
) -> list[Shares]:
    """The window rule where no domain holds two groups: the smallest that hold one."""
    pool = [each for each in zip(free_slots, domains, strict=True) if each[0] >= k]
    if len(pool) < m:
        return []
    pool.sort()
    return [tuple([Share(domain, 1) for _, domain in pool[:m]])]


def _with_tail(pool: Pool, k: int, m: int, r: int) -> list[Shares]:
    """Shares for each host of the tail that needs no more domains and groups than the best host."""
    best: tuple[int, int] | None = None
    hosts: list[tuple[int, int]] = []
    seen: set[tuple[int, int]] = set()
    caps = pool.caps
    for at in range(len(caps) - 1, -1, -1):  # the smallest first
        slots = pool.slots[at]
        beside = (slots - r) // k
        kind = (caps[at], 0) if beside == caps[at] else (slots, 1)
        if slots < r or kind in seen:
            continue
        seen.add(kind)
        count = fewest(caps[:at] + caps[at + 1 :], m - beside)
        if count is None:
            continue
        cost = count, caps[at] - beside
        if best is None or cost < best:
            best, hosts = cost, []
        if cost == best:
            hosts.append((at, count))
    return [
        _window(pool.without(at), k, (m, count), (pool.domains[at], pool.slots[at] - r))
        for at, count in hosts
    ]


def _window(pool: Pool, k: int, need: tuple[int, int], host: tuple[int, int] | None) -> Shares:
    """Shares of `count` domains for m groups; `host` takes the tail and has so many slots left."""
    m, count = need
    beside = host[1] // k if host else 0
    chosen = window(pool.caps, pool.slots, count, m - beside)
    amounts = {pool.domains[at]: pool.caps[at] for at in chosen}
    rests = {pool.domains[at]: pool.slots[at] % k for at in chosen}
    if host:
        amounts[host[0]], rests[host[0]] = beside, host[1] % k
    over = sum(amounts.values()) - m
    if over:
        _leave(amounts, rests, over)
    tail = host[0] if host else -1
    return tuple([Share(domain, groups, domain == tail) for domain, groups in amounts.items()])


def _leave(amounts: dict[int, int], rests: dict[int, int], over: int) -> None:
    """Leave what is not needed in one domain, the one where most stays free."""
    while over > 0:
        # Only the host of a tail may have fewer groups than are left over.
        able = [d for d in amounts if amounts[d] >= over] or list(amounts)
        best = max(able, key=lambda d: (min(over, amounts[d]), rests[d], -d))
        less = min(over, amounts[best])
        amounts[best] -= less
        over -= less
