"""`POST /v1/nodes/{name}/quarantine`, `/confirm` and `/clear`: what operators decide about a node.

A decision counts at once and is kept with the state, which is written within seconds.
"""

import asyncio

import orjson
from aiohttp import web

from master.api.answers import json_response, unknown_node
from master.api.requests.reading import Parameter, Query, read_body
from master.service import SERVICE
from topo.model.errors import BadInputError, Refusal
from topo.model.ids import NodeName
from topo.model.observation import OperatorAct, OperatorDecided
from topo.model.plain_text import plain
from topo.model.rest.jobs import DecisionBody

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
    await engine.decide(OperatorDecided(name, act, link, reason))
    return json_response(orjson.dumps(engine.suspicion(name)))
