"""The best that any placement could reach, cheap enough to print with each answer.

docs/placement.md explains them. Each bound is a relaxation, so that no placement beats it.
"""

from collections.abc import Mapping
from functools import lru_cache

from topo.placement.job.objective import Objective, names
from topo.placement.quality.lower_bounds import least_domains
from topo.placement.search.free_view import FreeView
from topo.placement.search.whole_groups import Proof

Bounds = Mapping[str, int | None]
_PROVES = (Proof.SPANS, Proof.TOP, Proof.TOP, Proof.LOW, Proof.BROKEN)
"""What proves spans, whole groups left, the two profiles and what is newly broken."""


def bounds_of(
    view: FreeView, objective: Objective, proof: Proof, *, split: bool
) -> tuple[Bounds, Mapping[str, bool]]:
    """Bounds by name, and the names whose values are proven the best given those before.

    `split`: not all groups could be whole,
    so that only slots bound the domains.
    """
    tiers = len(objective.span)
    called = _names(tiers)
    spans = [
        least_domains(view, tier, objective.span[tiers - tier], split=split)
        for tier in range(tiers, 0, -1)
    ]
    if tiers == 1:
        spans *= 2
    least_split = _least_split(view) if split else 0
    most_left = _most_left(view, split=split)
    bounds = (least_split, *spans, most_left, None, None, 0, 0)
    named = dict(zip(called, bounds, strict=True))
    return named, certified_by(named, objective, proof)


def certified_by(
    bounds: Bounds, objective: Objective, proof: Proof = Proof.NONE
) -> Mapping[str, bool]:
    """The names of the bounds, each with whether its value is proven the best given those before.

    A value is proven if the search proves it, or if it is its bound.
    """
    span = objective.span if len(objective.span) > 1 else objective.span * 2
    values = (objective.split_groups, *span, objective.whole_groups_left)
    known = len(values)
    late = (objective.newly_broken, objective.penalty)
    certified: dict[str, bool] = {}
    sure = True
    for at, (name, bound) in enumerate(bounds.items()):
        if at < known:
            needed = Proof.SPANS if at < known - 1 else Proof.TOP
            sure = sure and (values[at] == bound or (at > 0 and proof >= needed))
        elif at < known + 2:
            sure = sure and (proof >= _PROVES[at - known + 2] or not _changed(objective))
        else:
            value = late[at - known - 2]
            sure = sure and (not value or (at == known + 2 and proof >= Proof.BROKEN))
        certified[name] = sure
    return certified


@lru_cache(maxsize=64)
def _names(tiers: int) -> tuple[str, ...]:
    return names(tiers)


def _changed(objective: Objective) -> bool:
    """Whether there is anything in the profiles; a plan always takes slots."""
    return bool(objective.profile_top or objective.profile_tier1)


def _least_split(view: FreeView) -> int:
    """Groups that find no room whole; 1 at least, or nothing would be split."""
    whole = int(view.groups(view.shape.tier).sum()) if view.fits else 0
    return max(1, view.shape.m - whole)


def _most_left(view: FreeView, *, split: bool) -> int:
    """Whole groups left if all slots that are in no whole group are used first."""
    shape = view.shape
    rest = view.slots.total - view.whole_before * shape.canonical
    lost = max(0, -(-(shape.pods - rest) // shape.canonical))
    if shape.k == shape.canonical and shape.tier == shape.canonical_tier and not split:
        lost = max(lost, shape.m)
        if shape.r and lost == shape.m:
            lost += int(view.losses(shape.tier).min() > 0)
    return view.whole_before - lost
