"""Which domains of the top tier to take so that the fewest below them are used.

Each domain has a curve: the most groups that its q best children hold, with and without the tail.
A dynamic programme over the curves finds the fewest children for the whole job among all choices of
as few top domains as can be; what is left over may stay in any of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from topo.placement.field import Field
from topo.placement.spread import Need, Wanted
from topo.placement.structure import Counts

MOST_DOMAINS = 48
"""Domains whose curves are combined; of more the fullest."""
_FAR = 1 << 40


@dataclass(frozen=True, slots=True)
class _Way:
    """A use of a domain: it takes up to so many groups with so many children."""

    domain: int
    groups: int
    tail: bool
    children: int


def fewest_below(field: Field, tier: int, known: tuple[int, int]) -> tuple[Wanted, bool]:
    """What to ask of which domains of a tier, and whether no other choice needs fewer children.

    `known`: the fewest domains that can hold the job, and the children of the best choice so far.
    Nothing is wanted where there is none with fewer children.
    """
    most, used = known
    shape = field.shape
    groups = field.groups(tier)
    ranked = np.sort(groups)[::-1]
    least = max(0, shape.m - int(ranked[: most - 1].sum()))
    able = np.flatnonzero(groups >= max(least, 0 if shape.r else 1))
    whole = len(able) <= MOST_DOMAINS
    if not whole:
        able = np.sort(able[np.argsort(-groups[able], kind="stable")[:MOST_DOMAINS]])
    rest = _fewest_for(field, tier)
    items = [
        [way for way in ways if way.children + rest[max(0, shape.m - way.groups)] < used]
        for ways in (_ways(field, tier, domain, least) for domain in able.tolist())
    ]
    picked = _combined([ways for ways in items if ways], shape.m, (most, shape.r > 0))
    if picked is None:
        return [], whole
    return _levelled(picked, shape.m), whole


def _fewest_for(field: Field, tier: int) -> list[int]:
    """The fewest children, wherever they are, for each number of groups up to all of them."""
    sums = np.cumsum(np.sort(field.groups(tier - 1))[::-1])
    found = np.searchsorted(sums, np.arange(field.shape.m + 1)) + 1
    found[0] = 0
    counts: list[int] = found.tolist()
    return counts


def _ways(field: Field, tier: int, domain: int, least: int) -> list[_Way]:
    """The uses of a domain that could be part of the fewest domains; O(children log children)."""
    bounds = field.layout.below(tier, tier - 1)
    first, last = bounds[domain], bounds[domain + 1]
    caps = field.groups(tier - 1)[first:last].tolist()
    if not field.shape.r:
        caps.sort(reverse=True)
        plain = list(accumulate(caps))
        return _rising(domain, plain, max(least, 1), tail=False)
    lost = field.losses(tier - 1)[first:last].tolist()
    ranked = sorted(zip(caps, lost, strict=True), key=lambda each: -each[0])
    plain = list(accumulate(cap for cap, _ in ranked))
    spared = accumulate((loss for _, loss in ranked), min)
    alone = [*accumulate((cap - loss for cap, loss in reversed(ranked)), max)][::-1]
    beside = [
        max(held - loss, held - cap + host)
        for held, loss, (cap, _), host in zip(plain, spared, ranked, alone, strict=True)
    ]
    return [
        *_rising(domain, plain, max(least, 1), tail=False),
        *_rising(domain, beside, least, tail=True),
    ]


def _rising(domain: int, held: list[int], least: int, *, tail: bool) -> list[_Way]:
    """One way for each number of children that holds more than one child less does."""
    before = least - 1
    ways = []
    for children, groups in enumerate(held, start=1):
        if groups > before:
            ways.append(_Way(domain, groups, tail, children))
            before = groups
    return ways


def _combined(items: list[list[_Way]], groups: int, limit: tuple[int, bool]) -> list[_Way] | None:
    """At most one way of each item: all groups and the tail, the fewest children, few items."""
    most, tail = limit
    tails = 2 if tail else 1
    table = np.full((most + 1, tails, groups + 1), _FAR, np.int64)
    table[0, 0, 0] = 0
    tables = [table]
    for ways in items:
        table = table.copy()
        for way in ways:
            _use(tables[-1], table, way, groups)
        tables.append(table)
    last = table[:, tails - 1, groups]
    used = int(last.argmin())
    if last[used] >= _FAR:
        return None
    return _walked_back(tables, items, (used, tails - 1, groups))


def _use(before: Counts, after: Counts, way: _Way, groups: int) -> None:
    """Uses of one more item; more groups than are asked for count as all of them."""
    source = before[:-1, 0] if way.tail else before[:-1]
    target = after[1:, 1] if way.tail else after[1:]
    cut = max(0, groups - way.groups)
    if way.groups and cut:
        moved = source[..., :cut] + way.children
        np.minimum(target[..., way.groups : groups], moved, out=target[..., way.groups : groups])
    elif not way.groups:
        np.minimum(target, source + way.children, out=target)
        return
    rest = source[..., cut:].min(axis=-1) + way.children
    np.minimum(target[..., groups], rest, out=target[..., groups])


def _walked_back(
    tables: Sequence[Counts], items: list[list[_Way]], state: tuple[int, int, int]
) -> list[_Way]:
    used, tail, groups = state
    everything = tables[0].shape[2] - 1
    picked: list[_Way] = []
    for at in range(len(items) - 1, -1, -1):
        value = int(tables[at + 1][used, tail, groups])
        if int(tables[at][used, tail, groups]) == value:
            continue
        for way in items[at]:
            if way.tail and not tail:
                continue
            below = tables[at][used - 1, tail - way.tail]
            low = max(0, groups - way.groups)
            high = everything if groups == everything else low
            row = below[low : high + 1]
            if groups < everything and groups < way.groups:
                continue
            best = int(row.argmin())
            if int(row[best]) + way.children == value:
                picked.append(way)
                used, tail, groups = used - 1, tail - way.tail, low + best
                break
    return picked[::-1]


def _levelled(picked: list[_Way], groups: int) -> Wanted:
    """What is too much is left in the last domains that can spare it."""
    over = sum(way.groups for way in picked) - groups
    wanted: Wanted = []
    for way in sorted(picked, key=lambda way: (way.groups, way.domain)):
        less = min(over, way.groups if way.tail else max(0, way.groups - 1))
        over -= less
        need: Need = (way.groups - less, way.tail)
        wanted.append((way.domain, need))
    return wanted
