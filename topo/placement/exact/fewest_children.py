"""Which top domains to take, so that the fewest domains below them are used.

Result: how many groups each chosen top domain takes, and which takes the tail, with the fewest
children among all choices of the least number of top domains. Nothing, if no choice needs fewer
children than the one that is known.

Why it is right: for each top domain count the fewest children that hold x groups, with and
without the tail. Top domains do not interact, so the total is the sum over the chosen ones, and a
knapsack over groups and domains used finds the least. If that choice holds more groups than the
job has, some are left out: fewer groups never need more children.

Cost: a bound comes first: the same knapsack over one domain that is at each x the best of all.
Mostly it says that nothing better exists. Else domains x groups squared, in numpy. Above
MOST_STATES or MOST_POINTS nothing is looked for, and nothing is proven.

Example: top domains A, B and C need 1, 1, 2 / 1, 2, 3 / 1, 1, 1 children for 1, 2, 3 groups. 4
groups are needed, so two top domains. Over the best of all (1, 1, 1) the bound is 2 children. A
and C reach it: 1 group in A (1 child) and 3 in C (1 child). A choice with 3 children is therefore
improved, and a choice with 2 is proven.
"""

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from topo.placement.capacity.layout import Counts, DomainIndices
from topo.placement.search.descend import Demand, Demands
from topo.placement.search.free_view import FreeView

MOST_DOMAINS = 40
"""Top domains in the knapsack; if more could be part of something better, those that need least."""
MOST_STATES = 1 << 15
"""States of the bound's table times numbers of groups that a domain may take."""
MOST_POINTS = 1 << 17
"""Top domains times numbers of groups for which children are counted."""
_IMPOSSIBLE = 10_000
"""More children than any job in so few states has; twice as many fit in a `Costs`."""
Costs = NDArray[np.int16]
"""Children by tail (no, yes), domain, and groups from the least that any domain must hold."""


class _Limits(NamedTuple):
    """The job's groups, the most top domains, and the children that a better choice stays below.

    A domain takes `low` to `high` groups, or it is not used.
    """

    groups: int
    most: int
    used: int
    low: int
    high: int


def fewest_children(view: FreeView, tier: int, known: tuple[int, int]) -> tuple[Demands, bool]:
    """What to ask of which domains of a tier, and whether no other choice needs fewer children.

    `known`: the fewest domains that can hold the job, and the children of the best choice so far.
    The list is empty if no choice needs fewer children than that.
    """
    most, used = known
    shape = view.shape
    groups = view.groups(tier)
    high = min(shape.m, int(groups.max()))
    ranked = np.sort(groups)[::-1]
    low = max(0, shape.m - int(ranked[: most - 1].sum()))
    limits = _Limits(shape.m, most, used, low, high)
    states = (1 + (shape.r > 0)) * (most + 1) * (shape.m + 1 + high)
    if states * (high - low + 1) > MOST_STATES or used >= _IMPOSSIBLE:
        return [], False
    able = np.flatnonzero(groups >= max(low, 0 if shape.r else 1))
    able = able[np.argsort(groups[able], kind="stable")]
    if len(able) * (high - low + 1) > MOST_POINTS:
        return [], False
    costs = _children_needed(view, tier, able, limits)
    rest = _least(costs, limits)
    # Even if every domain were the best of all, as many children would be needed.
    if rest[-1, -1, high + shape.m] >= used:
        return [], True
    chosen, exact = _promising(costs, rest, limits)
    picked = _combined(costs[:, chosen], limits)
    if picked is None:
        return [], exact
    ways = [(int(able[chosen[item]]), (x, tail)) for item, x, tail in picked]
    return _levelled(ways, shape.m), exact


def _children_needed(view: FreeView, tier: int, able: DomainIndices, limits: _Limits) -> Costs:
    """The fewest children of each domain for each number of groups; `_IMPOSSIBLE`: it cannot."""
    shape, layout = view.shape, view.layout
    starts = layout.starts_in(tier, tier - 1)
    points = np.arange(limits.low, limits.high + 1)
    if tier == shape.tier:
        caps, lost = layout.rolled(view.free, tier - 1), None
        needs = [points * shape.k] + ([points * shape.k + shape.r] if shape.r else [])
    else:
        caps, lost = view.groups(tier - 1), view.losses(tier - 1) if shape.r else None
        needs = [points] * (2 if shape.r else 1)
    ends = np.append(starts[1:], len(caps))[able]
    first, width = starts[able], int((ends - starts[able]).max())
    across = np.arange(width)
    at = first[:, None] + across
    real = at < ends[:, None]
    at = np.minimum(at, len(caps) - 1)
    rows = np.where(real, caps[at], 0)
    if lost is None:
        rows.sort(axis=1)
        # By child, then domain: numpy is several times as fast along the outer axis.
        held = np.ascontiguousarray(rows[:, ::-1].T).cumsum(axis=0)
        every = [held] * len(needs)
    else:
        both = _with_and_without(rows, np.where(real, lost[at], _IMPOSSIBLE))
        every = [np.ascontiguousarray(held.T) for held in both]
    costs = np.stack([_reached(held, need) for held, need in zip(every, needs, strict=True)])
    if not limits.low:
        costs[0, :, 0] = _IMPOSSIBLE
    return costs


def _with_and_without(rows: Counts, lost: Counts) -> list[Counts]:
    """The groups that the q best children of each domain hold, and beside the tail."""
    order = np.argsort(-rows, axis=1, kind="stable")
    rows, lost = np.take_along_axis(rows, order, 1), np.take_along_axis(lost, order, 1)
    held = rows.cumsum(axis=1)
    spared = np.minimum.accumulate(lost, axis=1)
    alone = np.maximum.accumulate((rows - lost)[:, ::-1], axis=1)[:, ::-1]
    beside = np.maximum(held - spared, held - rows + alone)
    return [held, np.maximum.accumulate(beside, axis=1)]


def _reached(held: Counts, needs: Counts) -> Costs:
    """How many children of each domain are needed for each need; `held` by child and domain."""
    width, domains = held.shape
    found = np.empty((domains, len(needs)), np.int16)
    for at, need in enumerate(needs.tolist()):
        found[:, at] = (held < need).sum(axis=0, dtype=np.int16) + 1
    found[found > width] = _IMPOSSIBLE
    return found


def _least(costs: Costs, limits: _Limits) -> Costs:
    """A bound: the fewest children for each number of groups and of top domains.

    By tail and domains; the groups start after as many places as a domain may take groups.
    """
    groups, most, _, low, high = limits
    best = costs.min(axis=1)[:, None]
    tails = len(costs)
    table = np.full((tails, most + 1, high + groups + 1), _IMPOSSIBLE, np.int16)
    table[0, 0, high] = 0
    tail, step, one = table.strides
    shape = most, high - low + 1, tails, 1, groups + 1
    windows = as_strided(table, shape, (step, one, tail, 0, one))
    for used in range(most):
        before, after = table[:, used], table[:, used + 1]
        after[:, high:] = before[:, high:]
        _use(windows[used], after[:, None], best, limits)
    return table


def _use(windows: Costs, after: Costs, children: Costs, limits: _Limits) -> None:
    """Use one more domain on top of each state before, and keep in `after` what is less.

    `windows` are the states before, shifted by each number of groups that the domain may take.
    """
    count, tails = windows.shape[:2]
    high = limits.high
    plain = children[0, 0, ::-1].reshape(count, 1, 1, 1)
    target = after[..., high:]
    np.minimum(target, (windows + plain).min(axis=0), out=target)
    if tails > 1:
        beside = children[1, 0, ::-1].reshape(count, 1, 1)
        np.minimum(target[1], (windows[:, 0] + beside).min(axis=0), out=target[1])


def _promising(costs: Costs, rest: Costs, limits: _Limits) -> tuple[DomainIndices, bool]:
    """The domains that may be part of something better, and whether these are all of them.

    Of domains for a number of groups only as many of the cheapest as are used: any other could
    change places with one of them.
    """
    groups, most, used, low, high = limits
    others = rest[:, most - 1, high + groups - high : high + groups - low + 1][:, ::-1]
    total = costs[0] + others[-1]
    if len(costs) > 1:
        total = np.minimum(total, costs[1] + others[0])
        costs[1][costs[1] + others[0] >= used] = _IMPOSSIBLE
    costs[0][costs[0] + others[-1] >= used] = _IMPOSSIBLE
    cheap = np.zeros(costs.shape[1], np.bool_)
    for needed in costs:
        order = np.argsort(needed, axis=0, kind="stable")[:most]
        near = np.take_along_axis(needed, order, 0) < _IMPOSSIBLE
        cheap[order[near]] = True
    chosen = np.flatnonzero(cheap)
    if len(chosen) <= MOST_DOMAINS:
        return chosen, True
    least = total[chosen].min(axis=1)
    return np.sort(chosen[np.argsort(least, kind="stable")[:MOST_DOMAINS]]), False


def _combined(costs: Costs, limits: _Limits) -> list[tuple[int, int, bool]] | None:
    """(item, groups, tail) of items that hold all with the fewest children; None: not fewer."""
    groups, most, used, _, high = limits
    tails, items = costs.shape[:2]
    tables = np.full((items + 1, tails, most + 1, high + groups + 1), _IMPOSSIBLE, np.int16)
    tables[0, 0, 0, high] = 0
    apart, tail, step, one = tables.strides
    shape = items, high - limits.low + 1, tails, most, groups + 1
    windows = as_strided(tables, shape, (apart, one, tail, step, one))
    for item in range(items):
        after = tables[item + 1]
        after[:, :, high:] = tables[item][:, :, high:]
        _use(windows[item], after[:, 1:], costs[:, item, None], limits)
    last = tables[-1, -1, :, high + groups]
    count = int(last.argmin())
    if int(last[count]) >= used:
        return None
    return _walked_back(tables, costs, limits, count)


def _walked_back(
    tables: Costs, costs: Costs, limits: _Limits, count: int
) -> list[tuple[int, int, bool]]:
    tail, at = len(costs) - 1, limits.high + limits.groups
    picked: list[tuple[int, int, bool]] = []
    for item in range(costs.shape[1] - 1, -1, -1):
        value = tables[item + 1, tail, count, at]
        if not count or tables[item, tail, count, at] == value:
            continue
        for way in range(tail, -1, -1):
            before = tables[item, tail - way, count - 1, : at - limits.low + 1][::-1]
            needed = costs[way, item]
            fits = np.flatnonzero(before[: len(needed)] + needed[: len(before)] == value)
            if fits.size:
                x = int(fits[-1])
                full = int(np.flatnonzero(needed == needed[x])[-1])
                picked.append((item, limits.low + full, bool(way)))
                tail, count, at = tail - way, count - 1, at - limits.low - x
                break
    return picked[::-1]


def _levelled(ways: list[tuple[int, Demand]], groups: int) -> Demands:
    """What is too much is left in the last domains that can spare it."""
    over = sum(held for _, (held, _) in ways) - groups
    demands: Demands = []
    for domain, (held, tail) in sorted(ways, key=lambda way: (way[1][0], way[0])):
        less = min(over, held if tail else max(0, held - 1))
        over -= less
        demands.append((domain, (held - less, tail)))
    return demands
