"""`GET /v1/findings`: what is wrong with the tree, judged once for all who ask."""

from aiohttp import web

from master.api.answers.refusals import none_acceptable
from master.api.answers.representation import CACHED, coding, is_known, json_body
from master.api.requests.query import Query
from master.service import SERVICE


async def get_findings(request: web.Request, _query: Query) -> web.StreamResponse:
    """Made again when the tree differs, and after a second, as there are ages in it."""
    taken = coding(request.headers.get("Accept-Encoding"))
    if taken is None:
        return none_acceptable()
    cache = request.app[SERVICE].findings_document
    made = await cache.document()
    headers = {**CACHED, "ETag": f'W/"{made.tag}"'}
    if is_known(request.headers.get("If-None-Match"), made.tag):
        return web.Response(status=304, headers=headers)
    zipped = taken == "gzip"
    return json_body(await cache.compressed(made) if zipped else made.body, headers, zipped=zipped)
