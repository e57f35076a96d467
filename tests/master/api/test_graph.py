"""`GET /v1/topology/graph`: the formats, the part of the tree, what is refused."""

import asyncio
import gc
import threading
from io import BytesIO
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from master.api import graph as graph_call
from master.tree.selection import find_groups
from tests.master.documents import faults
from tests.master.placing import config, placing
from topo.model.rest.graph import GRAPH_MEDIA
from topo.publish.graph_formats import FORMATS

pytestmark = pytest.mark.virtual_time
PAIRS = config(boxes=2, flies=2, nodes=2)


def test_every_format_has_a_media_type_and_a_writer() -> None:
    assert list(GRAPH_MEDIA) == list(FORMATS)


async def test_each_format_has_the_whole_fabric_with_what_is_held(tmp_path: Path) -> None:
    async with placing(tmp_path, text=PAIRS) as caller:
        await caller.held(1)
        answers = {
            name: await caller.master.get(f"/v1/topology/graph?format={name}") for name in FORMATS
        }
        for name, answer in answers.items():
            assert (answer.status, answer.headers["Content-Type"].split(";")[0]) == (
                200,
                GRAPH_MEDIA[name],
            )
        graph: Any = nx.node_link_graph(answers["node-link"].json, edges="edges")
        assert sum(about.get("held_gpus", 0) for _, about in graph.nodes(data=True)) == 8
        assert graph.graph["generation"] == await caller.master.generation()
        assert set(nx.read_graphml(BytesIO(answers["graphml"].body))) == set(graph)
        assert b'subgraph "cluster_group/s0/d0-0"' in answers["dot"].body
        plain = await caller.master.get("/v1/topology/graph")
        assert plain.json == answers["node-link"].json, "that is the format if none is named"
        paths = (await caller.master.get("/openapi.json")).json
        content = paths["paths"]["/v1/topology/graph"]["get"]["responses"]["200"]["content"]
        assert set(content) == set(GRAPH_MEDIA.values())
        schema = content["application/json"]["schema"]
        assert faults(plain.json, schema, paths["components"]["schemas"]) == []


async def test_a_group_is_shown_alone(tmp_path: Path) -> None:
    async with placing(tmp_path, text=PAIRS) as caller:
        told = (await caller.master.get("/v1/topology/graph?group=s1/d1-0")).json
        assert [vertex["name"] for vertex in told["nodes"]] == ["d1-0", "n1-0-0", "n1-0-1"]


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ("format=grapml", 400, "format"),
        ("devices=yes", 400, "devices"),
        ("group=s2", 404, "group"),
        ("devices=vertices", 400, "devices"),
        ("depth=1", 400, "depth"),
    ],
)
async def test_what_cannot_be_had_is_refused_with_the_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, status: int, field: str
) -> None:
    monkeypatch.setattr(graph_call, "MAX_DEVICE_NODES", 7)
    async with placing(tmp_path, text=PAIRS) as caller:
        answer = await caller.master.get(f"/v1/topology/graph?{query}")
        assert (answer.status, answer.json["field"]) == (status, field)
        assert answer.json["fix"]
        few = await caller.master.get("/v1/topology/graph?devices=vertices&group=s0")
        assert few.status == 200


async def test_it_is_built_beside_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []

    def noted(*given: Any) -> Any:
        threads.append(threading.current_thread().name)
        return find_groups(*given)

    monkeypatch.setattr(graph_call, "find_groups", noted)
    async with placing(tmp_path, text=PAIRS) as caller:
        assert (await caller.master.get("/v1/topology/graph?group=s0")).status == 200
    assert threads
    assert "MainThread" not in threads


async def test_all_who_ask_for_one_graph_at_once_get_the_one_that_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []

    def noted(*given: Any) -> Any:
        made.append(given)
        return find_groups(*given)

    monkeypatch.setattr(graph_call, "find_groups", noted)
    async with placing(tmp_path, text=PAIRS) as caller:
        for group, status in (("s0", 200), ("none", 404)):
            made.clear()
            path = f"/v1/topology/graph?group={group}"
            answers = await asyncio.gather(*(caller.master.get(path) for _ in range(16)))
            assert {each.status for each in answers} == {status}
            assert len({each.body for each in answers}) == 1
            assert len(made) < 8


async def test_a_graph_leaves_nothing_that_only_a_full_collection_would_free(
    tmp_path: Path,
) -> None:
    """A master collects old objects next to never, so cycles would stay: each graph a graph."""
    async with placing(tmp_path, text=config(boxes=4, flies=4, nodes=8)) as caller:
        path = "/v1/topology/graph?devices=vertices&format="
        for form in FORMATS:
            await caller.master.get(path + form)
        gc.collect()
        gc.disable()
        try:
            for form in FORMATS:
                assert (await caller.master.get(path + form)).status == 200
            assert gc.collect() < 200, "128 nodes, each a vertex with attributes"
        finally:
            gc.enable()
