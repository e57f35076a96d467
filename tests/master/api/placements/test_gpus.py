"""`GET /v1/nodes/{name}/gpus` over real sockets."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.discovery.rails import by_lldp, wired
from tests.master.documents import read, read_json
from tests.master.world import Answer, Master, facts, running
from tests.support.waiting import eventually
from topo.kit.serving.problem import CONTENT_TYPE
from topo.model.machine import (
    Gpu,
    Link,
    LinkKind,
    LinkMatrix,
    NodeFacts,
    ProbeHealth,
    ProbeState,
)
from topo.model.rest.gpus import GpusDocument
from topo.model.rest.service import Problem
from topo.placement.gpus import gpu_sets

pytestmark = pytest.mark.virtual_time

MX, NODE = Link(LinkKind.METAXLINK, "MX"), Link(LinkKind.NUMA_NODE, "NODE")
SELF = Link(LinkKind.SELF, "X")


def two_islands(name: str, *unhealthy: int) -> NodeFacts:
    """A C500 host: GPUs 0 to 3 and 4 to 7 in full mesh."""
    links = tuple(
        tuple(SELF if a == b else MX if a // 4 == b // 4 else NODE for b in range(8))
        for a in range(8)
    )
    gpus = tuple(Gpu(at, model="MXC500", healthy=at not in unhealthy) for at in range(8))
    matrix = LinkMatrix(tuple(f"GPU{at}" for at in range(8)), (), links)
    return replace(facts(name), gpus=gpus, matrix=matrix)


async def known(master: Master, said: NodeFacts) -> str:
    """The path of the node's GPUs once its report is applied."""
    name = said.identity.name
    assert (await master.worker(name).full(said)).status == 200

    async def applied() -> bool:
        return master.service.engine.knows(name)

    await eventually(applied)
    return f"/v1/nodes/{name}/gpus"


def gpus_of(answer: Answer) -> GpusDocument:
    return read(GpusDocument, answer)


def problem_of(answer: Answer, status: int) -> Problem:
    assert answer.status == status, answer.body
    assert answer.headers["Content-Type"].startswith(CONTENT_TYPE)
    problem: Problem = read_json(Problem, answer.body)
    return problem


async def test_four_of_two_islands_are_one_island_and_the_answer_says_why(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        path = await known(master, two_islands("n1"))
        told = gpus_of(await master.get(path + "?n=4"))
    assert told["node"] == "n1"
    assert [(g["index"], g["model"], g["healthy"], g["free"]) for g in told["gpus"]] == [
        (at, "MXC500", True, True) for at in range(8)
    ]
    assert told["links"][0] == ("X", "MX", "MX", "MX", "NODE", "NODE", "NODE", "NODE")
    assert list(told["scores"]) == list(told["losses"]) == [str(n) for n in range(1, 9)]
    assert told["scores"]["4"] == 96
    assert told["losses"]["4"] == 128
    assert told["exact"]
    choice = told["choice"]
    assert choice is not None
    assert (choice["n"], choice["fits"], choice["gpus"]) == (4, True, (0, 1, 2, 3))
    assert (choice["score"], choice["loss"]) == (96, 128)
    assert choice["why"] == (
        "GPUs 0, 1, 2, 3 with 6 MX between them: a score of 96, which no other 4 of the 8 free "
        "GPUs exceed, and none that equal it cost the others less than 128"
    )


async def test_without_a_number_there_is_the_table_alone(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        path = await known(master, two_islands("n1"))
        told = gpus_of(await master.get(path))
    assert told["choice"] is None
    assert told["losses"]["8"] == told["scores"]["8"] == 224


async def test_only_free_and_healthy_gpus_are_given(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        path = await known(master, two_islands("n1", 5))
        ill = gpus_of(await master.get(path + "?n=4"))
        used = gpus_of(await master.get(path + "?n=2&free=0,1,2,4,5,6"))
        short = gpus_of(await master.get(path + "?n=6&free=0,1,2,4,5,6"))
    assert [gpu["index"] for gpu in ill["gpus"] if not gpu["free"]] == [5]
    assert ill["choice"] is not None
    assert ill["choice"]["gpus"] == (0, 1, 2, 3)
    assert ill["losses"]["8"] == 2000
    assert [gpu["index"] for gpu in used["gpus"] if gpu["free"]] == [0, 1, 2, 4, 6]
    assert used["choice"] is not None
    assert used["choice"]["gpus"] == (4, 6), "the island that is broken most"
    assert short["choice"] is not None
    assert (short["choice"]["fits"], short["choice"]["gpus"]) == (False, ())
    assert (short["choice"]["score"], short["choice"]["loss"]) == (0, 2000)
    assert short["choice"]["why"] == "6 do not fit: 5 of 8 GPUs are free (1 unhealthy, 2 in use)"


async def test_of_equal_gpus_those_of_the_same_rails_are_given_whatever_their_numbers(
    token_flag: str,
) -> None:
    """In gpu-4 the cables of rails 1 and 3 are exchanged; rails are a preference and no demand."""
    world = wired({"u": [f"gpu-{n}" for n in range(5)]}, rails=4, planes=1, each=2)
    world.exchange("gpu-4", 1, 3)
    async with running("--mode=fabric", token_flag) as master:
        for event in by_lldp(world):
            await known(master, event.facts)
        path = "/v1/nodes/gpu-4/gpus"
        right = gpus_of(await master.get("/v1/nodes/gpu-0/gpus?n=4"))
        wrong = gpus_of(await master.get(f"{path}?n=4"))
        beside = gpus_of(await master.get(f"{path}?n=2&rails=3"))
        short = gpus_of(await master.get(f"{path}?n=2&rails=3&free=0,1,3"))
        odd = problem_of(await master.get(f"{path}?n=2&rails=x"), 400)
        node = (await master.get("/v1/nodes/gpu-4")).json
        part = (await master.get("/v1/topology?node=gpu-4")).json
        unknown = problem_of(await master.get("/v1/nodes/gpu-44"), 404)
    choices = [each["choice"] for each in (right, wrong, beside, short)]
    assert [(each["gpus"], each["rails"]) for each in choices if each is not None] == [
        ((0, 1, 2, 3), (0, 1)),
        ((0, 1, 6, 7), (0, 1)),
        ((2, 3), (3,)),
        ((0, 3), (0, 3)),
    ]
    assert wrong["choice"] is not None
    assert wrong["choice"]["why"].startswith("GPUs 0, 1, 6, 7 on rails 0, 1 with")
    assert [(each["gpus"], each["switch"], each["rail"]) for each in wrong["uplinks"]] == [
        ((0, 1), "u-leaf-00-0", 0),
        ((2, 3), "u-leaf-03-0", 3),
        ((4, 5), "u-leaf-02-0", 2),
        ((6, 7), "u-leaf-01-0", 1),
    ]
    assert (odd["field"], odd["detail"]) == ("rails", "'x' is not a rail")
    assert [each["rail"] for each in node["node"]["uplinks"]] == [0, 3, 2, 1]
    assert node["groups"] == part["groups"]
    assert unknown["fix"] == "did you mean gpu-4?"


async def test_an_unknown_node_is_404_with_the_nearest_name(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        await known(master, two_islands("node-sample1"))
        told = problem_of(await master.get("/v1/nodes/node-sampel1/gpus?n=4"), 404)
    assert told["field"] == "node"
    assert told["fix"] == "did you mean node-sample1?"


async def test_a_node_without_a_matrix_is_409_with_the_probe_that_failed(token_flag: str) -> None:
    ill = ProbeHealth("mx-smi topo", ProbeState.TIMED_OUT, "after 5 s")
    async with running("--mode=dragonfly", token_flag) as master:
        path = await known(master, replace(facts("n1"), probes=(ill,)))
        told = problem_of(await master.get(path), 409)
    assert told["detail"] == "the worker of n1 reports no link matrix (mx-smi topo timed-out)"
    assert "topo node n1" in told["fix"]


async def test_a_node_that_only_the_config_names_is_409(tmp_path: Path) -> None:
    config = tmp_path / "nodegroup.yaml"
    config.write_text("group:\n  - name: d1\n    kind: dragonfly\n    child: [n1, n2]\n")
    async with running(f"--config-file={config}") as master:
        await master.ready()
        told = problem_of(await master.get("/v1/nodes/n1/gpus"), 409)
    assert told["detail"] == "no worker of n1 has spoken to this master yet"


@pytest.mark.parametrize(
    ("query", "field", "fix"),
    [
        ("n=0", "n", "from 1"),
        ("n=-1", "n", "from 1"),
        ("n=four", "n", "from 1"),
        ("n=9", "n", "from 1 to 8"),
        ("n=1000000", "n", "from 1 to 8"),
        ("n=4&n=4", "n", "once"),
        ("free=0,8", "free", "0, 1, 2, 3, 4, 5, 6, 7"),
        ("free=0,1,", "free", "separated by commas"),
        ("free=0-3", "free", "separated by commas"),
        ("free=", "free", "1 to"),
        ("gpus=4", "gpus", "known are: n, free"),
    ],
)
async def test_a_malformed_question_is_400_naming_the_field(
    token_flag: str, query: str, field: str, fix: str
) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        path = await known(master, two_islands("n1"))
        told = problem_of(await master.get(f"{path}?{query}"), 400)
    assert told["field"] == field
    assert fix in told["fix"]


async def test_counting_is_done_beside_the_loop(
    token_flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def noted(*given: Any, **rails: Any) -> Any:
        threads.append(threading.current_thread().name)
        return gpu_sets.best_sets(*given, **rails)

    monkeypatch.setattr("topo.placement.gpus.node_gpus.best_sets", noted)
    async with running("--mode=dragonfly", token_flag) as master:
        path = await known(master, two_islands("n1"))
        gpus_of(await master.get(path))
    assert len(threads) == 1
    assert threads[0] != "MainThread"


async def test_a_matrix_cut_short_is_answered_as_links_nobody_knows(token_flag: str) -> None:
    said = two_islands("n1")
    assert said.matrix is not None
    cut = replace(said.matrix, links=said.matrix.links[:2], gpus=said.matrix.gpus[:5])
    async with running("--mode=dragonfly", token_flag) as master:
        path = await known(master, replace(said, matrix=cut))
        told = gpus_of(await master.get(path + "?n=3"))
    assert told["links"][7] == ("?",) * 7 + ("X",)
    assert told["choice"] is not None
    assert told["choice"]["gpus"] == (0, 1, 2)
