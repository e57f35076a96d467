"""`/v1/gangs`: the jobs whose pods start together, the state of each, and why.

Only a master that leads plans them; one that follows passes the leader's answer on.
"""

from collections.abc import Mapping

import orjson
from aiohttp import web
from yarl import URL

from master.api.answers import json_response
from master.api.gang_documents import (
    GangHistory,
    ahead_document,
    gang_document,
    gang_summary,
    in_turn,
)
from master.api.requests.reading import Parameter, Query
from master.controllers.nomination.status.gang_view import GangView
from master.replicas.peer import NoAnswerError
from master.role import not_leader
from master.service import SERVICE, Service
from topo.gangs.machine.gang import Gang, GangId
from topo.kit.serving.problem import problem
from topo.model.nearest import did_you_mean
from topo.model.rest.gangs import GangsDocument, OffDocument

ID = (
    Parameter(
        "id",
        "string",
        "the gang's id, which the list gives, or namespace.name of the job",
        max_chars=317,
        place="path",
    ),
)
PARAMETERS = (
    Parameter("namespace", "string", "only gangs of this namespace", max_chars=253),
    Parameter("pod", "string", "only the gang that has a pod of this name", max_chars=253),
)
_PATH = "/v1/gangs"
_TIMEOUT_S = 5.0
_MAX_BYTES = 64 << 20
_ORDERED = "its gates are opened by a person's order"
_OFF = OffDocument(
    detail="this master places no gangs",
    fix="switch it on with --controllers=…,nomination; the chart does by placement.enabled",
)


async def get_gangs(request: web.Request, query: Query) -> web.StreamResponse:
    """Answer with all gangs, those in the queue first; with none, and why, where placing is off."""
    service = request.app[SERVICE]
    nomination, wanted = service.controllers.nomination, query.get("namespace")
    if not service.replica.role.acts and (nomination or service.extender):
        return await of_leader(service, _PATH, query)
    rows = (row for row in service.ahead.shown() if wanted in {None, row.namespace})
    ahead = list(map(ahead_document, rows))
    if nomination is None:
        return json_response(orjson.dumps(GangsDocument(gangs=[], off=_OFF, ahead=ahead)))
    now_s = service.engine.clock()
    found = (
        gang_summary(gang, status, now_s, service.engine.reasons)
        for gang, status in nomination.view.all()
        if wanted in {None, gang.namespace} and _has(gang, query.get("pod"))
    )
    return json_response(orjson.dumps(GangsDocument(gangs=in_turn(found), off=None, ahead=ahead)))


async def get_gang(request: web.Request, query: Query) -> web.StreamResponse:
    """Answer with one gang, its pods, its groups and its last changes of state."""
    service, asked = request.app[SERVICE], query["id"]
    nomination = service.controllers.nomination
    if nomination is None:
        return _off()
    if not service.replica.role.acts:
        return await of_leader(service, f"{_PATH}/{asked}", {})
    gang_id = id_of(nomination.view, asked)
    if isinstance(gang_id, web.Response):
        return gang_id
    found = await nomination.view.get_advised(gang_id)
    if found is None:
        return _unknown(nomination.view, asked)
    gang, status = found
    summary = gang_summary(gang, status, service.engine.clock(), service.engine.reasons)
    history = GangHistory(nomination.view.history(gang_id), nomination.view.known_from_s())
    capacity = service.placements.state.capacity
    document = gang_document(
        summary, gang, status, capacity.host, kinds=capacity.kinds(), history=history
    )
    return json_response(orjson.dumps(document))


async def open_gates(request: web.Request, query: Query) -> web.StreamResponse:
    """Have the gates of a gang's pods opened without a plan: its scheduler goes on alone."""
    service = request.app[SERVICE]
    nomination = service.controllers.nomination
    if nomination is None:
        return _off()
    gang_id = id_of(nomination.view, query["id"])
    if isinstance(gang_id, web.Response):
        return gang_id
    found = nomination.view.get(gang_id)
    if found is None:
        return _unknown(nomination.view, query["id"])
    gang, status = found
    nomination.ungate((gang_id,), _ORDERED)
    summary = gang_summary(gang, status, service.engine.clock(), service.engine.reasons)
    return json_response(orjson.dumps(summary))


def id_of(view: GangView, asked: str) -> GangId | web.Response:
    """Return the id of the gang that is asked for, or the refusal.

    A namespace has no dot, so that `namespace.name` is read in one way only.
    """
    namespace, dot, name = asked.partition(".")
    if not dot or view.get(GangId(asked)) is not None:
        return GangId(asked)
    named = [g.id for g, _ in view.all() if (g.namespace, g.name) == (namespace, name)]
    if len(named) > 1:
        what = f"{len(named)} gangs are called {asked!r}: {', '.join(named)}"
        return problem(409, what, field="id", fix="give one of these ids")
    return named[0] if named else _unknown(view, asked)


def _unknown(view: GangView, asked: str) -> web.Response:
    gangs = (gang for gang, _ in view.all())
    known = [name for gang in gangs for name in (gang.id, f"{gang.namespace}.{gang.name}")]
    fix = did_you_mean(asked, known, "GET /v1/gangs lists those there are")
    return problem(404, f"there is no gang {asked!r}", field="id", fix=fix)


def _has(gang: Gang, pod: str | None) -> bool:
    return pod is None or any(member.name == pod for member in gang.members)


def _off() -> web.Response:
    return problem(404, _OFF["detail"], fix=_OFF["fix"])


async def of_leader(service: Service, path: str, query: Mapping[str, str]) -> web.Response:
    """Answer as the leader does. Its address is that on the Lease; the path is one of ours."""
    role, replicas = service.replica.role, service.replicas
    if replicas is None or not role.leader_url:
        return not_leader(role)
    url = URL(role.leader_url).with_path(path).with_query(dict(query))
    try:
        answer = await replicas.peer.ask(
            "GET", str(url), headers={}, limit_bytes=_MAX_BYTES, timeout_s=_TIMEOUT_S
        )
    except NoAnswerError as error:
        what = f"this master follows, and its leader does not answer: {error}"
        return problem(503, what, fix="ask again", headers={"Retry-After": "1"})
    media = answer.headers.get("Content-Type", "").partition(";")[0]
    return web.Response(status=answer.status, body=answer.body, content_type=media)
