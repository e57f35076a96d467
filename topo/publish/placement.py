"""Placements, holds and fragmentation as the API tells them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from topo.model.ids import NodeName, natural_key
from topo.placement.advice.suggestion import Suggestion
from topo.placement.booking.holds import Hold
from topo.placement.capacity.what_if import Assumptions
from topo.placement.job import objective
from topo.placement.job.plan import NoFit, Plan, PlannedGroup
from topo.placement.job.request import Request
from topo.placement.report.fragmentation import Fragmentation
from topo.placement.report.usage import Room

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Told:
    """What is said beside a plan or a refusal; `rooms`: how full the plan's groups are."""

    generation: int
    explanation: Sequence[str]
    would_fit: Sequence[Suggestion] = ()
    rooms: Sequence[Room] = ()


def plan_document(plan: Plan, told: Told) -> Json:
    """The answer to a request that fits; `bounds` and `certified` have the objective's names."""
    values = objective.values(plan.objective)
    return {
        "feasible": True,
        "generation": told.generation,
        "mode": plan.mode,
        "gpu_type": plan.gpu_type,
        "used_reserve": plan.used_reserve,
        "groups": [_group(group) for group in plan.groups],
        "objective": values,
        "bounds": {name: plan.bounds.get(name) for name in values},
        "certified": {name: plan.certified.get(name, False) for name in values},
        "explanation": told.explanation,
        "capacity": told.rooms,
    }


def refusal_document(refused: NoFit, told: Told) -> Json:
    """The answer to one that does not: the test that failed, its numbers, and what would fit."""
    return {
        "feasible": False,
        "generation": told.generation,
        "mode": refused.request.mode,
        "failed": refused.failed,
        "shortfall": dict(refused.shortfall),
        "would_fit": [_suggestion(suggestion) for suggestion in told.would_fit],
        "explanation": told.explanation,
    }


def held_again(hold: Hold) -> Json:
    """The answer to a request whose key has a hold: that placement, without another proof."""
    return {
        "feasible": True,
        "generation": hold.generation,
        "mode": hold.mode,
        "gpu_type": hold.gpu_type,
        "used_reserve": False,
        "groups": [_group(group) for group in hold.groups],
        "objective": {},
        "bounds": {},
        "certified": {},
        "capacity": [],
        "explanation": [f"hold {hold.id} was given for the same key and request before"],
    }


def hold_document(hold: Hold, now_s: float) -> Json:
    """A hold in short; `now_s` is on the clock of its deadline, `expires_in_s` None once kept."""
    request = hold.wish.request
    left_s = None if hold.deadline_s is None else max(0.0, hold.deadline_s - now_s)
    return {
        "id": hold.id,
        "key": hold.wish.key,
        "state": hold.state,
        "hold_s": hold.wish.hold_s,
        "expires_in_s": None if left_s is None else round(left_s, 3),
        "age_s": round(max(0.0, now_s - hold.created_s), 3),
        "generation": hold.generation,
        "mode": hold.mode,
        "gpu_type": hold.gpu_type,
        "pods": request.pods,
        "gpus_per_pod": request.gpus_per_pod,
        "group_size": request.group_size,
        "gpus": request.pods * request.gpus_per_pod,
        "nodes": len({node for group in hold.groups for node, _ in group.pods}),
    }


def whole_hold(hold: Hold, now_s: float, lost: Mapping[NodeName, str]) -> Json:
    """The same with its groups, and the nodes of it that are not as they were."""
    return {
        **hold_document(hold, now_s),
        "groups": [_group(group) for group in hold.groups],
        "lost": [{"name": node, "why": why} for node, why in lost.items()],
    }


def _group(group: PlannedGroup) -> Json:
    return {
        "index": group.index,
        "tail": group.tail,
        "domains": [
            {"kind": domain.kind, "name": domain.name, "path": domain.path}
            for domain in group.domains
        ],
        "nodes": [{"name": node, "pods": pods} for node, pods in group.pods],
    }


def _suggestion(suggestion: Suggestion) -> Json:
    assume, request = suggestion.assume, suggestion.request
    return {
        "kind": suggestion.kind,
        "text": suggestion.text,
        "request": None if request is None else request_document(request),
        "assume": None if assume is None else _assumptions(assume),
        "owners": suggestion.owners,
        "numbers": dict(suggestion.numbers),
    }


def _assumptions(assume: Assumptions) -> Json:
    return {"free": assume.free, "down": assume.down, "drain": assume.drain}


def request_document(request: Request) -> Json:
    """A request as the body that asks for it."""
    wish = request.eligible
    return {
        "pods": request.pods,
        "gpus_per_pod": request.gpus_per_pod,
        "group_size": request.group_size,
        "mode": request.mode,
        "within": request.within,
        "gpu_type": wish.gpu_type,
        "selector": dict(wish.selector),
        "tolerations": wish.tolerations,
        "exclude": sorted(wish.exclude, key=natural_key),
    }


def fragmentation_document(report: Fragmentation, generation: int, *, observed: bool) -> Json:
    """How broken up the free capacity is; `mix_observed`: jobs were seen, not assumed."""
    return {
        "generation": generation,
        "types": report.types,
        "mix": report.mix,
        "mix_observed": observed,
    }
