"""`GET /v1/fragmentation`: how broken up the free capacity is, and what that costs."""

import orjson
from aiohttp import web

from master.api.answers.refusals import not_ready
from master.api.answers.representation import json_body
from master.api.requests.query import Query
from master.service import SERVICE


async def get_fragmentation(request: web.Request, _query: Query) -> web.StreamResponse:
    """The report on the capacity now, made once per version of it."""
    service = request.app[SERVICE]
    if missing := service.missing():
        return not_ready(service, missing)
    latest = await service.placements.maintenance.report()
    document = {
        "generation": latest.generation,
        "types": [part.model_dump() for part in latest.report.types],
        "mix": latest.report.mix,
        "mix_observed": latest.observed,
        "run": service.engine.history.run,
    }
    return json_body(orjson.dumps(document))
