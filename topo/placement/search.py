"""Where a job goes if no group of it is split."""

from collections.abc import Iterator

import numpy as np

from topo.placement.draft import Draft, Share
from topo.placement.field import Field
from topo.placement.spread import SINGLES, best_of, inside, over
from topo.placement.structure import Counts


def found_whole(field: Field, limit: int | None) -> Draft | None:
    """The best way found with every group whole, in one domain of the tier `limit` if given."""
    shape = field.shape
    if not field.free.size:
        return None
    top = limit or shape.tiers
    for tier in range(shape.tier, top + 1):
        able = np.flatnonzero((field.holds(tier) >= shape.m) & (field.rooms_of(tier) > 0))
        if able.size:
            found = best_of(field, _singles(field, tier, able))
            return found[1] if found else None
    if limit is not None:
        return None
    everywhere = range(len(field.layout.firsts[shape.tiers]) - 1)
    found = best_of(field, over(field, shape.tiers, everywhere, (shape.m, shape.r > 0)))
    return found[1] if found else None


def _singles(field: Field, tier: int, able: Counts) -> Iterator[Draft]:
    """The domains of a tier that could hold all, the most promising looked into."""
    shape = field.shape
    need = shape.m, shape.r > 0
    if tier == shape.tier == 1:
        yield _cell(field, able)
        return
    groups = field.groups(tier)[able]
    for domain in able[np.lexsort((able, field.rooms_of(tier)[able], groups))][:SINGLES]:
        draft = inside(field, tier, int(domain), need)
        if draft is not None:
            yield draft


def _cell(field: Field, able: Counts) -> Draft:
    """The best of the cells that can hold all: one pass with the whole objective as the key."""
    shape, layout, free = field.shape, field.layout, field.slots.free
    pods, canonical = shape.pods, shape.canonical
    outer = np.array(layout.of[shape.canonical_tier])[able]
    rooms = layout.rolled(free, shape.canonical_tier)
    before = rooms[outer]
    lost = before // canonical - (before - pods) // canonical
    keep = np.flatnonzero(lost == lost.min())
    if lost[keep[0]]:
        whole = layout.rolled(rooms // canonical, 1)
        tops = np.zeros(len(layout.firsts[layout.tiers]) - 1, np.int64)
        top_of = np.array(layout.of[layout.tiers])
        firsts = np.array(layout.firsts[shape.canonical_tier][:-1])
        np.add.at(tops, top_of[firsts], whole)
        value = tops[top_of[able[keep]]]
        keep = keep[value == value.min()]
    value = before[keep]
    keep = keep[value == value.min()]
    cells = able[keep]
    broken = (field.slots.busy[cells] == 0) & (free[cells] > pods)
    at = int(cells[broken.argmin()])
    return Draft((Share(at, shape.m, shape.r > 0),), {at: pods})
