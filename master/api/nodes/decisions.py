"""`POST /v1/nodes/{name}/quarantine`, `/confirm` and `/clear`: what operators decide about a node.

A decision counts at once and is kept with the state, which is written within seconds.
"""

import asyncio

import orjson
from aiohttp import web

from master.api.answers import json_response, unknown_node
from master.api.requests.reading import Parameter, Query, read_body
from master.service import SERVICE
from topo.kit.serving.problem import refusal
from topo.model.errors import BadInputError, Refusal
from topo.model.ids import NodeName
from topo.model.nearest import did_you_mean
from topo.model.observation import OperatorAct, OperatorDecided
from topo.model.plain_text import plain
from topo.model.rest.jobs import DecisionBody
from topo.model.words import listed

_LINKS = 32
"""Links that a refusal names; a server with eight GPUs has ten times as many."""
NAME = (Parameter("name", "string", "the node", place="path"),)


async def quarantine(request: web.Request, query: Query) -> web.StreamResponse:
    """Keep new jobs off a node until it is cleared."""
    return await _decide(request, query, OperatorAct.QUARANTINE)


async def confirm(request: web.Request, query: Query) -> web.StreamResponse:
    """Hold the suspected links of a node, or the one named, for bad until they are cleared."""
    return await _decide(request, query, OperatorAct.CONFIRM)


async def clear(request: web.Request, query: Query) -> web.StreamResponse:
    """Forget what is held against a node, or against one link of it."""
    return await _decide(request, query, OperatorAct.CLEAR)


async def _decide(request: web.Request, query: Query, act: OperatorAct) -> web.StreamResponse:
    body = await read_body(request, DecisionBody)
    engine, name = request.app[SERVICE].engine, NodeName(query["name"])
    if act is not OperatorAct.CLEAR and not body.reason.strip():
        fix = "say why, for whoever looks at the node later"
        raise BadInputError(Refusal("a decision needs a reason", "reason", fix))
    held = engine.suspicion(name)
    if engine.detail(name) is None and not held["links"] and held["quarantine"] is None:
        return await asyncio.to_thread(unknown_node, name, engine.snapshot.forest)
    reason, link = plain(body.reason), plain(body.link)
    if link and link not in (known := engine.link_names(name)):
        there = (
            f"there are {listed(known, _LINKS)}" if known else "its worker has named no link yet"
        )
        fix = did_you_mean(link, known, f"{there}; without `link` it is about the node")
        return refusal(404, Refusal(f"{name} has no link {link!r}", "link", fix))
    await engine.decide(OperatorDecided(name, act, link, reason))
    return json_response(orjson.dumps(engine.suspicion(name)))
