"""Where a job goes if some groups have to be split: as few of them as can be."""

import numpy as np

from topo.placement.draft import Draft, Share
from topo.placement.field import Field


def found_split(field: Field) -> Draft | None:
    """As many whole groups as fit, the others over what is left, near the whole ones first."""
    shape = field.shape
    rooms = field.rooms
    if int(rooms.sum()) < shape.pods:
        return None
    caps = (rooms // shape.k if field.fits else rooms * 0).tolist()
    order = _by_top(field, caps)
    whole = _whole(order, caps, shape.m)
    left = [int(room) - shape.k * whole.get(d, 0) for d, room in enumerate(rooms)]
    pods = shape.k * (shape.m - sum(whole.values()))
    tail = _tail_host(field, whole, left, order)
    if tail is not None:
        left[tail] -= shape.r
    else:
        pods += shape.r
    loose = _loose(field, {*whole, *([tail] if tail is not None else [])}, left, pods)
    used = sorted({*whole, *loose, *([tail] if tail is not None else [])})
    shares = tuple(Share(d, whole.get(d, 0), d == tail, loose.get(d, 0)) for d in used)
    return Draft(shares, _cells(field, shares))


def _by_top(field: Field, caps: list[int]) -> list[int]:
    """Domains of the group tier, those in the top domains with the most groups first."""
    tops = field.tops
    totals = np.bincount(tops, weights=caps) if caps else np.zeros(0)
    return sorted(range(len(caps)), key=lambda d: (-totals[tops[d]], tops[d], -caps[d], d))


def _whole(order: list[int], caps: list[int], groups: int) -> dict[int, int]:
    whole: dict[int, int] = {}
    for domain in order:
        if groups and caps[domain]:
            whole[domain] = min(groups, caps[domain])
            groups -= whole[domain]
    return whole


def _tail_host(
    field: Field, whole: dict[int, int], left: list[int], order: list[int]
) -> int | None:
    """A domain for the whole tail: one in use, else one in a top domain in use, else any."""
    r = field.shape.r
    if not r or not field.fits:
        return None
    tops = field.tops
    used = {tops[d] for d in whole}
    able = [d for d in order if left[d] >= r]
    return min(able, key=lambda d: (tops[d] not in used, d not in whole, left[d], d), default=None)


def _loose(field: Field, used: set[int], left: list[int], pods: int) -> dict[int, int]:
    """The pods of split groups: domains in use first, the largest first, the last one fitting."""
    tops = field.tops
    loose: dict[int, int] = {}
    near = {tops[d] for d in used}
    while pods:
        able = [d for d in range(len(left)) if left[d] and d not in loose]
        rank = min((d not in used, tops[d] not in near) for d in able)
        able = [d for d in able if (d not in used, tops[d] not in near) == rank]
        fitting = [d for d in able if left[d] >= pods]
        one = min(fitting or able, key=lambda d: (left[d] if fitting else -left[d], d))
        loose[one] = min(pods, left[one])
        pods -= loose[one]
        near.add(tops[one])
    return loose


def _cells(field: Field, shares: tuple[Share, ...]) -> dict[int, int]:
    """Each share over the cells of its domain, the largest first."""
    shape, free = field.shape, field.free
    firsts = field.layout.firsts[shape.tier]
    cells: dict[int, int] = {}
    for share in shares:
        pods = share.groups * shape.k + (shape.r if share.tail else 0) + share.loose
        inner = range(firsts[share.domain], firsts[share.domain + 1])
        for at in sorted(inner, key=lambda at: (-free[at], at)):
            if pods:
                cells[at] = min(pods, int(free[at]))
                pods -= cells[at]
    return {at: pods for at, pods in cells.items() if pods}
