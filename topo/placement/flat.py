"""Whole groups and a tail over domains of the group tier, as few of them as can be."""

from collections.abc import Iterator, Sequence

from topo.placement.draft import Share
from topo.placement.window import fewest, window

Shares = tuple[Share, ...]


def flat(
    domains: Sequence[int], rooms: Sequence[int], k: int, need: tuple[int, int]
) -> list[Shares]:
    """Candidates to hold m groups of k and a tail of r in the fewest domains; empty: impossible.

    `rooms` are the free slots of `domains`. Without a tail there is one candidate: the window rule
    is exact. With one there is a candidate for each room that could host it.
    """
    m, r = need
    order = sorted(range(len(domains)), key=lambda i: (-rooms[i], domains[i]))
    order = [i for i in order if rooms[i] >= (min(k, r) if r else k)]
    if not r:
        found = _window([(domains[i], rooms[i]) for i in order], k, m, None)
        return [found] if found else []
    candidates = list(_with_tail([(domains[i], rooms[i]) for i in order], k, m, r))
    least = min(map(len, candidates), default=0)
    return [shares for shares in candidates if len(shares) == least]


_Pool = list[tuple[int, int]]


def _with_tail(pool: _Pool, k: int, m: int, r: int) -> Iterator[Shares]:
    seen: set[int] = set()
    for at, (host, room) in enumerate(pool):
        if room < r or room in seen:
            continue
        seen.add(room)
        rest = pool[:at] + pool[at + 1 :]
        found = _window(rest, k, m, (host, room - r))
        if found is not None:
            yield found


def _window(pool: _Pool, k: int, m: int, host: tuple[int, int] | None) -> Shares | None:
    """The fewest of a pool sorted by room, beside the host of the tail with what it has left."""
    beside = host[1] // k if host else 0
    caps = [room // k for _, room in pool]
    count = fewest(caps, m - beside)
    if count is None:
        return None
    chosen = [pool[i] for i in window(caps, count, m - beside)]
    amounts = {domain: room // k for domain, room in chosen}
    rests = {domain: room % k for domain, room in chosen}
    if host:
        amounts[host[0]], rests[host[0]] = beside, host[1] % k
    _leave(amounts, rests, sum(amounts.values()) - m)
    return tuple(
        Share(domain, groups, host is not None and domain == host[0])
        for domain, groups in amounts.items()
    )


def _leave(amounts: dict[int, int], rests: dict[int, int], over: int) -> None:
    """Leave what is not needed in one domain, the one where most stays free."""
    while over > 0:
        # Only the host of a tail may have fewer groups than are left over.
        able = [d for d in amounts if amounts[d] >= over] or list(amounts)
        best = max(able, key=lambda d: (min(over, amounts[d]), rests[d], -d))
        less = min(over, amounts[best])
        amounts[best] -= less
        over -= less
