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

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from topo.placement.capacity.layout import Counts, DomainIndices
from topo.placement.search.inside_domain import Demand, Demands
from topo.placement.view import FreeView

MOST_DOMAINS = 40
"""Top domains in the knapsack; if more could be part of something better, those that need least."""
MOST_STATES = 1 << 15
"""States of the bound's table times numbers of groups that a domain may take."""
MOST_POINTS = 1 << 17
"""Top domains times numbers of groups for which children are counted."""
AT_ONCE = 1 << 14
"""Children times needs that are compared in one step of numpy; above, it is faster row by row."""
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
    """Return what to ask of which domains of a tier, and whether no other choice needs fewer
    children.

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
    children = view.layout.children_of(tier).rows
    if children is None or len(able) * max(high - low + 1, children.shape[1]) > MOST_POINTS:
        return [], False
    costs = _children_needed(view, tier, able, limits)
    rest = _least(costs.min(axis=1).tobytes(), limits)
    # Even if every domain were the best of all, as many children would be needed.
    if rest[-1, -1, high + shape.m] >= used:
        return [], True
    chosen, costs, exact = _promising(costs, rest, limits)
    picked = _combined(costs, limits)
    if picked is None:
        return [], exact
    ways = [(int(able[chosen[item]]), (x, tail)) for item, x, tail in picked]
    return _levelled(ways, shape.m), exact


def _children_needed(view: FreeView, tier: int, able: DomainIndices, limits: _Limits) -> Costs:
    """Return the fewest children of each domain for each number of groups; `_IMPOSSIBLE`: it
    cannot.
    """
    shape, children = view.shape, view.layout.children_of(tier).rows
    assert children is not None, "too many to look at were sorted out"  # noqa: S101 - for mypy
    points = np.arange(limits.low, limits.high + 1)
    if tier == shape.tier:
        caps, lost = view.free_slots_of(tier - 1), None
        needs = [points * shape.k] + ([points * shape.k + shape.r] if shape.r else [])
    else:
        caps, lost = view.groups(tier - 1), view.losses(tier - 1) if shape.r else None
        needs = [points] * (2 if shape.r else 1)
    rows = np.append(caps, 0)[children[able]]
    if lost is None:
        rows.sort(axis=1)
        # By child, then domain: numpy is several times as fast along the outer axis.
        held = np.ascontiguousarray(rows[:, ::-1].T).cumsum(axis=0)
        every = [held] * len(needs)
    else:
        both = _with_and_without(rows, np.append(lost, _IMPOSSIBLE)[children[able]])
        every = [np.ascontiguousarray(held.T) for held in both]
    costs = np.empty((len(needs), len(points), len(able)), np.int16)
    for found, held, need in zip(costs, every, needs, strict=True):
        _reach(found, held, need)
    if not limits.low:
        costs[0, 0] = _IMPOSSIBLE
    return costs.transpose(0, 2, 1)


def _with_and_without(rows: Counts, lost: Counts) -> list[Counts]:
    """Return the groups that the q best children of each domain hold, and beside the tail."""
    order = np.argsort(-rows, axis=1, kind="stable")
    rows, lost = np.take_along_axis(rows, order, 1), np.take_along_axis(lost, order, 1)
    held = rows.cumsum(axis=1)
    spared = np.minimum.accumulate(lost, axis=1)
    alone = np.maximum.accumulate((rows - lost)[:, ::-1], axis=1)[:, ::-1]
    beside = np.maximum(held - spared, held - rows + alone)
    return [held, np.maximum.accumulate(beside, axis=1)]


def _reach(found: Costs, held: Counts, needs: Counts) -> None:
    """Write into `found` the children needed, by need and domain; `held` is by child and domain."""
    if found.size * len(held) <= AT_ONCE:
        np.add.reduce(held < needs[:, None, None], axis=1, dtype=np.int16, out=found)
    else:
        for row, need in zip(found, needs.tolist(), strict=True):
            np.add.reduce(held < need, axis=0, dtype=np.int16, out=row)
    found += 1
    found[found > len(held)] = _IMPOSSIBLE


@lru_cache(maxsize=64)
def _least(best: bytes, limits: _Limits) -> Costs:
    """Return a bound: the fewest children for each number of groups and of top domains."""
    groups, most, _, low, high = limits
    tails = len(best) // np.dtype(np.int16).itemsize // (high - low + 1)
    children = np.frombuffer(best, np.int16).reshape(tails, 1, -1)
    table = np.full((tails, most + 1, high + groups + 1), _IMPOSSIBLE, np.int16)
    table[0, 0, high] = 0
    tail, step, one = table.strides
    shape = most, high - low + 1, tails, 1, groups + 1
    windows = as_strided(table, shape, (step, one, tail, 0, one))
    for used in range(most):
        before, after = table[:, used], table[:, used + 1]
        after[:, high:] = before[:, high:]
        _use(windows[used], after[:, None], children, limits)
    table.setflags(write=False)
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


def _promising(costs: Costs, rest: Costs, limits: _Limits) -> tuple[DomainIndices, Costs, bool]:
    """Return the domains that may be part of something better, their costs, whether all are."""
    groups, most, used, low, high = limits
    others = rest[:, most - 1, high + groups - high : high + groups - low + 1][:, ::-1]
    # What the others need at least beside each; with the tail here, they are without it.
    total = costs + others[::-1, None]
    near = np.flatnonzero((total < used).any(axis=(0, 2)))
    total, costs = total[:, near], costs[:, near]
    costs[total >= used] = _IMPOSSIBLE
    cheap = np.zeros(len(near), np.bool_)
    for needed in costs:
        order = np.argsort(needed, axis=0, kind="stable")[:most]
        cheap[order[np.take_along_axis(needed, order, 0) < _IMPOSSIBLE]] = True
    chosen = cheap.nonzero()[0]
    exact = len(chosen) <= MOST_DOMAINS
    if not exact:
        least = total[:, chosen].min(axis=(0, 2))
        chosen = np.sort(chosen[np.argsort(least, kind="stable")[:MOST_DOMAINS]])
    return near[chosen], costs[:, chosen], exact


def _combined(costs: Costs, limits: _Limits) -> list[tuple[int, int, bool]] | None:
    """Return (item, groups, tail) of items that hold all with fewer children; None if none do."""
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
    """Take what is too much from the last domains that can spare it."""
    over = sum(held for _, (held, _) in ways) - groups
    demands: Demands = []
    for domain, (held, tail) in sorted(ways, key=lambda way: (way[1][0], way[0])):
        less = min(over, held if tail else max(0, held - 1))
        over -= less
        demands.append((domain, (held - less, tail)))
    return demands
