"""The best placements that a plan was preferred to, and the objective at which each of them lost.

Finds, for each tier from the top down, the best placement without any domain of that tier that the
plan uses; where there is none, without the last of them. Of these the best one that lost at each
objective is kept.

Why it is right: a placement that differs from the plan at a tier leaves out one of its domains
there. Leaving out all of them gives one that an engineer would have drawn instead; it is searched
and measured like any other, so its numbers are real. That no third one would be closer is not said.

Cost: one or two searches for each tier; so they are looked for when somebody asks why.

Example: a job of one group of 8 nodes. Free nodes: d1 8 and d2 9 in switchbox s1, d3 16 in s2. The
plan takes d1.
    without s1   d3: a domain with 16 free slots would become one with 8
    without d1   d2: a domain with 9 free slots would become one with 1
    Both lose at `free_profile_tier1`: the plan leaves domains with 16, 9 and 0 free slots, d3 would
    leave 9, 8 and 8, and d2 would leave 16, 8 and 1. That is the better one, so it is kept.
"""

from collections.abc import Iterator

from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.engine import find_best, view_of
from topo.placement.job.plan import (
    DomainRef,
    Objective,
    Plan,
    Rejected,
    first_difference,
    objective_names,
)
from topo.placement.quality.measure import objective_of
from topo.placement.search.assign_nodes import planned_groups
from topo.placement.view import FreeView


def alternatives(capacity: CapacityView, plan: Plan) -> tuple[Rejected, ...]:
    """Return the best alternative that lost at each number of the objective, if one did."""
    view = view_of(capacity, plan.request, plan.gpu_type)
    best: dict[str, Rejected] = {}
    for domains, value in _others(capacity, view, plan):
        parted = first_difference(plan.objective, value)
        if parted is None or parted[1] > 0:
            continue
        known = best.get(parted[0])
        if known is None or _wins(value, known.value):
            paths = tuple(dict.fromkeys(ref.path for ref in domains))
            best[parted[0]] = Rejected(parted[0], paths, value)
    order = objective_names(view.layout.tiers)
    return tuple(best[name] for name in order if name in best)


def _wins(one: Objective, other: Objective) -> bool:
    parted = first_difference(one, other)
    return parted is not None and parted[1] < 0


def _others(
    capacity: CapacityView, view: FreeView, plan: Plan
) -> Iterator[tuple[list[DomainRef], Objective]]:
    domains = sorted(
        {capacity.position(node)[0] for group in plan.groups for node, _ in group.pods}
    )
    for tier in range(view.layout.tiers, 0, -1):
        used = sorted({view.layout.of[tier][at] for at in domains})
        for avoided in (used, used[-1:]):
            found = _without(capacity, view, plan, (tier, avoided))
            if found is not None:
                yield found
                break


def _without(
    capacity: CapacityView, view: FreeView, plan: Plan, avoided: tuple[int, list[int]]
) -> tuple[list[DomainRef], Objective] | None:
    """Return the best placement without some domains of a tier."""
    tier, domains = avoided
    firsts = view.layout.firsts[tier]
    free = view.free.copy()
    for domain in domains:
        free[firsts[domain] : firsts[domain + 1]] = 0
    if int(free.sum()) < view.shape.pods:
        return None
    answer = find_best(view.only(free), plan.request)
    if answer is None:
        return None
    groups = planned_groups(capacity, answer.view, answer.found.allocation).groups
    objective = objective_of(capacity, view, [group.pods for group in groups])
    return [ref for group in groups for ref in group.domains], objective
