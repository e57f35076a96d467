"""The best that any placement could reach, cheap enough to print with each answer.

Sources: `placement.md` section 6. Each bound is a relaxation, so that no placement beats it.
"""

from collections.abc import Mapping

import numpy as np

from topo.placement.field import Field
from topo.placement.objective import Objective, values
from topo.placement.structure import Counts

Bounds = Mapping[str, int | None]


def bounds_of(
    field: Field, objective: Objective, *, split: bool
) -> tuple[Bounds, Mapping[str, bool]]:
    """Bounds by name, and the names whose values they prove: those before the first gap.

    `split`: not all groups could be whole, so that only slots bound the domains.
    """
    found: dict[str, int | None] = dict.fromkeys(values(objective))
    found["split_groups"] = _least_split(field) if split else 0
    tiers = len(objective.span)
    for tier in range(tiers, 0, -1):
        name = "top_groups" if tier == tiers else f"tier{tier}_groups"
        found[name] = least_domains(field, tier, split=split)
    if tiers == 1:
        found["tier1_groups"] = found["top_groups"]
    found["newly_broken"] = found["penalty"] = 0
    certified: dict[str, bool] = {}
    proven = True
    for name, value in values(objective).items():
        proven = proven and value == found[name]
        certified[name] = proven
    return found, certified


def _least_split(field: Field) -> int:
    """Groups that find no room whole; 1 at least, or nothing would be split."""
    whole = int(field.groups(field.shape.tier).sum()) if field.fits else 0
    return max(1, field.shape.m - whole)


def least_domains(field: Field, tier: int, *, split: bool) -> int:
    """The fewest domains of a tier that any placement needs; from the group tier up exact."""
    shape = field.shape
    by_slots = _fewest(field.rooms_of(tier), shape.pods)
    if split or tier < shape.tier:
        return by_slots
    groups = field.groups(tier)
    if not shape.r:
        return max(by_slots, _fewest(groups, shape.m))
    return max(by_slots, _with_tail(groups, field.losses(tier), shape.m))


def _fewest(values: Counts, need: int) -> int:
    if need <= 0:
        return 0
    sums = np.cumsum(np.sort(values)[::-1])
    return int(np.searchsorted(sums, need)) + 1


def _with_tail(groups: Counts, losses: Counts, need: int) -> int:
    """The smallest p with which a host of the tail and the p - 1 largest others suffice."""
    order = np.argsort(-groups, kind="stable")
    ranked, lost = groups[order], losses[order]
    sums = np.concatenate(([0], np.cumsum(ranked)))
    held = ranked - lost
    for count in range(1, len(ranked) + 1):
        best_in = sums[count] - lost[:count].min()
        best_out = sums[count - 1] + held[count - 1 :].max()
        if max(best_in, best_out) >= need:
            return count
    return len(ranked) + 1
