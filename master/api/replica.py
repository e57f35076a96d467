"""The calls by which followers ask the leader for its state; they are not part of the API."""

from urllib.parse import quote

from aiohttp import web

from master.replicas.follower import AGE
from master.replicas.leader_clock import HEADER as CLOCK
from master.replicas.leader_clock import header_value
from master.replicas.source_states import CABLES, MAX_CABLES, encode
from master.role import not_leader
from master.service import SERVICE
from topo.kit.process.boot import boot_id
from topo.kit.serving.problem import problem


async def get_replica(request: web.Request) -> web.StreamResponse:
    """Answer with the kept state as gzip'd JSON; 304 where `If-None-Match` names it.

    401 for a caller that is no master; 503 from a follower, and before there is a tree: what others
    know is better.
    """
    service = request.app[SERVICE]
    if (refusal := await _refusal(request)) is not None:
        return refusal
    if missing := service.availability.missing():
        headers = {"Retry-After": "1"}
        return problem(503, "; ".join(missing), fix="ask again", headers=headers)
    document = await service.documents.of_leader.newest()
    age_s = max(0.0, service.engine.clock() - document.made_s)
    headers = {
        "ETag": document.tag,
        AGE: f"{age_s:.3f}",
        CLOCK: header_value(boot_id(), service.engine.clock()),
        "Cache-Control": "no-store",
    }
    if request.headers.get("If-None-Match") == document.tag:
        return web.Response(status=304, headers=headers)
    headers["Content-Encoding"] = "gzip"
    return web.Response(body=document.packed, content_type="application/json", headers=headers)


async def get_replica_sources(request: web.Request) -> web.StreamResponse:
    """Answer with the states of this leader's sources as JSON, also before there is a tree.

    401 for a caller that is no master; 503 from a follower.
    """
    service = request.app[SERVICE]
    engine, wiring = service.engine, service.wiring
    if (refusal := await _refusal(request)) is not None:
        return refusal
    content = encode(engine.snapshot.sources, engine.clock())
    headers = {"Cache-Control": "no-store"}
    for warning in wiring.warnings if wiring is not None else ():
        headers[CABLES] = quote(warning.text[:MAX_CABLES])
    return web.Response(body=content, content_type="application/json", headers=headers)


async def _refusal(request: web.Request) -> web.Response | None:
    """Return the refusal of a caller that is no master, or while there is nothing to send."""
    service = request.app[SERVICE]
    replicas = service.replicas
    if replicas is None or not await replicas.credential.admits(request):
        headers = {"WWW-Authenticate": "Bearer"}
        fix = "show the token of --replica-token-file"
        return problem(401, "this call is for masters alone", fix=fix, headers=headers)
    if not service.replica.serves:
        return not_leader(service.replica.role)
    return None
