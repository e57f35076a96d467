"""`GET /openapi.json`, generated from the table of routes and the types of the documents."""

from importlib.metadata import version
from typing import Any

import orjson
from aiohttp import web
from pydantic import TypeAdapter

from master.api.documents import Problem
from master.api.query import Parameter, Query
from master.api.routes import Route

_PROBLEM_STATUS = {400: "the request does not fit; `field` and `fix` say where and how"}


def openapi_route(routes: tuple[Route, ...]) -> Route:
    """The route that serves the description of the given ones and of itself."""

    async def get_openapi(_request: web.Request, _query: Query) -> web.StreamResponse:
        return web.Response(body=text, content_type="application/json")

    this = Route(
        path="/openapi.json",
        handler=get_openapi,
        summary="This description",
        document=dict[str, Any],
    )
    text = orjson.dumps(describe((*routes, this)), option=orjson.OPT_INDENT_2)
    return this


def describe(routes: tuple[Route, ...]) -> dict[str, Any]:
    """The OpenAPI 3.1 document."""
    adapters = [(route.path, "serialization", TypeAdapter(route.document)) for route in routes]
    inputs: list[Any] = [*adapters, ("problem", "serialization", TypeAdapter(Problem))]
    schemas, shared = TypeAdapter.json_schemas(inputs, ref_template="#/components/schemas/{model}")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Supernode topology",
            "version": version("supernode-topology"),
            "description": "Which GPU nodes are wired together, and how sure we are. "
            "Reads need no token. Every error is an application/problem+json document.",
        },
        "paths": {
            route.path: {"get": _operation(route, schemas[route.path, "serialization"])}
            for route in routes
        },
        "components": {"schemas": shared.get("$defs", {})},
    }


def _operation(route: Route, schema: Any) -> dict[str, Any]:
    answers: dict[str, Any] = {
        "200": {"description": route.summary, "content": {route.media: {"schema": schema}}}
    }
    if route.conditional:
        answers["200"]["headers"] = {"ETag": {"schema": {"type": "string"}}}
        answers["304"] = {"description": "If-None-Match names the current ETag"}
    for status, text in sorted({**_PROBLEM_STATUS, **route.problems}.items()):
        content = {"application/problem+json": {"schema": _ref(Problem.__name__)}}
        answers[str(status)] = {"description": text, "content": content}
    return {
        "operationId": route.handler.__name__,
        "summary": route.summary,
        "parameters": [_parameter(parameter) for parameter in route.parameters],
        "responses": answers,
    }


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": parameter.kind}
    if parameter.kind == "generation":
        schema = {"type": "string", "pattern": r"^[0-9]{1,18}(\.[0-9a-f]{8})?$"}
    if parameter.kind == "integer":
        schema["minimum"] = parameter.minimum
    return {
        "name": parameter.name,
        "in": "query",
        "required": parameter.required,
        "description": parameter.text,
        "schema": schema,
    }
