"""The published description of the API is the API."""

import asyncio
import json
import re
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from master.api import openapi
from master.api.openapi import describe, openapi_route
from master.api.routes import ROUTES
from tests.master.documents import faults, read_json
from tests.master.placing import Caller, placing
from tests.master.world import running
from topo.discovery import modes
from topo.kit.serving.connections import MAX_LINE_BYTES
from topo.model.rest.service import Problem
from topo.placement.booking.holds import HoldState
from topo.placement.job import request
from topo.placement.job.plan import FitTest

pytestmark = pytest.mark.virtual_time


@cache
def described() -> dict[str, Any]:
    """The description of all calls; no test changes it."""
    return describe(ROUTES)


def _refs(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [ref for item in value.values() for ref in _refs(item)]
    if isinstance(value, list):
        return [ref for item in value for ref in _refs(item)]
    return []


def test_every_reference_leads_somewhere() -> None:
    document = described()
    for ref in _refs(document):
        target: Any = document
        for part in ref.removeprefix("#/").split("/"):
            target = target[part]
        assert target


def test_every_schema_has_a_name_of_its_own() -> None:
    """Two models of one name are told apart by their modules, and that is no name for clients."""
    assert [name for name in described()["components"]["schemas"] if "__" in name] == []


def test_the_calls_that_may_hold_name_the_header_of_the_key() -> None:
    paths = described()["paths"]
    named = {
        path
        for path, calls in paths.items()
        for call in calls.values()
        if "Idempotency-Key" in [each["name"] for each in call["parameters"]]
    }
    assert named == {"/v1/placements", "/v1/holds"}


def test_it_has_the_shape_that_the_standard_asks_for() -> None:
    """OpenAPI 3.1: info, unique operation ids, a description per response, typed parameters."""
    document = described()
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
            assert parameter["in"] in ("query", "path", "header")
            assert parameter["schema"]["type"] in ("string", "integer")
    json.dumps(document)


async def test_it_is_written_once_when_it_is_first_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[object] = []

    def noted(routes: object) -> dict[str, Any]:
        written.append(routes)
        return {"openapi": "3.1.0"}

    monkeypatch.setattr(openapi, "describe", noted)
    handler = openapi_route(ROUTES).handler
    assert not written, "a start does not wait for it"
    request = make_mocked_request("GET", "/openapi.json")
    answers = await asyncio.gather(*(handler(request, {}) for _ in range(4)))
    assert len(written) == 1
    bodies = {answer.body for answer in answers if isinstance(answer, web.Response)}
    assert bodies == {b'{\n  "openapi": "3.1.0"\n}'}


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


async def test_the_answers_to_calls_that_write_are_described_where_they_happen(
    tmp_path: Path,
) -> None:
    job = {"pods": 1, "gpus_per_pod": 8, "hold_s": 60, "key": "a"}
    async with placing(tmp_path, "--max-holds=1") as caller:
        paths = (await caller.master.get("/openapi.json")).json["paths"]
        stranger = Caller(caller.master, None)
        name = (await caller.held(1, key="a"))["hold"]["id"]
        calls = [
            ("/v1/holds", await caller.post("/v1/holds", job)),
            ("/v1/holds", await caller.post("/v1/holds", {**job, "pods": 2})),
            ("/v1/holds", await caller.post("/v1/holds", {**job, "key": "b"})),
            ("/v1/holds", await caller.post("/v1/holds", {})),
            ("/v1/holds", await caller.post("/v1/holds", b" " * 70_000)),
            ("/v1/holds", await caller.post("/v1/holds", b"{}", Content_Encoding="br")),
            ("/v1/holds", await stranger.post("/v1/holds", job)),
            ("/v1/placements", await caller.post("/v1/placements", {**job, "key": "b"})),
            ("/v1/placements", await stranger.post("/v1/placements", job)),
            ("/v1/placements", await stranger.post("/v1/placements", {})),
            ("/v1/holds/{id}/commit", await stranger.post(f"/v1/holds/{name}/commit")),
            ("/v1/holds/{id}/commit", await caller.post(f"/v1/holds/{name}/commit")),
            ("/v1/holds/{id}/commit", await caller.post("/v1/holds/none/commit")),
        ]
        ends = [await caller.delete(f"/v1/holds/{name}") for _ in range(2)]
        caller.master.service.port_tokens.writers.tokens = None
        calls.append(("/v1/holds", await caller.post("/v1/holds", job)))
        described = [(paths[path]["post"], answer) for path, answer in calls]
        described += [(paths["/v1/holds/{id}"]["delete"], answer) for answer in ends]
        for operation, answer in described:
            told = operation["responses"][str(answer.status)]
            assert answer.headers["Content-Type"].split(";")[0] in told["content"]
        statuses = {answer.status for _, answer in described}
        assert statuses == {200, 400, 401, 403, 404, 409, 410, 413, 415, 429}


def test_what_needs_a_token_says_so() -> None:
    paths = described()["paths"]
    secured = {
        (path, method): call["security"]
        for path, item in paths.items()
        for method, call in item.items()
        if "security" in call
    }
    always: list[dict[str, list[str]]] = [{"token": []}]
    sometimes = [{}, *always]
    assert secured == {
        ("/v1/placements", "post"): sometimes,
        ("/v1/nodes/{name}/quarantine", "post"): always,
        ("/v1/nodes/{name}/confirm", "post"): always,
        ("/v1/nodes/{name}/clear", "post"): always,
        ("/v1/gangs/{id}/open", "post"): always,
        ("/v1/holds", "post"): always,
        ("/v1/holds/{id}", "delete"): always,
        ("/v1/holds/{id}/commit", "post"): always,
    }
    assert paths["/v1/holds"]["post"]["requestBody"]["required"] is True


def _schema(name: str, key: str) -> Any:
    return described()["components"]["schemas"][name]["properties"][key]


@pytest.mark.parametrize(
    ("schema", "key", "words"),
    [
        ("TopologyDocument", "mode", modes.Mode),
        ("IndexDocument", "mode", modes.Mode),
        ("NoFitDocument", "failed", FitTest),
        ("NoFitDocument", "mode", request.PlacementMode),
        ("FitsDocument", "mode", request.PlacementMode),
        ("HoldSummary", "state", HoldState),
        ("HoldSummary", "mode", request.PlacementMode),
        ("PlacementBody", "mode", request.PlacementMode),
    ],
)
def test_a_closed_set_of_words_is_published_as_the_core_has_it(
    schema: str, key: str, words: type[StrEnum]
) -> None:
    assert _schema(schema, key)["enum"] == [word.value for word in words]


def test_a_text_that_may_not_be_empty_says_so() -> None:
    """In a query, in a path and in a body; one that may be empty does not."""
    document = described()
    for item in document["paths"].values():
        for call in item.values():
            for parameter in call["parameters"]:
                schema = parameter["schema"]
                if schema["type"] == "string" and not schema.keys() & {"enum", "pattern"}:
                    assert schema["minLength"] == 1
    assert _schema("PlacementBody", "key")["anyOf"][0]["minLength"] == 1
    assert _schema("HoldBody", "exclude")["items"]["minLength"] == 1
    assert "minLength" not in _schema("PlacementBody", "gpu_type")["anyOf"][0]


def test_every_call_has_a_tag_and_every_document_a_description() -> None:
    """And a name of its own, which says nothing of our modules."""
    document = described()
    tags = {tag["name"] for tag in document["tags"] if tag["description"]}
    used = {
        tag for item in document["paths"].values() for call in item.values() for tag in call["tags"]
    }
    assert used == tags
    for name, schema in document["components"]["schemas"].items():
        assert schema.get("description"), name
        assert re.fullmatch(r"[A-Z][A-Za-z]+(?:-(?:Input|Output))?", name)


def test_only_what_an_answer_may_leave_out_is_not_required() -> None:
    schemas = described()["components"]["schemas"]
    absent = {
        name: schema["properties"].keys() - set(schema.get("required", ()))
        for name, schema in schemas.items()
        if name.endswith(("Document", "Summary", "Problem"))
    }
    assert {name: keys for name, keys in absent.items() if keys} == {
        "TopologyDocument": {"node", "as_of", "fabric", "fabrics"},
        "NodeDetailDocument": {"places"},
        "NodeDocument": {"cards", "pool", "quarantine", "shared", "suspected"},
        "UnplacedDocument": {"cards", "pool", "quarantine", "shared", "suspected"},
        "FindingDocument": {"jobs"},
        "FindingsDocument": {"as_of"},
        "NodeCapacityDocument": {"cards", "shared"},
        "ReadyDocument": {"origin", "age_s", "why"},
        "ChangeDocument": {"fabric"},
        "FitsDocument": {"hold", "inside", "replanned", "replanned_because"},
        "Problem": {"field", "fix", "reasons", "mode"},
    }


async def test_every_error_of_the_running_master_is_the_published_problem(
    tmp_path: Path,
) -> None:
    async with placing(tmp_path) as caller:
        answers = [
            await caller.master.get(path)
            for path in ("/nothing", "/v1/topology?x=1", "/v1/topology?node=x", "/v1/holds/x")
        ]
        answers += [await caller.post(path, {}) for path in ("/node_group", "/v1/holds")]
        assert {answer.status for answer in answers} == {400, 404, 405}
        for answer in answers:
            assert read_json(Problem, answer.body)["detail"]


async def test_every_answer_of_the_running_master_is_the_published_schema(tmp_path: Path) -> None:
    """Good or not: no key that is not described, none missing, every word and length as stated."""
    async with placing(tmp_path) as caller:
        served = (await caller.master.get("/openapi.json")).json
        name = (await caller.held(2, key="a"))["hold"]["id"]
        for path, item in served["paths"].items():
            if "get" not in item or path in ("/v1/topology/events", "/openapi.json"):
                continue
            for query in ("", "?from=0", "?pods=2&gpus_per_pod=8", "?pods=99&gpus_per_pod=8"):
                called = path.replace("{id}", name).replace("{name}", "n0-0-0") + query
                answer = await caller.master.get(called)
                described = item["get"]["responses"][str(answer.status)]["content"]
                media = answer.headers["Content-Type"].split(";")[0]
                content = described[media]
                if not media.startswith("text/"):
                    shared = served["components"]["schemas"]
                    assert faults(answer.json, content["schema"], shared) == [], called


def test_a_url_with_every_parameter_as_long_as_it_may_be_is_read() -> None:
    """Four bytes to a character, three characters of a URL to a byte."""
    for route in ROUTES:
        texts = [p for p in route.parameters if p.kind == "string" and not p.words]
        lengths = (parameter.max_chars for parameter in texts if parameter.place != "header")
        assert 12 * sum(lengths) + 1024 < MAX_LINE_BYTES, route.path


def test_every_link_leads_to_a_call_that_takes_its_parameters() -> None:
    calls = [call for item in described()["paths"].values() for call in item.values()]
    by_id = {call["operationId"]: call for call in calls}
    links = [link for c in calls for link in c["responses"]["200"].get("links", {}).values()]
    assert {link["operationId"] for link in links} == {"get_hold", "commit_hold", "delete_hold"}
    for link in links:
        named = {parameter["name"] for parameter in by_id[link["operationId"]]["parameters"]}
        assert link["parameters"].keys() <= named
