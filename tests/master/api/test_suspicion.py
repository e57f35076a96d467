"""What operators decide about nodes: who may, what it does to jobs, and that it outlives us."""

from pathlib import Path

import pytest

from tests.master.documents import read
from tests.master.placing import Caller, config, nodes_of, placing
from tests.master.world import TOKEN, facts
from topo.model.ids import NodeName
from topo.model.rest.topology import NodeSuspicionDocument, TopologyDocument

pytestmark = pytest.mark.virtual_time

JOB = {"pods": 4, "gpus_per_pod": 8, "group_size": 32}
WHY = {"reason": "cable ordered"}
BAD = [{"link": "GPU 3 link 14", "kind": "recovery", "count": 505}]


async def codes(caller: Caller) -> list[str]:
    await caller.master.generation()
    found = (await caller.master.get("/v1/topology")).json["conflicts"]
    return [each["code"] for each in found]


async def test_only_a_writer_decides_and_each_refusal_says_what_to_send(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        nobody = Caller(caller.master, token=None)
        for act in ("quarantine", "confirm", "clear"):
            assert (await nobody.post(f"/v1/nodes/n0-0-0/{act}", WHY)).status == 401
        unknown = await caller.post("/v1/nodes/n0-0-9/quarantine", WHY)
        assert (unknown.status, unknown.json["field"]) == (404, "node")
        for body, field in (({}, "reason"), ({"reason": "x" * 257}, "reason"), ({"a": 1}, "a")):
            refused = await caller.post("/v1/nodes/n0-0-0/quarantine", body)
            assert (refused.status, refused.json["field"]) == (400, field)
        assert (await caller.post("/v1/nodes/n0-0-0/clear", {})).status == 200
        assert await codes(caller) == []


async def test_a_node_in_quarantine_gets_no_job_until_it_is_cleared(tmp_path: Path) -> None:
    async with placing(tmp_path, text=config(1, 2)) as caller:
        answer = await caller.post("/v1/nodes/n0-0-1/quarantine", WHY)
        read(NodeSuspicionDocument, answer)
        assert answer.json["quarantine"] == "cable ordered"
        assert await codes(caller) == ["quarantined"]
        planned = await caller.post("/v1/placements", JOB)
        assert {name[:4] for name in nodes_of(planned.json)} == {"n0-1"}
        shown = await caller.master.get("/v1/topology?node=n0-0-1")
        read(TopologyDocument, shown)
        (leaf,) = shown.json["groups"][0]["child"][0]["child"]
        assert (leaf["status"], leaf["cordoned"], leaf["quarantine"]) == (
            "Ready",
            True,
            "cable ordered",
        )
        refused = await caller.post("/v1/placements", JOB | {"pods": 8})
        assert refused.json["feasible"] is False
        assert "n0-0-1: cable ordered" in str(refused.json)
        assert (await caller.post("/v1/nodes/n0-0-1/clear", {})).json["quarantine"] is None
        assert await codes(caller) == []
        assert (await caller.post("/v1/placements", JOB | {"pods": 8})).json["feasible"] is True


async def test_counters_that_workers_report_name_a_link_and_outlive_a_restart(
    tmp_path: Path,
) -> None:
    (tmp_path / "workers").write_text(TOKEN + "\n")
    flags = (
        f"--worker-token-file={tmp_path / 'workers'}",
        f"--state-file={tmp_path / 'state.json'}",
        "--state-save-interval=1",
    )
    async with placing(tmp_path, *flags) as caller:
        worker = caller.master.worker("n0-0-0")
        assert (await worker.full(facts("n0-0-0"))).status == 200
        assert (await worker.beat()).status == 200
        assert await codes(caller) == []
        assert (await worker.send(kind="beat", counts=BAD)).status == 200
        assert await codes(caller) == ["link-suspected"]
        for act, link in (("clear", "GPU 3 link 15"), ("confirm", "slot 7"), ("quarantine", "x")):
            refused = await caller.post(f"/v1/nodes/n0-0-0/{act}", {**WHY, "link": link})
            assert (refused.status, refused.json["field"]) == (404, "link")
            assert "GPU 3 link 14" in refused.json["fix"]
        assert await codes(caller) == ["link-suspected"]
        await caller.post("/v1/nodes/n1-1-1/quarantine", WHY)
        metrics = (await caller.master.get("/metrics")).body.decode()
        assert 'topo_master_conflicts{code="link-suspected"} 1.0' in metrics
    async with placing(tmp_path, *flags) as caller:
        assert await codes(caller) == ["link-suspected", "quarantined"]
        shown = await caller.master.get("/v1/topology?node=n0-0-0")
        (link,) = shown.json["node"]["suspicion"]["links"]
        assert (link["link"], link["suspected"], link["times"]) == ("GPU 3 link 14", True, 1)
        assert [each["count"] for each in link["evidence"]] == [505]
        named = await caller.post("/v1/nodes/n0-0-0/clear", {"link": "GPU 3 link 14"})
        assert (named.status, await codes(caller)) == (200, ["quarantined"])


async def test_all_gpus_of_a_node_in_quarantine_count_as_broken_for_claims(tmp_path: Path) -> None:
    """The controller `device-taints` keeps claims off broken GPUs by rules, and asks the engine."""
    (tmp_path / "workers").write_text(TOKEN + "\n")
    async with placing(tmp_path, f"--worker-token-file={tmp_path / 'workers'}") as caller:
        await caller.master.worker("n0-0-1").full(facts("n0-0-1"))
        await caller.master.generation()

        def broken() -> list[bool]:
            judged = caller.master.service.engine.judged_gpus(NodeName("n0-0-1"))
            return [each.is_broken for each in judged or ()]

        assert broken() == [False]
        await caller.post("/v1/nodes/n0-0-1/quarantine", WHY)
        assert broken() == [True]
        await caller.post("/v1/nodes/n0-0-1/clear", {})
        assert broken() == [False]
