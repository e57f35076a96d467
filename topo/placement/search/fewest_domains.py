"""Whole groups and a tail over domains of the group tier, as few of them as can be."""

from collections.abc import Sequence

from topo.placement.job.allocation import Share
from topo.placement.search.window import fewest, window

Shares = tuple[Share, ...]
Pool = list[tuple[int, int]]
"""Free slots and domain, the most slots first."""


def fewest_domains(
    domains: Sequence[int], free_slots: Sequence[int], k: int, need: tuple[int, int]
) -> list[Shares]:
    """Candidates to hold m groups of k and a tail of r in the fewest domains; empty: impossible.

    `free_slots` are the free slots of `domains`, which are in natural order. Where a group is the
    canonical one the best candidate is exact up to the leximax of slots: without a tail the only
    one, by the window rule; with one there is a candidate for each slots that could host it and
    costs no more groups than need be.
    """
    m, r = need
    if not r and max(free_slots, default=0) < 2 * k:
        return _ones(domains, free_slots, k, m)
    least = min(k, r) if r else k
    pool = [
        (-slots, domain)
        for slots, domain in zip(free_slots, domains, strict=True)
        if slots >= least
    ]
    pool.sort()
    ranked = [(-minus, domain) for minus, domain in pool]
    if r:
        return _with_tail(ranked, k, m, r)
    count = fewest([slots // k for slots, _ in ranked], m)
    return [_window(ranked, k, (m, count), None)] if count is not None else []


def _ones(domains: Sequence[int], free_slots: Sequence[int], k: int, m: int) -> list[Shares]:
    """The window rule where no slots holds two groups: the smallest that hold one."""
    pool = [each for each in zip(free_slots, domains, strict=True) if each[0] >= k]
    if len(pool) < m:
        return []
    pool.sort()
    return [tuple([Share(domain, 1) for _, domain in pool[:m]])]


def _with_tail(pool: Pool, k: int, m: int, r: int) -> list[Shares]:
    """A candidate for each host of the tail that needs no more domains or groups than the best.

    Of hosts that lose no group and hold equally many beside the tail the smallest is the best: any
    other could change places with it.
    """
    caps = [slots // k for slots, _ in pool]
    best: tuple[int, int] | None = None
    hosts: list[tuple[int, int]] = []
    seen: set[tuple[int, int]] = set()
    for at in range(len(pool) - 1, -1, -1):
        slots = pool[at][0]
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
        _window(pool[:at] + pool[at + 1 :], k, (m, count), (pool[at][1], pool[at][0] - r))
        for at, count in hosts
    ]


def _window(pool: Pool, k: int, need: tuple[int, int], host: tuple[int, int] | None) -> Shares:
    """So many domains of a pool for m groups, beside the host of the tail with what it has left."""
    m, count = need
    beside = host[1] // k if host else 0
    caps = [slots // k for slots, _ in pool]
    chosen = [pool[i] for i in window(caps, [slots for slots, _ in pool], count, m - beside)]
    amounts = {domain: slots // k for slots, domain in chosen}
    rests = {domain: slots % k for slots, domain in chosen}
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
