"""`/v1/placements` and `/v1/fragmentation`: placements, what-ifs, holds, the capacity report."""

import asyncio
from functools import partial

import orjson
from aiohttp import web

from master.api.answers.refusals import (
    RETRY_S,
    forbidden,
    not_ready,
    refuse_when_full,
    wait_for_loop,
)
from master.api.answers.representation import json_response
from master.api.placement_documents import placement_document, repeated_hold_document
from master.api.requests.body import read_body
from master.api.requests.jobs import (
    body_from_query,
    check_nodes,
    placement_request,
    read_assumptions,
    read_hold_request,
)
from master.api.requests.query import Query
from master.booking.planner import LARGE_PODS, Outcome, Question
from master.role import not_leader
from master.service import SERVICE, Service
from topo.kit.serving.problem import refusal
from topo.model.rest.fragmentation import FragmentationDocument
from topo.model.rest.jobs import JobBody, PlacementBody
from topo.placement.booking.holds import Hold, HoldRefused, HoldRequest, Obstacle
from topo.placement.capacity.what_if import Assumptions
from topo.placement.job.plan import Pods

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
    if body.hold_s is not None and not service.role.acts:
        return not_leader(service.role)
    if missing := service.availability.uncounted():
        return not_ready(service, missing)
    assumptions = read_assumptions(body)
    if body.hold_s is not None:
        return await answer_with_hold(request, service, body)
    job = placement_request(body)
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
    wish = read_hold_request(request, body, placement_request(body))
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
    render = partial(_rendered, service, answer)
    large = wish.request.pods > LARGE_PODS
    return json_response(await asyncio.to_thread(render) if large else render())


def hold_problem(found: HoldRefused) -> web.Response:
    """Return the problem for a hold that was refused."""
    status = STATUS[found.obstacle]
    headers = {"Retry-After": str(RETRY_S)} if status == 503 else None
    return refusal(status, found.refusal, headers=headers)


def _rendered(service: Service, answer: Outcome | Hold) -> bytes:
    """Return the bytes of an answer: what was found, or the hold that the key already had."""
    run, now_s = service.engine.history.run_id, service.placements.state.clock()
    if isinstance(answer, Hold):
        return orjson.dumps(repeated_hold_document(answer, run, now_s))
    return orjson.dumps(placement_document(answer, run, now_s))


async def get_fragmentation(request: web.Request, _query: Query) -> web.StreamResponse:
    """Answer with the report on the capacity, which is made once per version of it."""
    service = request.app[SERVICE]
    if missing := service.availability.uncounted():
        return not_ready(service, missing)
    latest = await service.placements.maintenance.report()
    document = FragmentationDocument(
        generation=latest.generation,
        types=latest.report.types,
        mix=latest.report.mix,
        mix_observed=latest.observed,
        run=service.engine.history.run_id,
    )
    return json_response(orjson.dumps(document))
