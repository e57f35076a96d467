"""`/v1/placements`: plans, refusals, what-if, and every wrong request named by its field."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.master.documents import read
from tests.master.placing import NODES, Caller, placing
from tests.master.world import Answer, running
from tests.support.waiting import eventually
from topo.kit.serving.problem import CONTENT_TYPE
from topo.model.cluster import ClusterNode
from topo.model.ids import NodeName
from topo.model.rest.placements import PlacementDocument

pytestmark = pytest.mark.virtual_time

JOB = {"pods": 6, "gpus_per_pod": 8, "group_size": 32}


def checked(answer: Answer) -> Any:
    """A good answer that is what /openapi.json promises."""
    read(PlacementDocument, answer)
    return answer.json


async def test_a_job_gets_whole_groups_in_rank_order_with_the_proof(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        found = checked(await caller.post("/v1/placements", JOB))
        assert found["feasible"] is True
        assert found["mode"] == "required"
        assert found["generation"] == await caller.master.generation()
        whole, tail = found["groups"]
        assert (whole["index"], whole["tail"], tail["index"], tail["tail"]) == (0, False, 1, True)
        (domain,) = whole["domains"]
        home = domain["name"]
        assert domain == {"kind": "dragonfly", "name": home, "path": ["s0", home]}
        names = [f"n{home.removeprefix('d')}-{n}" for n in range(NODES)]
        assert whole["nodes"] == [{"name": name, "pods": 1} for name in names]
        assert sum(node["pods"] for node in tail["nodes"]) == 2
        objective = found["objective"]
        names = ["split_groups", "top_groups", "tier1_groups", "whole_groups_left"]
        assert list(objective)[:4] == names
        assert (objective["split_groups"], objective["top_groups"]) == (0, 1)
        assert objective.keys() == found["bounds"].keys() == found["certified"].keys()
        assert found["certified"]["top_groups"]
        assert found["explanation"] == []
        explained = checked(await caller.post("/v1/placements", {**JOB, "explain": True}))
        assert len(explained.pop("explanation")) >= len(objective)
        assert explained == {key: value for key, value in found.items() if key != "explanation"}
        assert "hold" not in found


async def test_the_query_says_the_same_as_the_body(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        body = {
            **JOB,
            "mode": "preferred",
            "within": "switchbox",
            "selector": {"metax-tech.com/switchbox": "s1"},
            "exclude": ["n1-0-0", "n1-0-1"],
            "usage": "training",
            "explain": True,
        }
        query = "pods=6&gpus_per_pod=8&group_size=32&mode=preferred&within=switchbox"
        query += "&selector=metax-tech.com/switchbox=s1&exclude=n1-0-0,n1-0-1&explain=true"
        query += "&usage=training"
        by_query = checked(await caller.master.get(f"/v1/placements?{query}"))
        assert by_query == checked(await caller.post("/v1/placements", body))
        assert by_query["explanation"]
        unclear = await caller.master.get(f"/v1/placements?{query.replace('true', 'yes')}")
        assert (unclear.status, unclear.json["field"]) == (400, "explain")
        nodes = [n["name"] for group in by_query["groups"] for n in group["nodes"]]
        assert sorted(nodes) == ["n1-0-2", "n1-0-3", *(f"n1-1-{n}" for n in range(NODES))]


async def test_a_training_job_gets_no_node_for_inference_and_says_so_in_what_it_suggests(
    tmp_path: Path,
) -> None:
    """Kubernetes says what nodes are for; a job that does not say what it is goes by taints."""
    async with placing(tmp_path) as caller:
        state = caller.master.service.placements.state
        for box in (0, 1):
            names = [NodeName(f"n{box}-{fly}-{n}") for fly in (0, 1) for n in range(NODES)]
            pool = "inference" if box else "training"
            state.follow_cluster([ClusterNode(name=name, pool=pool) for name in names])
        job: dict[str, object] = {"pods": 2 * NODES, "gpus_per_pod": 8}
        for usage, prefix in (("training", "n0-"), ("inference", "n1-")):
            found = checked(await caller.post("/v1/placements", {**job, "usage": usage}))
            nodes = [n["name"] for group in found["groups"] for n in group["nodes"]]
            assert {name[:3] for name in nodes} == {prefix}
        more = {**job, "pods": 3 * NODES, "usage": "training"}
        refused = checked(await caller.post("/v1/placements", more))
        assert not refused["feasible"]
        suggested = [s["request"] for s in refused["would_fit"] if s["request"] is not None]
        assert suggested
        assert {request["usage"] for request in suggested} == {"training"}
        wrong = await caller.post("/v1/placements", {**job, "usage": "trainin"})
        assert (wrong.status, wrong.json["field"]) == (400, "usage")


async def test_what_does_not_fit_is_an_answer_with_its_numbers_and_a_way_out(
    tmp_path: Path,
) -> None:
    async with placing(tmp_path) as caller:
        found = checked(
            await caller.post("/v1/placements", {"pods": 17, "gpus_per_pod": 8, "group_size": 8})
        )
        assert found["feasible"] is False
        assert found["failed"] == "gpus"
        assert found["shortfall"] == {"needed": 136, "available": 128, "missing": 8}
        assert (found["never"], found["largest_pods"]) == (True, 16)
        assert found["explanation"][1].startswith("Never: with all nodes open and empty")
        fewer = [s for s in found["would_fit"] if s["request"] and s["request"]["pods"] == 16]
        assert fewer, found["would_fit"]
        retried = {k: v for k, v in fewer[0]["request"].items() if v is not None}
        assert checked(await caller.post("/v1/placements", retried))["feasible"] is True


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        ({"pods": 1_000_000}, "gpus"),
        ({"gpu_type": "no-such-model"}, "label"),
        ({"selector": {"no-such": "label"}}, "label"),
        ({"within": "no-such-kind"}, "span"),
        ({"within": "dragonfly"}, "span"),
        ({"pods": 16, "group_size": 96}, "groups"),
        ({"pods": 10, "group_size": 80}, "groups"),
    ],
)
async def test_a_request_that_no_node_can_meet_says_which_test_failed(
    tmp_path: Path, change: dict[str, Any], failed: str
) -> None:
    async with placing(tmp_path) as caller:
        found = checked(await caller.post("/v1/placements", {**JOB, **change}))
        assert (found["feasible"], found["failed"]) == (False, failed)
        assert found["shortfall"].keys() >= {"needed", "available", "missing"}


@pytest.mark.parametrize(
    ("body", "field", "part"),
    [
        ({**JOB, "pods": 0}, "pods", "1 to 1000000"),
        ({**JOB, "pods": -1}, "pods", "1 to 1000000"),
        ({**JOB, "pods": 1_000_001}, "pods", "1 to 1000000"),
        (b'{"pods": 1%s, "gpus_per_pod": 8}' % (b"0" * 30), "pods", "1 to 1000000"),
        ({**JOB, "pods": 1.5}, "pods", "whole number"),
        ({**JOB, "pods": "16"}, "pods", "whole number"),
        ({**JOB, "pods": True}, "pods", "whole number"),
        ({**JOB, "pods": None}, "pods", "whole number"),
        ({**JOB, "gpus_per_pod": 0}, "gpus_per_pod", "1 to 128"),
        ({**JOB, "gpus_per_pod": 129}, "gpus_per_pod", "1 to 128"),
        ({**JOB, "group_size": 60}, "group_size", "56 or 64"),
        ({**JOB, "group_size": 4}, "group_size", "such as 8"),
        ({**JOB, "group_size": 0}, "group_size", "multiple"),
        ({**JOB, "gpu_type": "A\u202e"}, "gpu_type", "letters, digits"),
        ({**JOB, "within": "rack\nleaf"}, "within", "letters, digits"),
        ({**JOB, "mode": "best-effort"}, "mode", "required, or preferred"),
        ({**JOB, "selector": {"zone": "x" * 10_240}}, "selector.zone", "63"),
        ({**JOB, "selector": {f"k{i}": "v" * 60 for i in range(160)}}, "selector", "64"),
        ({**JOB, "selector": "a=b"}, "selector", "labels"),
        ({**JOB, "tolerations": [{"key": "k", "efect": "NoSchedule"}]},
         "tolerations.0.efect", "did you mean effect?"),
        ({**JOB, "exclude": ["n0-0-9"]}, "exclude", "did you mean n0-0-"),
        ({**JOB, "exclude": [7]}, "exclude.0", "names of nodes"),
        ({"pods": 6}, "gpus_per_pod", "GPUs of each pod"),
        ({"pod": 6, "gpus_per_pod": 8}, "pod", "did you mean pods?"),
        ({**JOB, "colour": "red"}, "colour", "known are: pods"),
        ({**JOB, "assume": {"free": ["n0-0-9"]}}, "assume.free", "did you mean"),
        ({**JOB, "assume": {"dwon": ["n0-0-1"]}}, "assume.dwon", "did you mean down?"),
        ({**JOB, "assume": {"down": ["n0-0-1"], "drain": ["n0-0-1"]}}, "assume.drain", "one"),
        ({**JOB, "assume": {}, "hold_s": 60}, "hold_s", "assume"),
        ({**JOB, "hold_s": 0}, "hold_s", "seconds"),
        ({**JOB, "hold_s": "10m"}, "hold_s", "seconds"),
        ({**JOB, "hold_s": 86_401}, "hold_s", "86400"),
        ({**JOB, "key": "a"}, "key", "hold_s"),
        ({**JOB, "hold_s": 60, "key": "gang/a/0"}, "key", "none of gang/"),
        ([JOB], "body", "JSON object"),
        (b"{", "body", "JSON object"),
        (b"", "body", "JSON object"),
        (b"\xff", "body", "JSON object"),
    ],
)  # fmt: skip
async def test_a_wrong_request_is_named_by_its_field_with_the_fix(
    tmp_path: Path, body: Any, field: str, part: str
) -> None:
    async with placing(tmp_path) as caller:
        answer = await caller.post("/v1/placements", body)
        assert answer.status == 400, answer.json
        assert answer.headers["Content-Type"] == CONTENT_TYPE
        assert answer.json["field"] == field
        assert part in answer.json["fix"]


@pytest.mark.parametrize(
    ("query", "field", "part"),
    [
        ("gpus_per_pod=8", "pods", "add ?pods="),
        ("pods=0&gpus_per_pod=8", "pods", "number of pods"),
        ("pods=1e3&gpus_per_pod=8", "pods", "number of pods"),
        ("pods=9999999&gpus_per_pod=8", "pods", "1 to 1000000"),
        ("pods=1&gpus_per_pod=8&grup_size=8", "grup_size", "did you mean group_size?"),
        ("pods=1&gpus_per_pod=8&mode=soft", "mode", "preferred"),
        ("pods=1&gpus_per_pod=8&selector=zone", "selector", "a=b,c=d"),
        ("pods=1&gpus_per_pod=8&selector=a=b,a=c", "selector", "a=b,c=d"),
        ("pods=1&gpus_per_pod=8&selector=a=" + "x" * 2000, "selector", "1024"),
        ("pods=1&gpus_per_pod=8&exclude=n9", "exclude", "n"),
        ("pods=1&gpus_per_pod=8&assume=9", "assume", "known are"),
    ],
)
async def test_a_wrong_query_is_named_by_its_parameter(
    tmp_path: Path, query: str, field: str, part: str
) -> None:
    async with placing(tmp_path) as caller:
        answer = await caller.master.get(f"/v1/placements?{query}")
        assert (answer.status, answer.json["field"]) == (400, field)
        assert part in answer.json["fix"]


async def test_a_body_without_end_is_not_read(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        answer = await caller.post("/v1/placements", b" " * (64 * 1024 + 1))
        assert answer.status == 413
        assert answer.headers["Content-Type"] == CONTENT_TYPE


async def test_a_what_if_changes_nothing(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        before = caller.master.service.placements.state.capacity.version
        await caller.held(NODES)
        (hold,) = caller.master.service.placements.state.holds()
        job = {"pods": NODES, "gpus_per_pod": 8, "group_size": 32}
        free = checked(
            await caller.post("/v1/placements", {**job, "assume": {"free": list(hold.gpus)}})
        )
        assert [n["name"] for n in free["groups"][0]["nodes"]] == list(hold.gpus)
        nodes = [f"n{box}-{fly}-0" for box in range(2) for fly in range(2)]
        for how in ("down", "drain"):
            none = checked(await caller.post("/v1/placements", {**job, "assume": {how: nodes}}))
            assert none["feasible"] is False
        assert caller.master.service.placements.state.capacity.version == before + 1
        assert len(await caller.holds()) == 1


async def test_placements_need_no_token_but_holds_do(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        anybody = Caller(caller.master, None)
        assert (await anybody.post("/v1/placements", JOB)).status == 200
        for token in (None, "writer-token-2", "writer-token-1x"):
            caller.token = token
            answer = await caller.post("/v1/placements", {**JOB, "hold_s": 60})
            assert answer.status == 401
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert "--api-token-file" in answer.json["fix"]
        assert await caller.holds() == []


async def test_a_hold_can_be_taken_with_the_placement(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        found = checked(await caller.post("/v1/placements", {**JOB, "hold_s": 60}))
        hold = found["hold"]
        assert (hold["state"], hold["pods"]) == ("held", 6)
        assert 59 < hold["expires_in_s"] <= 60
        again = checked(await caller.post("/v1/placements", JOB))
        nodes = [n["name"] for group in found["groups"] for n in group["nodes"]]
        others = [n["name"] for group in again["groups"] for n in group["nodes"]]
        assert not set(nodes) & set(others)


async def test_the_free_capacity_follows_the_tree(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        job = {"pods": NODES, "gpus_per_pod": 8, "exclude": ["n0-0-0"]}
        assert checked(await caller.post("/v1/placements", job))["feasible"] is True
        text = (tmp_path / "nodegroup.yaml").read_text()
        (tmp_path / "nodegroup.yaml").write_text(text.replace("n0-0-0, ", ""))
        engine = caller.master.service.engine
        await eventually(lambda: engine.snapshot.generation > 1)
        answer = await caller.post("/v1/placements", job)
        assert (answer.status, answer.json["field"]) == (400, "exclude")
        assert caller.master.service.placements.state._capacity.recount() == ()


async def test_before_the_tree_is_complete_nothing_is_placed(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        caller = Caller(master, None)
        answer = await caller.post("/v1/placements", JOB)
        assert answer.status == 503
        assert answer.headers["Retry-After"] == "1"
        assert (await master.get("/v1/fragmentation")).status == 503
        assert (await master.get("/v1/holds")).json == {"holds": []}


async def test_the_operators_policy_is_kept(tmp_path: Path) -> None:
    flags = ("--canonical-group-size=32", "--reserve-groups=s0=2")
    async with placing(tmp_path, *flags) as caller:
        job = {"pods": NODES, "gpus_per_pod": 8}
        first = checked(await caller.post("/v1/placements", job))
        assert first["groups"][0]["domains"][0]["path"][0] == "s1"
        assert not first["used_reserve"]
        await caller.held(2 * NODES)
        second = checked(await caller.post("/v1/placements", job))
        assert second["groups"][0]["domains"][0]["path"][0] == "s0"
        assert second["used_reserve"]


async def test_a_reserve_that_names_no_group_is_said_once(tmp_path: Path) -> None:
    async with placing(tmp_path, "--reserve-groups=s0/d0-1=1,s9=1,s1=1") as caller:
        with capture_logs() as logs:
            await caller.master.service.placements.maintenance.recount()
            await caller.master.service.placements.maintenance.recount()
        assert [(e["event"], e["path"]) for e in logs] == [
            ("a reserve names no group of the tree", "s9")
        ]


async def test_placements_are_counted_by_result_and_failed_test(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        await caller.post("/v1/placements", JOB)
        await caller.post("/v1/placements", {**JOB, "pods": 1000})
        await caller.post("/v1/placements", {**JOB, "pods": 0})
        text = (await caller.master.get("/metrics")).body.decode()
        assert 'topo_master_placements_total{failed="",result="feasible"} 1.0' in text
        assert 'topo_master_placements_total{failed="gpus",result="infeasible"} 1.0' in text
        assert "topo_master_placements_proven_total 1.0" in text
        assert "topo_master_placement_seconds_count 2.0" in text
