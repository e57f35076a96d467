"""The fewest domains of a tier that any placement needs: relaxations that no placement beats.

docs/placement.md says why each is a bound.
"""

import numpy as np

from topo.placement.capacity.layout import Counts, DomainIndices
from topo.placement.search.free_view import FreeView

MOST_CELLS = 1 << 15
"""Children looked at to count the fewest inside each of several domains."""


def least_domains(view: FreeView, tier: int, used: int, *, split: bool) -> int:
    """The fewest domains of a tier that any placement needs; the first bound that says `used`.

    From the group tier up it is exact for that tier alone. `split`: groups need not be whole.
    """
    shape = view.shape
    if used == 1:
        return 1
    rooms = view.rooms_of(tier)
    quick = -(-shape.pods // max(1, int(rooms.max())))
    grouped = tier >= shape.tier and not split
    if grouped:
        quick = max(quick, -(-shape.m // max(1, int(view.groups(tier).max()))))
    if quick >= used:
        return quick
    by_slots = _fewest(rooms, shape.pods)
    if not grouped or by_slots >= used:
        return by_slots
    groups = view.groups(tier)
    if not shape.r:
        return max(by_slots, _fewest(groups, shape.m))
    return max(by_slots, _with_tail(groups, view.losses(tier), shape.m))


def least_inside(caps: Counts, starts: DomainIndices, able: DomainIndices, need: Counts) -> Counts:
    """For each of some domains the fewest children whose capacities cover its need.

    `starts` are the first children of all domains. Where there are too many children to look at it
    is a bound.
    """
    ends = np.append(starts[1:], len(caps))
    first, sizes = starts[able], ends[able] - starts[able]
    width = int(sizes.max())
    most = np.maximum.reduceat(caps, starts)[able]
    if width * len(able) > MOST_CELLS or int(most.max()) <= 1:
        found: Counts = -(-need // np.maximum(most, 1))
        return found
    across = np.arange(width)
    at = np.minimum(first[:, None] + across, len(caps) - 1)
    rows = np.where(across < sizes[:, None], caps[at], 0)
    rows.sort(axis=1)
    sums = rows[:, ::-1].cumsum(axis=1)
    counts: Counts = (sums < need[:, None]).sum(axis=1) + 1
    return np.where(need > 0, counts, 0)


def _fewest(values: Counts, need: int) -> int:
    if need <= 0:
        return 0
    sums = np.cumsum(np.sort(values)[::-1])
    return int(np.searchsorted(sums, need)) + 1


def _with_tail(groups: Counts, losses: Counts, need: int) -> int:
    """The smallest p with which a host of the tail and the p - 1 largest others suffice."""
    order = np.argsort(-groups, kind="stable")
    ranked, lost = groups[order], losses[order]
    sums = np.cumsum(ranked)
    inside = sums - np.minimum.accumulate(lost)
    outside = sums - ranked + np.maximum.accumulate((ranked - lost)[::-1])[::-1]
    enough = np.maximum(inside, outside) >= need
    return int(enough.argmax()) + 1 if enough.any() else len(ranked) + 1
