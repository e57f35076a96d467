"""`GET /node_group`: the vendor's document, nothing more."""

from aiohttp import web

from master.api.answers.refusals import none_acceptable, not_ready
from master.api.answers.representation import CACHED, coding, is_known, json_body
from master.api.requests.query import Query
from master.service import SERVICE


async def get_node_group(request: web.Request, _query: Query) -> web.StreamResponse:
    """The document with a strong ETag per representation, 304 when the client has it."""
    service = request.app[SERVICE]
    if missing := service.missing():
        return not_ready(service, missing)
    document = await service.node_group_document.document()
    zipped_tag = f"{document.tag}-gzip"
    taken = coding(request.headers.get("Accept-Encoding"))
    if taken is None:
        return none_acceptable()
    zipped = taken == "gzip"
    headers = {**CACHED, "ETag": f'"{zipped_tag if zipped else document.tag}"'}
    if is_known(request.headers.get("If-None-Match"), document.tag, zipped_tag):
        return web.Response(status=304, headers=headers)
    body = await service.node_group_document.compressed(document) if zipped else document.body
    return json_body(body, headers, zipped=zipped)
