"""`/v1/holds`: placements that are reserved for a time, kept, or given back."""

from collections.abc import Mapping, Sequence
from functools import partial

import orjson
from aiohttp import web

from master.api.answers import forbidden, json_response, not_ready, refuse_when_full
from master.api.placements import answer_with_hold, hold_document, hold_problem, hold_summary
from master.api.requests.jobs import read_given_groups
from master.api.requests.reading import Parameter, Query, read_body
from master.booking.planner import LARGE_PODS
from master.service import SERVICE, Service
from topo.kit.serving.problem import problem
from topo.model.ids import NodeName
from topo.model.rest.jobs import HoldBody
from topo.model.rest.placements import EndedDocument, HoldsDocument
from topo.placement.booking.holds import Ended, Hold, HoldId
from topo.placement.job.request import OtherGroup

_HOW = {"released": "was released", "expired": "expired", "bound": "ended: its pods are bound"}
ID = (Parameter("id", "string", "the hold's id", max_chars=64, place="path"),)


async def post_hold(request: web.Request, _query: Query) -> web.StreamResponse:
    """Reserve a placement; the groups of an earlier answer are taken if they still fit."""
    service = request.app[SERVICE]
    body = await read_body(request, HoldBody)
    if (refused := forbidden(request)) is not None:  # its token ended while the body came
        return refused
    if missing := service.availability.uncounted():
        return not_ready(service, missing)
    return await answer_with_hold(request, service, body, read_given_groups(body))


async def get_holds(request: web.Request, _query: Query) -> web.StreamResponse:
    """Answer with all holds, the oldest first."""
    service = request.app[SERVICE]
    if not service.replica.serves and (service.replicas is None or service.replicas.age_s is None):
        return not_ready(service, ("no leader has told this follower its holds yet",))
    body = await service.placements.holds.render_list(_listed)
    return json_response(body)


def _listed(holds: Sequence[Hold], now_s: float) -> bytes:
    return orjson.dumps(HoldsDocument(holds=[hold_summary(hold, now_s) for hold in holds]))


async def get_hold(request: web.Request, query: Query) -> web.StreamResponse:
    """Answer with one hold and its groups."""
    service = request.app[SERVICE]
    hold_id = HoldId(query["id"])
    return await _shown(service, hold_id, service.placements.state.find_hold(hold_id))


async def commit_hold(request: web.Request, query: Query) -> web.StreamResponse:
    """Commit a hold: remove its time limit."""
    service = request.app[SERVICE]
    hold_id = HoldId(query["id"])
    holds = service.placements.holds
    found = holds.commit(hold_id)
    if refused := await holds.wait_until_changes_are_saved():
        return hold_problem(refused)
    return await _shown(service, hold_id, found)


async def delete_hold(request: web.Request, query: Query) -> web.StreamResponse:
    """Release a hold, committed or not.

    Each call, a repeated one too, is answered after the end of the hold is saved. A client stops
    asking after the answer 410; a later leader that finds no saved end would restore the hold.
    """
    hold_id = HoldId(query["id"])
    holds = request.app[SERVICE].placements.holds
    found = holds.release(hold_id)
    if refused := await holds.wait_until_changes_are_saved():
        return hold_problem(refused)
    if not isinstance(found, Hold):
        return _gone(hold_id, found)
    return json_response(orjson.dumps(EndedDocument(id=hold_id, state="released")))


async def _shown(service: Service, hold_id: HoldId, found: Hold | Ended | None) -> web.Response:
    if not isinstance(found, Hold):
        return _gone(hold_id, found)
    placements = service.placements
    now_s, lost = placements.state.clock(), placements.holds.unusable_nodes(found)
    render = partial(_rendered, found, placements.planner.inside(found), now_s, lost)
    if found.wish.request.pods > LARGE_PODS:
        with refuse_when_full():
            return json_response(await placements.planner.executor.run(lambda: render))
    return json_response(render())


def _rendered(
    hold: Hold, inside: OtherGroup | None, now_s: float, lost: Mapping[NodeName, str]
) -> bytes:
    return orjson.dumps(hold_document(hold, inside, now_s, lost))


def _gone(hold_id: HoldId, ended: Ended | None) -> web.Response:
    """Return 410 for a hold that ended, 404 for one that never was (or ended long ago)."""
    if ended is not None:
        text = f"hold {hold_id} {_HOW[ended.how]}"
        return problem(410, text, field="id", fix="ask for a new one: POST /v1/holds")
    fix = "GET /v1/holds lists those there are"
    return problem(404, f"there is no hold {hold_id[:64]!r}", field="id", fix=fix)
