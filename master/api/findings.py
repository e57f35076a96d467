"""`GET /v1/findings`: the problems of the tree, now or at a kept moment, found once for all.

`GET /v1/wiring`: the plan of the cables beside those that are seen. Only a master that leads sees
workers and dumps; one that follows passes the leader's answer on.
"""

from aiohttp import web

from master.api.answers import (
    CACHED,
    accepted_encoding,
    has_known_tag,
    json_response,
    not_acceptable,
)
from master.api.gangs import of_leader
from master.api.history import findings_at_moment
from master.api.requests.reading import Parameter, Query
from master.service import SERVICE
from topo.kit.serving.problem import problem

_WIRING_PATH = "/v1/wiring"
PARAMETERS = (
    Parameter("at", "moment", "what was wrong then; sources and counts of GPUs are not kept"),
)


async def get_findings(request: web.Request, query: Query) -> web.StreamResponse:
    """Answer with the findings; they are made again when the tree differs and after a second."""
    taken = accepted_encoding(request.headers.get("Accept-Encoding"))
    if taken is None:
        return not_acceptable()
    if "at" in query and not query["at"].is_now:
        return await findings_at_moment(request, query, zipped=taken == "gzip")
    cache = request.app[SERVICE].documents.findings
    made = await cache.document()
    headers = {**CACHED, "ETag": f'W/"{made.tag}"'}
    if has_known_tag(request.headers.get("If-None-Match"), made.tag):
        return web.Response(status=304, headers=headers)
    zipped = taken == "gzip"
    return json_response(
        await cache.compressed(made) if zipped else made.body, headers, zipped=zipped
    )


async def get_wiring(request: web.Request, query: Query) -> web.StreamResponse:
    """Answer with the findings of the last comparison."""
    service = request.app[SERVICE]
    check = service.wiring
    if check is None:
        fix = "give its file as --wiring-plan, or `topo wiring check PLAN` one of your own"
        return problem(404, "this master holds no plan of cables", fix=fix)
    if not service.replica.role.acts:
        return await of_leader(service, _WIRING_PATH, query)
    if check.last is None:
        fix = "ask again in some seconds; GET /v1/topology has a warning if the file is bad"
        return problem(503, "the plan was not compared yet", fix=fix, headers={"Retry-After": "2"})
    return json_response(check.last.body)
