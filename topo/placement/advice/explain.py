"""Why this placement: one sentence for each objective, in scheduling terms.

Every sentence has the value reached and the number that rules out a better one: what the fullest
groups have room for, a bound, or what the best alternative would have cost.

Example: 16 pods in groups of 8, in a switchbox of two free dragonflies (`tests/placement/
test_explain.py` has more):
    0 of 2 groups are split over several dragonflies; 0 is the least there is.
    1 switchbox, s1; 1 is the least there is.
    2 dragonflies: the fullest one has room for 1 of 2 groups, so 1 cannot do.
    0 whole groups of 64 GPUs stay free; 0 is the most there can be, given the numbers before.

Alternatives are the best placements that a plan was preferred to, with the objective at which each
lost. Finds, for each tier from the top down, the best placement without any domain of that tier
that the plan uses; where there is none, without the last of them. Of these the best one that lost
at each objective is kept.

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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from topo.model.words import counted, listed, plural
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.layout import Counts
from topo.placement.capacity.other_fabrics import in_words, shared_group
from topo.placement.engine import find_best
from topo.placement.job.plan import (
    DomainRef,
    Objective,
    Plan,
    Profile,
    Rejected,
    first_difference,
    objective_names,
    objective_values,
    profile_difference,
)
from topo.placement.job.request import Eligibility, PlacementMode
from topo.placement.quality.measure import objective_of
from topo.placement.search.assign_nodes import planned_groups
from topo.placement.search.other_groups import able_groups
from topo.placement.view import FreeView, view_of

MOST_PODS = 64
"""Pods of a plan up to which alternatives are looked for; above, where two more searches take
milliseconds, bounds alone explain it."""
_DOMAIN = "domain"
"""What groups of different kinds at one tier are called together."""
_SHOWN = 2
_LEAST = "{} is the least there is"
_MOST = "{} is the most there can be, given the numbers before"
_PROVEN = "; that is proven the best, given the numbers before"
_UNPROVEN = "the best that was found, without proof"


@dataclass(frozen=True, slots=True)
class _Explained:
    """A plan, the view that it was searched on, and what lost against it.

    `end_domains` are tier-1 domains at both ends of each group, `rejected` the alternatives by the
    objective at which they lost. `suspected`: nodes of the plan with links not to be trusted.
    """

    plan: Plan
    view: FreeView
    end_domains: tuple[int, ...]
    rejected: Mapping[str, Rejected]
    suspected: tuple[str, ...] = ()

    def refs(self, tier: int) -> tuple[DomainRef, ...]:
        """Return domains of a tier that the plan uses: those at both ends of each of its groups."""
        layout = self.view.layout
        domains = dict.fromkeys(layout.of[tier][at] for at in self.end_domains)
        return tuple(layout.ref(tier, domain) for domain in domains)

    def noun(self, tier: int) -> str:
        """Return what the domains of a tier are called."""
        kinds = {ref.kind for ref in self.refs(tier)}
        return kinds.pop() if len(kinds) == 1 else _DOMAIN


def explain(capacity: CapacityView, plan: Plan) -> tuple[str, ...]:
    """Return a sentence with its number for each of `objective.names`, in that order.

    Before them one on the group of another fabric that the job must be inside, if there is one.
    """
    ends = dict.fromkeys(node for g in plan.groups for node in (g.pods[0][0], g.pods[-1][0]))
    few = plan.request.pods <= MOST_PODS
    others = plan.rejected or (alternatives(capacity, plan) if few else ())
    case = _Explained(
        plan=plan,
        view=view_of(capacity, plan.request, plan.gpu_type),
        end_domains=tuple(dict.fromkeys(capacity.domain_of(node) for node in ends)),
        rejected={each.objective: each for each in reversed(others)},
        suspected=tuple(
            node
            for group in plan.groups
            for node, _ in group.pods
            if (host := capacity.host(node)) is not None and host.suspected
        ),
    )
    tiers = len(plan.objective.span)
    return (
        *_elsewhere(case, capacity),
        _split(case),
        *(_span(case, name, tier) for name, tier in _spans(tiers)),
        _left(case),
        _profile(case, "profile_top", case.noun(tiers), "free group"),
        _profile(case, "profile_tier1", case.noun(case.view.shape.canonical_tier), "free slot"),
        _broken(case),
        _penalty(case),
    )


def _elsewhere(case: _Explained, capacity: CapacityView) -> Iterator[str]:
    """Yield in how many groups of the kind of another fabric the job could be, and in which it is.

    `capacity` is the one that the plan was made on.
    """
    room, within = case.view.others, case.plan.request.within
    if room is None or within is None:
        return
    first = capacity.host(case.plan.groups[0].pods[0][0])
    inside = shared_group([first], within, ()) if first is not None else None
    split = case.plan.mode is PlacementMode.PREFERRED
    able, count = len(able_groups(case.view, room, split=split)), len(room.groups)
    if inside is not None:
        can = f"{able} of {counted(count, within)} can take it whole"
        yield f"All of it is inside {in_words(inside)}: {can}."


def _spans(tiers: int) -> list[tuple[str, int]]:
    """Return the names of the spans with their tiers; a single tier stands under both names."""
    if tiers == 1:
        return [("top_groups", 1), ("tier1_groups", 1)]
    return list(zip(objective_names(tiers)[1 : tiers + 1], range(tiers, 0, -1), strict=True))


def _split(case: _Explained) -> str:
    split, of = case.plan.objective.split_groups, counted(len(case.plan.groups), "group")
    shape = case.view.shape
    where = plural(case.noun(shape.tier))
    if not split:
        are = _is(len(case.plan.groups))
        return f"0 of {of} {are} split over several {where}; {_LEAST.format(0)}."
    said = f"{split} of {of} {_is(split)} split over several {where}"
    whole = int(case.view.groups(shape.tier).sum())
    if case.view.group_can_fit and whole < shape.m:
        return (
            f"{said}: there is room for {counted(whole, 'whole group')} of the "
            f"{shape.m} needed{_alternative(case, 'split_groups', 'splits')}."
        )
    return f"{said}{_verdict(case, 'split_groups', 'splits')}."


def _span(case: _Explained, name: str, tier: int) -> str:
    used = case.plan.objective.span[len(case.plan.objective.span) - tier]
    noun = case.noun(tier)
    said = counted(used, noun)
    if used == 1:
        at = case.refs(tier)[0]
        other = _alternative(case, name, "takes")
        return f"{said}, {_path(at.path)}; {_LEAST.format(1)}{other}."
    lack = _lack(case, tier, used - 1)
    if lack:
        return f"{said}: {lack}{_alternative(case, name, 'takes')}."
    extra, bound = case.view.shape.extra_domains, case.plan.bounds.get(name)
    if extra and bound is not None and bound < used:
        return (
            f"{said}: {extra} more than the fewest may be used where that keeps more groups whole "
            f"(--extra-domains); the bound is {bound}."
        )
    return f"{said}{_verdict(case, name, 'takes')}."


def _lack(case: _Explained, tier: int, fewer: int) -> str:
    """Return what the fullest domains of a tier cannot hold together, or nothing."""
    view, shape = case.view, case.view.shape
    noun = case.noun(tier)
    who = "the fullest one has" if fewer == 1 else f"the fullest {counted(fewer, noun)} have"
    if shape.tier <= tier and not case.plan.objective.split_groups:
        groups = _most(view.groups(tier), fewer)
        if groups < shape.m:
            return f"{who} room for {groups} of {counted(shape.m, 'group')}, so {fewer} cannot do"
    pods = _most(view.free_slots_of(tier), fewer)
    if pods < shape.pods:
        return f"{who} room for {pods} of {counted(shape.pods, 'pod')}, so {fewer} cannot do"
    return ""


def _most(counts: Counts, several: int) -> int:
    """Return what the largest ones have together."""
    if several >= len(counts):
        return int(counts.sum())
    return int(np.partition(counts, len(counts) - several)[-several:].sum())


def _left(case: _Explained) -> str:
    left, shape = case.plan.objective.whole_groups_left, case.view.shape
    size = counted(shape.canonical * shape.gpus, "GPU")
    said = f"{counted(left, 'whole group')} of {size} {'stays' if left == 1 else 'stay'} free"
    return f"{said}{_verdict(case, 'whole_groups_left', 'leaves')}."


def _profile(case: _Explained, which: str, noun: str, unit: str) -> str:
    """Return how the capacities of free domains change; `unit` is what is counted in a domain."""
    own: Profile = getattr(case.plan.objective, which)
    name = f"free_{which}"
    said = _change(own, noun, unit)
    proven = _PROVEN if case.plan.certified.get(name) else ""
    other = case.rejected.get(name)
    if other is None:
        return f"{said}{proven or f'; {_UNPROVEN}'}."
    capacity, fewer = profile_difference(own, getattr(other.value, which))
    domains = f"{counted(fewer, noun)} fewer with {counted(capacity, unit)}"
    return f"{said}{proven}; {_who(other)} would leave {domains}."


def _change(own: Profile, noun: str, unit: str) -> str:
    before = [(capacity, -by) for capacity, by in own if by < 0]
    after = [(capacity, by) for capacity, by in own if by > 0]
    number = sum(times for _, times in before)
    if not number:
        return f"0 {plural(noun)} change in their {plural(unit)}"
    goes = "goes" if number == 1 else "go"
    units = unit if before == [(1, 1)] else plural(unit)
    return f"{counted(number, noun)} {goes} from {_times(before)} {units} to {_times(after)}"


def _times(counts: list[tuple[int, int]]) -> str:
    """Return `12`, or `3 x 17 and 1 x 16`."""
    if len(counts) == 1:
        return str(counts[0][0])
    return listed([f"{times} x {capacity}" for capacity, times in counts])


def _broken(case: _Explained) -> str:
    broken = case.plan.objective.newly_broken
    said = f"{counted(broken, f'untouched {case.noun(1)}')} {_is(broken)} broken into"
    return f"{said}{_verdict(case, 'newly_broken', 'breaks into')}."


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _penalty(case: _Explained) -> str:
    said = f"The penalty of its nodes is {case.plan.objective.penalty}"
    if names := list(dict.fromkeys(case.suspected)):
        said += f" ({listed(names)} {'has' if len(names) == 1 else 'have'} links not to be trusted)"
    return f"{said}{_verdict(case, 'penalty', 'has')}{_hybrid(case.plan.request.eligible)}."


def _hybrid(wish: Eligibility) -> str:
    """Return why hybrid nodes were looked at or not (`Request.by_pool`), for a job with a usage."""
    if not wish.usage:
        return ""
    if wish.spares_hybrid:
        return "; hybrid nodes were left aside, since it fits on the others"
    return "; without hybrid nodes its groups do not fit"


def _verdict(case: _Explained, name: str, verb: str) -> str:
    """Return why there is no better value: an alternative that lost, a bound, or no proof."""
    plan = case.plan
    value, bound = objective_values(plan.objective)[name], plan.bounds.get(name)
    if name != "whole_groups_left" and not value:
        bound = 0
    other = _alternative(case, name, verb)
    if value == bound:
        most = name == "whole_groups_left"
        return f"; {(_MOST if most else _LEAST).format(bound)}{other}"
    if plan.certified.get(name):
        return f"{_PROVEN}{other}"
    if other:
        return other
    return f"; {_UNPROVEN}" if bound is None else f"; {_UNPROVEN}: the bound is {bound}"


def _alternative(case: _Explained, name: str, verb: str) -> str:
    other = case.rejected.get(name)
    if other is None:
        return ""
    return f"; the best alternative, {_who(other)}, {verb} {objective_values(other.value)[name]}"


def _who(other: Rejected) -> str:
    return listed([_path(path) for path in other.domains], shown=_SHOWN)


def _path(path: tuple[str, ...]) -> str:
    return "/".join(path)


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
    domains = sorted({capacity.domain_of(node) for group in plan.groups for node, _ in group.pods})
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
