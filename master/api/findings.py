"""`GET /v1/findings`: what is wrong with the tree, judged once for all who ask; and what was."""

from aiohttp import web

from master.api.answers import (
    CACHED,
    accepted_encoding,
    has_known_tag,
    json_response,
    not_acceptable,
)
from master.api.history import findings_at_moment
from master.api.requests.reading import Parameter, Query
from master.service import SERVICE

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
