"""The published description of the API is the API."""

import json
import re
from typing import Any

from master.api.openapi import describe, openapi_route
from master.api.routes import ROUTES
from tests.master.world import running


def _refs(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [ref for item in value.values() for ref in _refs(item)]
    if isinstance(value, list):
        return [ref for item in value for ref in _refs(item)]
    return []


def test_every_reference_leads_somewhere() -> None:
    document = describe(ROUTES)
    for ref in _refs(document):
        target: Any = document
        for part in ref.removeprefix("#/").split("/"):
            target = target[part]
        assert target


def test_it_has_the_shape_that_the_standard_asks_for() -> None:
    """OpenAPI 3.1: info, unique operation ids, a description per response, typed parameters."""
    document = describe(ROUTES)
    assert re.fullmatch(r"3\.1\.\d+", document["openapi"])
    assert {"title", "version"} <= document["info"].keys()
    operations = [call for item in document["paths"].values() for call in item.values()]
    ids = [operation["operationId"] for operation in operations]
    assert len(set(ids)) == len(ids)
    for operation in operations:
        assert operation["summary"]
        for status, answer in operation["responses"].items():
            assert re.fullmatch(r"[1-5]\d\d", status)
            assert answer["description"]
        for parameter in operation["parameters"]:
            assert parameter["in"] in ("query", "path")
            assert parameter["schema"]["type"] in ("string", "integer")
    json.dumps(document)


async def test_it_describes_every_call_that_is_routed(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        served = (await master.get("/openapi.json")).json
        assert served == describe((*ROUTES, openapi_route(ROUTES)))
        index = (await master.get("/")).json
        assert set(served["paths"]) == set(index["calls"])


async def test_every_described_answer_status_is_described_where_it_happens(
    token_flag: str,
) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        paths = (await master.get("/openapi.json")).json["paths"]
        for path, item in paths.items():
            if path == "/v1/topology/events" or "get" not in item:
                continue
            for query in ("", "?unknown=1"):
                answer = await master.get(path + query)
                assert str(answer.status) in item["get"]["responses"], (path, answer.status)
                media = item["get"]["responses"][str(answer.status)].get("content", {})
                assert answer.headers["Content-Type"].split(";")[0] in media
