"""`GET /openapi.json`, generated from the table of routes and the types of the documents."""

import threading
from functools import cache
from importlib.metadata import version
from typing import Any

import orjson
from aiohttp import web
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import TypedDictSchema

from master.api.requests.reading import Parameter, Query
from master.api.route import Route
from topo.kit.threads import off_loop
from topo.model.rest import moment_id
from topo.model.rest.generation_id import PATTERN
from topo.model.rest.service import Problem

_TAGS = {
    "topology": "Which nodes are wired together, how sure we are, and what moved",
    "placements": "Which nodes and GPUs a job should get, what is reserved, how whole the rest is",
    "service": "Whether the master works, and what it measures",
}
_PROBLEM_STATUS = {
    400: "the request does not fit; `field` and `fix` say where and how",
    500: "the master made a mistake; its log says more",
}
_TOKEN_STATUS = {
    401: "the call carries no token that is known here",
    403: "nothing may be written: there is no --api-token-file",
}
_PROBLEM = {"$ref": f"#/components/schemas/{Problem.__name__}"}
_SECURED: dict[str, list[str]] = {"token": []}


class AnswerSchema(GenerateJsonSchema):
    """The JSON schema of answers: a key is required unless an answer may leave it out.

    pydantic by itself takes a default for a key that may be left out. Here a default is what a
    client assumes where an earlier release does not send the key.
    """

    def typed_dict_schema(self, schema: TypedDictSchema) -> JsonSchemaValue:
        """Return the schema of a typed dictionary."""
        found = super().typed_dict_schema(schema)
        required = schema["cls"].__required_keys__
        found["required"] = [key for key in found["properties"] if key in required]
        return found

    def field_is_required(self, field: Any, total: bool) -> bool:  # noqa: FBT001 - pydantic's
        """Return whether the key is always there: a dataclass is written with all its fields."""
        is_written = self.mode == "serialization" and field["type"] == "dataclass-field"
        return is_written or super().field_is_required(field, total)


def openapi_route(routes: tuple[Route, ...]) -> Route:
    """Return the route that serves the description of the given routes and of itself.

    It is written when it is first asked for, once and off the loop: to write it takes longer
    than all else that a master does before it listens.
    """
    at_work = threading.Lock()

    @cache
    def text() -> bytes:
        return orjson.dumps(describe((*routes, this)), option=orjson.OPT_INDENT_2)

    def written() -> bytes:
        with at_work:
            return text()

    async def get_openapi(_request: web.Request, _query: Query) -> web.StreamResponse:
        return web.Response(body=await off_loop(written), content_type="application/json")

    this = Route(
        path="/openapi.json",
        handler=get_openapi,
        summary="This description",
        tag="service",
        document=dict[str, Any],
    )
    return this


def describe(routes: tuple[Route, ...]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document."""
    inputs: list[Any] = [("problem", "serialization", TypeAdapter(Problem))]
    for route in routes:
        inputs.append((_key(route), "serialization", TypeAdapter(route.document)))
        if route.body is not None:
            inputs.append((_key(route), "validation", TypeAdapter(route.body)))
    schemas, shared = TypeAdapter.json_schemas(
        inputs, ref_template="#/components/schemas/{model}", schema_generator=AnswerSchema
    )
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = _operation(route, schemas)
        paths.setdefault(route.path, {})[route.method.lower()] = operation
        for path in route.also:  # the same under a name of its own, as ids have to be
            name = operation["operationId"] + path.replace("/", "_")
            paths.setdefault(path, {})[route.method.lower()] = {**operation, "operationId": name}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Supernode topology",
            "version": version("supernode-topology"),
            "description": "Which GPU nodes are wired together, and how sure we are. "
            "Reads need no token. Every error is an application/problem+json document.",
        },
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": shared.get("$defs", {}),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _key(route: Route) -> str:
    return f"{route.method} {route.path}"


def _operation(route: Route, schemas: Any) -> dict[str, Any]:
    schema = schemas[_key(route), "serialization"]
    answers: dict[str, Any] = {
        "200": {
            "description": route.summary,
            "content": {
                route.media: {"schema": schema},
                **{media: {"schema": {"type": "string"}} for media in route.other_media},
            },
        }
    }
    if route.links:
        answers["200"]["links"] = {
            name: {"operationId": name, "parameters": dict(where)}
            for name, where in route.links.items()
        }
    if route.conditional:
        answers["200"]["headers"] = {"ETag": {"schema": {"type": "string"}}}
        answers["304"] = {"description": "If-None-Match names the current ETag"}
    for status, text in sorted({**_problems(route), **route.problems}.items()):
        content = {"application/problem+json": {"schema": _PROBLEM}}
        answers[str(status)] = {"description": text, "content": content}
    operation = {
        "operationId": route.handler.__name__,
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": [_parameter(parameter) for parameter in route.parameters],
        "responses": answers,
    }
    if route.writes != "never":
        operation["security"] = [{}, _SECURED] if route.writes == "sometimes" else [_SECURED]
    if route.body is not None:
        content = {"application/json": {"schema": schemas[_key(route), "validation"]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _problems(route: Route) -> dict[int, str]:
    """Return the problems that every route of its kind may answer with."""
    return {
        **_PROBLEM_STATUS,
        **(_TOKEN_STATUS if route.writes != "never" else {}),
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.required or parameter.place == "path",
        "description": parameter.text,
        "schema": _schema(parameter),
    }


def _schema(parameter: Parameter) -> dict[str, Any]:
    if parameter.kind == "integer":
        return {"type": "integer", "minimum": parameter.minimum}
    if parameter.kind == "generation":
        return {"type": "string", "pattern": PATTERN}
    if parameter.kind == "moment":
        return {"type": "string", "pattern": moment_id.PATTERN}
    if parameter.words:
        return {"type": "string", "enum": list(parameter.words)}
    return {"type": "string", "minLength": 1, "maxLength": parameter.max_chars}
