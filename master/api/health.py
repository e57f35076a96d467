"""The service about itself: liveness, readiness, metrics, and the index of calls."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial

import orjson
import prometheus_client as prom
from aiohttp import web

from master.api.requests.reading import Query
from master.service import SERVICE, Service
from master.tree.engine import STUCK_S
from topo.kit.serving.problem import problem
from topo.model.rest.service import HealthDocument, IndexDocument, ReadyDocument

VERSION = web.AppKey("version", str)
"""The version of this product, read once: a read at each call fails without free descriptors."""
DOCS = web.AppKey("docs", str)
"""The address of its documentation as its package states it; empty where it states none."""


async def get_health(request: web.Request, _query: Query) -> web.StreamResponse:
    """Answer 200 while the engine loop advances; nothing outside this process is asked."""
    service = request.app[SERVICE]
    engine = service.engine
    if engine.alive:
        health = HealthDocument(status="ok", warnings=list(service.warnings.now()))
        return _json(health)
    stuck_s = engine.clock() - engine.advanced_at_s
    return problem(
        503,
        f"the engine has not advanced for {stuck_s:.0f} s (limit {STUCK_S:.0f})",
        fix="restart the master; its log says what it did last",
    )


async def get_ready(request: web.Request, _query: Query) -> web.StreamResponse:
    """Answer 200 once tree and cluster are known, else 503 with what is missing."""
    service = request.app[SERVICE]
    missing = service.availability.unready_reasons()
    if not missing:
        return _json(_ready(service))
    return problem(
        503,
        "; ".join(missing),
        fix="wait, or see `sources` of GET /v1/topology",
        headers={"Retry-After": "1"},
        reasons=list(missing),
    )


def _ready(service: Service) -> ReadyDocument:
    replicas, document = service.replicas, ReadyDocument(status="ready")
    if replicas is not None and replicas.age_s is not None:
        if replicas.follower.origin:
            document["origin"] = replicas.follower.origin
        document["age_s"] = round(replicas.age_s, 1)
        if replicas.shows_copy and replicas.copy_reason:
            document["why"] = replicas.copy_reason
    return document


def _json(document: HealthDocument | ReadyDocument) -> web.Response:
    return web.json_response(document, dumps=partial(json.dumps, default=asdict))


async def get_metrics(request: web.Request, _query: Query) -> web.StreamResponse:
    """Answer with the metrics in the Prometheus text format."""
    service = request.app[SERVICE]
    await service.placements.totals.refresh()
    text = prom.generate_latest(service.registry)
    return web.Response(body=text, headers={"Content-Type": prom.CONTENT_TYPE_PLAIN_0_0_4})


def documentation(urls: Iterable[str]) -> str:
    """Return the address of the documentation among a package's, empty where it states none.

    Each is a label and an address, `Documentation, https://…` (core metadata, Project-URL).
    """
    named = (url.partition(",")[::2] for url in urls)
    return next((found.strip() for label, found in named if label == "Documentation"), "")


async def get_index(request: web.Request, _query: Query) -> web.StreamResponse:
    """Answer with the name of the service, its version and its calls."""
    service = request.app[SERVICE]
    index = IndexDocument(
        service="topo-master",
        version=request.app[VERSION],
        mode=service.settings.mode,
        generation=service.engine.snapshot.generation,
        run=service.engine.history.run_id,
        docs=request.app[DOCS],
        calls=tuple(sorted({known.canonical for known in request.app.router.resources()})),
    )
    body = orjson.dumps(index, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    return web.Response(body=body, content_type="application/json")
