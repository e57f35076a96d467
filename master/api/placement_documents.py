"""Plans, refusals and holds as the documents of `topo.model.rest.placements`.

They may name 100,000 nodes, so they are written as plain dictionaries and given to orjson.
"""

from collections.abc import Mapping

from master.booking.planner import Outcome
from topo.model.ids import NodeName, natural_key
from topo.model.rest.placements import (
    FitsDocument,
    HoldDocument,
    HoldSummary,
    JobDocument,
    NoFitDocument,
    PlanExtras,
    PodGroupDocument,
    SuggestionDocument,
)
from topo.placement.advice.suggestion import Suggestion
from topo.placement.booking.holds import Hold
from topo.placement.job.plan import NoFit, PlannedGroup, objective_values
from topo.placement.job.request import Request


def placement_document(outcome: Outcome, run: str, now_s: float) -> FitsDocument | NoFitDocument:
    """Return the answer to a request: a plan, or why there is none.

    `bounds` and `certified` have the names of the objective. `run` counts the generation, `now_s`
    is on the clock of the hold's deadline.
    """
    plan = outcome.result
    if isinstance(plan, NoFit):
        return _refusal(plan, outcome, run)
    values = objective_values(plan.objective)
    document: FitsDocument = {
        "feasible": True,
        "generation": outcome.generation,
        "mode": plan.mode,
        "gpu_type": plan.gpu_type,
        "used_reserve": plan.used_reserve,
        "groups": [_group(group) for group in plan.groups],
        "objective": values,
        "bounds": {name: plan.bounds.get(name) for name in values},
        "certified": {name: plan.certified.get(name, False) for name in values},
        "explanation": tuple(outcome.explanation),
        "capacity": [
            {
                "path": group.path,
                "kind": group.kind,
                "tier": group.tier,
                "free_gpus": group.free_gpus,
                "taken_gpus": group.taken_gpus,
            }
            for group in outcome.usage
        ],
        **_replan_keys(outcome.replanned),
        "run": run,
    }
    if outcome.hold is not None:
        document["hold"] = hold_summary(outcome.hold, now_s)
    return document


def _replan_keys(why: str | None) -> PlanExtras:
    return {} if why is None else {"replanned": bool(why), "replanned_because": why or None}


def repeated_hold_document(hold: Hold, run: str, now_s: float) -> FitsDocument:
    """Return the answer to a key that has a hold: that placement, without another proof."""
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
        "explanation": (f"hold {hold.id} was given for the same key and request before",),
        "run": run,
        "hold": hold_summary(hold, now_s),
    }


def hold_summary(hold: Hold, now_s: float) -> HoldSummary:
    """Return a hold without its groups; `now_s` is on the clock of its deadline."""
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


def hold_document(hold: Hold, now_s: float, lost: Mapping[NodeName, str]) -> HoldDocument:
    """Return a hold with its groups, and why nodes of it cannot be used any more."""
    return {
        **hold_summary(hold, now_s),
        "groups": [_group(group) for group in hold.groups],
        "lost": [{"name": node, "why": why} for node, why in lost.items()],
    }


def _refusal(refused: NoFit, outcome: Outcome, run: str) -> NoFitDocument:
    return {
        "feasible": False,
        "generation": outcome.generation,
        "mode": refused.request.mode,
        "failed": refused.failed,
        "shortfall": dict(refused.shortfall),
        "never": outcome.largest_ever is not None,
        "largest_pods": outcome.largest_ever,
        "would_fit": [_suggestion(suggestion) for suggestion in outcome.would_fit],
        "explanation": tuple(outcome.explanation),
        "run": run,
    }


def _group(group: PlannedGroup) -> PodGroupDocument:
    return {
        "index": group.index,
        "tail": group.tail,
        "domains": [{"kind": d.kind, "name": d.name, "path": d.path} for d in group.domains],
        "nodes": [{"name": node, "pods": pods} for node, pods in group.pods],
    }


def _suggestion(suggestion: Suggestion) -> SuggestionDocument:
    request, assume = suggestion.request, suggestion.assume
    return {
        "kind": suggestion.kind,
        "text": suggestion.text,
        "request": None if request is None else _job(request),
        "assume": None
        if assume is None
        else {"free": assume.free, "down": assume.down, "drain": assume.drain},
        "owners": suggestion.owners,
        "numbers": dict(suggestion.numbers),
    }


def _job(request: Request) -> JobDocument:
    eligible = request.eligible
    return {
        "pods": request.pods,
        "gpus_per_pod": request.gpus_per_pod,
        "group_size": request.group_size,
        "mode": request.mode,
        "within": request.within,
        "gpu_type": eligible.gpu_type,
        "selector": dict(eligible.selector),
        "tolerations": [
            {"key": t.key, "operator": t.operator, "value": t.value, "effect": t.effect}
            for t in eligible.tolerations
        ],
        "exclude": sorted(eligible.exclude, key=natural_key),
        "usage": eligible.usage or None,
    }
