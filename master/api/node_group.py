"""`GET /node_group`: the vendor's document, nothing more."""

from aiohttp import web

from master.api.answers.representation import CACHED, coding, is_known, json_body, none_acceptable
from master.api.requests.query import Query
from master.service import SERVICE, Service
from topo.kit.problem import problem


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


def not_ready(service: Service, missing: tuple[str, ...]) -> web.Response:
    """The answer before the tree may be shown: why, and when to ask again."""
    return problem(
        503,
        "the tree is not complete yet: " + "; ".join(missing),
        fix="ask again in a moment; GET /v1/topology shows what is known so far",
        headers={"Retry-After": "1"},
        reasons=list(missing),
        mode=service.settings.mode.value,
    )
