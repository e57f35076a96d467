"""`/v1/placements` and `/v1/fragmentation`: placements, what-ifs, holds, the capacity report.

The documents are those of `topo.model.rest.placements`. They may name 100,000 nodes, so they are
written as plain dictionaries and given to orjson.
"""

import asyncio
from collections.abc import Mapping
from functools import partial

import orjson
from aiohttp import web

from master.api.answers import (
    RETRY_S,
    forbidden,
    json_response,
    not_ready,
    refuse_when_full,
    wait_for_loop,
)
from master.api.cards.shared_cards import family_document
from master.api.requests.jobs import (
    body_from_query,
    check_nodes,
    placement_request,
    read_assumptions,
    read_hold_request,
)
from master.api.requests.reading import Query, read_body
from master.booking.planner import LARGE_PODS, Outcome, Question
from master.role import not_leader
from master.service import SERVICE, Service
from topo.kit.serving.problem import refusal
from topo.model.ids import NodeName, natural_key
from topo.model.rest.fragmentation import FragmentationDocument
from topo.model.rest.jobs import JobBody, PlacementBody
from topo.model.rest.placements import (
    FitsDocument,
    HoldDocument,
    HoldSummary,
    InsideDocument,
    JobDocument,
    NoFitDocument,
    PlanExtras,
    PodGroupDocument,
    SuggestionDocument,
)
from topo.placement.advice.suggestion import Suggestion
from topo.placement.booking.holds import Hold, HoldRefused, HoldRequest, Obstacle
from topo.placement.capacity.what_if import Assumptions
from topo.placement.job.plan import NoFit, PlannedGroup, Pods, objective_values
from topo.placement.job.request import OtherGroup, Request
from topo.shared_cards.summary import summaries

STATUS = {
    Obstacle.TERMS: 400,
    Obstacle.KEY: 409,
    Obstacle.FULL: 429,
    Obstacle.NO_LONGER_FITS: 409,
    Obstacle.DISK: 503,
}


async def get_placements(request: web.Request, query: Query) -> web.StreamResponse:
    """Answer with a placement asked for by query, for curl."""
    await wait_for_loop(request)
    return await _place(request, body_from_query(query))


async def post_placements(request: web.Request, _query: Query) -> web.StreamResponse:
    """Answer with a placement, a what-if, or with `hold_s` a hold."""
    return await _place(request, await read_body(request, PlacementBody))


async def _place(request: web.Request, body: PlacementBody) -> web.StreamResponse:
    service = request.app[SERVICE]
    if body.hold_s is not None and (refused := forbidden(request)) is not None:
        return refused
    if body.hold_s is not None and not service.replica.serves:
        return not_leader(service.replica.role)
    if missing := service.availability.uncounted():
        return not_ready(service, missing)
    assumptions = read_assumptions(body)
    if body.hold_s is not None:
        return await answer_with_hold(request, service, body)
    job = placement_request(body, service.settings.policy.usage_key)
    read_hold_request(request, body, job)
    await check_nodes(job, service.placements)
    question, planner = Question(job, body.explain), service.placements.planner
    if assumptions is not None or planner.needs_thread(job):
        render = partial(_rendered, service)
        with refuse_when_full():
            return json_response(
                await planner.what_if(question, assumptions or Assumptions(), render)
            )
    seen = planner.copy_to_explain(question)
    return json_response(_rendered(service, await planner.explain_outcome(planner.plan(job), seen)))


async def answer_with_hold(
    request: web.Request,
    service: Service,
    body: JobBody,
    given: tuple[Pods, ...] | None = None,
) -> web.Response:
    """Hold the best placement, or the groups given; the same key gets the same hold."""
    holds, planner, seen = service.placements.holds, service.placements.planner, None
    job = placement_request(body, service.settings.policy.usage_key)
    wish = read_hold_request(request, body, job)
    assert isinstance(wish, HoldRequest), "there is a hold_s"  # noqa: S101 - for the type checker
    known, aside = holds.find_existing(wish), None
    if known is None:  # who asks again gets the hold, though a node that it excludes went since
        await check_nodes(wish.request, service.placements)
        if planner.needs_thread(wish.request):
            with refuse_when_full():
                aside = await planner.plan_in_thread(wish.request)
            known = holds.find_existing(wish)  # meanwhile somebody may have asked with the same key
    answer: Outcome | Hold | HoldRefused | None = known
    if answer is None:
        seen = planner.copy_to_explain(Question(wish.request, body.explain))
        answer = holds.hold(wish, given, aside)
    if isinstance(answer, HoldRefused):
        return hold_problem(answer)
    booked = answer if isinstance(answer, Hold) else answer.hold
    if booked and (refused := await holds.wait_until_saved(booked, new=booked is not known)):
        return hold_problem(refused)
    if isinstance(answer, Outcome):
        answer = await planner.explain_outcome(answer, seen)
    inside = planner.inside(answer) if isinstance(answer, Hold) else None
    render = partial(_rendered, service, answer, inside)
    large = wish.request.pods > LARGE_PODS
    return json_response(await asyncio.to_thread(render) if large else render())


def hold_problem(found: HoldRefused) -> web.Response:
    """Return the problem for a hold that was refused."""
    status = STATUS[found.obstacle]
    headers = {"Retry-After": str(RETRY_S)} if status == 503 else None
    return refusal(status, found.refusal, headers=headers)


def _rendered(service: Service, answer: Outcome | Hold, inside: OtherGroup | None = None) -> bytes:
    """Return the bytes of an answer: what was found, or the hold that the key already had.

    `inside` is the group that the nodes of that hold share.
    """
    run, now_s = service.engine.history.run_id, service.placements.state.clock()
    if isinstance(answer, Hold):
        return orjson.dumps(repeated_hold_document(answer, inside, run, now_s))
    return orjson.dumps(placement_document(answer, run, now_s))


async def get_fragmentation(request: web.Request, _query: Query) -> web.StreamResponse:
    """Answer with the report on the capacity, which is made once per version of it."""
    service = request.app[SERVICE]
    if missing := service.availability.uncounted():
        return not_ready(service, missing)
    latest = await service.placements.maintenance.report()
    cards = service.placements.state.cards.snapshot()
    found = await asyncio.to_thread(summaries, cards.nodes.values())
    document = FragmentationDocument(
        generation=latest.generation,
        types=latest.report.types,
        mix=latest.report.mix,
        mix_observed=latest.observed,
        run=service.engine.history.run_id,
        shared=tuple(map(family_document, found)),
    )
    return json_response(orjson.dumps(document))


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
        "explanation": tuple(outcome.advice.reasons),
        "capacity": [*outcome.usage],
        **_inside_keys(plan.request, outcome.inside),
        **_replan_keys(outcome.replanned),
        "run": run,
    }
    if outcome.hold is not None:
        document["hold"] = hold_summary(outcome.hold, now_s)
    return document


def inside_document(group: OtherGroup | None) -> InsideDocument | None:
    """Return the group that all nodes of a job share."""
    if group is None:
        return None
    name, path = group.path[-1], group.path
    return {"kind": group.kind, "name": name, "path": path, "fabric": group.fabric}


def _inside_keys(request: Request, inside: OtherGroup | None) -> PlanExtras:
    return {} if request.within is None else {"inside": inside_document(inside)}


def _replan_keys(why: str | None) -> PlanExtras:
    return {} if why is None else {"replanned": bool(why), "replanned_because": why or None}


def repeated_hold_document(
    hold: Hold, inside: OtherGroup | None, run: str, now_s: float
) -> FitsDocument:
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
        **_inside_keys(hold.wish.request, inside),
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
        "namespace": hold.wish.namespace,
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
        "gpus": sum(hold.gpus.values()),
        "nodes": len({node for group in hold.groups for node, _ in group.pods}),
    }


def hold_document(
    hold: Hold, inside: OtherGroup | None, now_s: float, lost: Mapping[NodeName, str]
) -> HoldDocument:
    """Return a hold with its groups, and why nodes of it cannot be used any more."""
    return {
        **hold_summary(hold, now_s),
        "inside": inside_document(inside),
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
        "never": outcome.advice.largest_ever is not None,
        "largest_pods": outcome.advice.largest_ever,
        "would_fit": [_suggestion(suggestion) for suggestion in outcome.advice.would_fit],
        "explanation": tuple(outcome.advice.reasons),
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
