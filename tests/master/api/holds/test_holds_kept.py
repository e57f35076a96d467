"""Holds outlive restarts, nodes that go and counts that go wrong."""

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from master.booking.maintenance import RECOUNT_S
from tests.master.placing import NODES, Caller, config, nodes_of, placing
from tests.master.world import running
from tests.support.waiting import eventually
from topo.model.cluster import ClusterNode
from topo.model.ids import NodeName
from topo.placement.booking.events import Pod, PodGone, PodPhase, PodSeen

pytestmark = pytest.mark.virtual_time

FAST = "--state-save-interval=1h"
"""So that only what is written at once is seen."""


async def test_a_hold_is_on_disk_soon_and_a_restart_keeps_it(tmp_path: Path) -> None:
    state = tmp_path / "state"
    flags = (f"--state-file={state}", "--state-save-interval=50ms")
    async with placing(tmp_path, *flags) as caller:

        async def written() -> bool:
            return state.exists()

        await eventually(written)
        given = await caller.held(key="job-7", namespace="team-a")

        async def kept() -> bool:
            return given["hold"]["id"] in state.read_text()

        async with asyncio.timeout(1.0):
            await eventually(kept)
        content = state.read_bytes()
        other = await caller.held(hold_s=3600)
        await caller.post(f"/v1/holds/{other['hold']['id']}/commit")
    state_at_end = json.loads(state.read_bytes())
    assert [h["id"] for h in state_at_end["holds"]["holds"]] == [
        given["hold"]["id"],
        other["hold"]["id"],
    ]
    assert json.loads(content)["memory"] == state_at_end["memory"]
    with capture_logs() as logs:
        async with placing(tmp_path, f"--state-file={state}", FAST) as caller:
            first, second = await caller.holds()
            assert (first["id"], first["state"]) == (given["hold"]["id"], "held")
            assert 0 < first["expires_in_s"] < 60
            assert (second["id"], second["state"]) == (other["hold"]["id"], "committed")
            assert (first["namespace"], second["namespace"]) == ("team-a", "")
            again = await caller.held(key="job-7", namespace="team-a")
            assert again["hold"]["id"] == given["hold"]["id"]
            assert nodes_of(again) == nodes_of(given)
            third = await caller.held()
            assert not set(nodes_of(third)) & set(nodes_of(given))
            assert not set(nodes_of(third)) & set(nodes_of(other))

            async def kept_third() -> bool:
                return third["hold"]["id"] in state.read_text()

            async with asyncio.timeout(1.0):
                await eventually(kept_third)
    assert {"event": "holds restored", "holds": 2, "log_level": "info"} in logs


async def test_a_hold_that_ended_while_the_master_was_away_is_dropped_and_said(
    tmp_path: Path,
) -> None:
    state = tmp_path / "state"
    async with placing(tmp_path, f"--state-file={state}") as caller:
        given = await caller.held(hold_s=60)
    kept = json.loads(state.read_text())
    (hold,) = kept["holds"]["holds"]
    hold["deadline_s"] -= 61
    state.write_text(json.dumps(kept))
    with capture_logs() as logs:
        async with placing(tmp_path, f"--state-file={state}") as caller:
            assert await caller.holds() == []
            assert nodes_of(await caller.held()) == nodes_of(given)
    said = [e for e in logs if e["event"] == "hold expired while the master was away"]
    assert [e["hold"] for e in said] == [given["hold"]["id"]]


@pytest.mark.parametrize("set_by_s", [-3600.0, 3600.0])
async def test_a_clock_that_is_set_while_the_master_is_away_changes_no_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_by_s: float
) -> None:
    """The machine has not booted since: how long it was is known without that clock."""
    flags = (f"--state-file={tmp_path / 'state'}", FAST)
    async with placing(tmp_path, *flags) as caller:
        await caller.held(hold_s=120)
        await asyncio.sleep(30)
    told = time.time
    monkeypatch.setattr(time, "time", lambda: told() + set_by_s)
    async with placing(tmp_path, *flags) as caller:
        (hold,) = await caller.holds()
        assert hold["expires_in_s"] == pytest.approx(90, abs=1)
        await asyncio.sleep(91)
        assert await caller.holds() == []


async def test_holds_are_written_again_also_while_no_source_speaks(tmp_path: Path) -> None:
    """On another boot they have no more time left than half a minute before the end of this one."""
    state = tmp_path / "state"
    config = tmp_path / "nodegroup.yaml"
    flags = (f"--state-file={state}", "--state-save-interval=1s")
    async with placing(tmp_path, *flags) as caller:
        await caller.held(hold_s=600)
    config.unlink()
    files = (f"--config-file={config}", "--gpus-per-node=8")
    async with running(*files, *flags):
        await asyncio.sleep(100)
        before = json.loads(state.read_text())
    (hold,) = before["holds"]["holds"]
    told, saved = before["saved_at_s"], before["holds"]["saved"]
    assert saved["clock_s"] == pytest.approx(100, abs=35)
    assert told <= saved["unix_s"]
    assert hold["deadline_s"] - saved["unix_s"] == pytest.approx(600 - saved["clock_s"], abs=5)


async def test_a_state_file_of_an_earlier_version_has_no_holds(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with placing(tmp_path, f"--state-file={state}") as caller:
        await caller.held()
    kept = json.loads(state.read_text())
    del kept["holds"]
    state.write_text(json.dumps(kept))
    async with placing(tmp_path, f"--state-file={state}") as caller:
        assert (await caller.master.get("/ready")).status == 200
        assert await caller.holds() == []


async def test_a_node_that_went_stays_booked_and_is_told_as_lost(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        given = await caller.held()
        name, gone = given["hold"]["id"], nodes_of(given)[0]
        text = (tmp_path / "nodegroup.yaml").read_text()
        (tmp_path / "nodegroup.yaml").write_text(text.replace(f"{gone}, ", ""))

        async def lost() -> bool:
            shown = (await caller.master.get(f"/v1/holds/{name}")).json
            return bool(shown["lost"] == [{"name": gone, "why": f"node {gone} is not there"}])

        await eventually(lost)
        (tmp_path / "nodegroup.yaml").write_text(text)

        async def found() -> bool:
            return not (await caller.master.get(f"/v1/holds/{name}")).json["lost"]

        await eventually(found)
        assert caller.master.service.placements.state.capacity.used(NodeName(gone)) == 8


async def test_a_wrong_count_is_said_counted_and_corrected(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        placements = caller.master.service.placements
        capacity = placements.state.capacity
        capacity._used[NodeName("n0-0-0")] = 3  # as a mistake of the increments would
        with capture_logs() as logs:
            await placements.maintenance.recount()
        assert capacity.used(NodeName("n0-0-0")) == 0
        capacity._columns.free_gpus[0] += 1
        with capture_logs() as more:
            await placements.maintenance.recount()
        said = [e for e in (*logs, *more) if e["event"] == "capacity was counted wrongly"]
        assert said
        assert "n0-0-0" in {e["node"] for e in said}
        text = (await caller.master.get("/metrics")).body.decode()
        assert "topo_master_capacity_recounts_total 2.0" in text
        assert f"topo_master_capacity_differences_total {len(said)}.0" in text


async def test_a_host_that_strayed_from_the_tree_is_brought_back(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        capacity = caller.master.service.placements.state._capacity
        right = {host.name: host for host in capacity.hosts()}
        capacity.upsert(replace(right[NodeName("n0-0-0")], gpus=4))
        capacity.remove(NodeName("n0-0-1"))
        capacity.upsert(replace(right[NodeName("n0-0-2")], name=NodeName("ghost")))
        with capture_logs() as logs:
            await caller.master.service.placements.maintenance.recount()
        assert {host.name: host for host in capacity.hosts()} == right
        said = [(e["node"], e["counted"], e["kept"]) for e in logs]
        assert said == [("n0-0-0", 8, 4), ("n0-0-1", 8, 0), ("ghost", 0, 8)]
        with capture_logs() as logs:
            await caller.master.service.placements.maintenance.recount()
        assert logs == []


async def test_a_booking_that_strayed_from_its_hold_is_brought_back(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        capacity = caller.master.service.placements.state._capacity
        kept = (await caller.held())["hold"]["id"]
        gone = (await caller.held())["hold"]["id"]
        await caller.delete(f"/v1/holds/{gone}")
        right = dict(capacity.bookings())
        capacity.book(gone, {NodeName("n1-1-1"): 8})
        capacity.release(kept)
        with capture_logs() as logs:
            await caller.master.service.placements.maintenance.recount()
        assert capacity.bookings() == right
        assert len(logs) == 5


async def test_it_is_recounted_at_the_interval(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:

        async def recounted() -> bool:
            text = (await caller.master.get("/metrics")).body
            return b"topo_master_capacity_recounts_total 1.0" in text

        assert not await recounted()
        await asyncio.sleep(RECOUNT_S)
        await eventually(recounted)
        text = (await caller.master.get("/metrics")).body
        assert b"topo_master_capacity_differences_total 0.0" in text


async def test_nodes_that_come_later_than_the_hold_after_a_restart_are_still_held(
    tmp_path: Path,
) -> None:
    flags = (f"--state-file={tmp_path / 'state'}", FAST)
    async with placing(tmp_path, *flags) as caller:
        taken = nodes_of(await caller.held(pods=2))
    without = config().replace("".join(f"{node}, " for node in taken), "")
    assert without != config()
    one_by_one = {"pods": 4 * NODES, "gpus_per_pod": 8, "group_size": 8}
    async with placing(tmp_path, *flags, text=without) as caller:

        async def are_gone() -> bool:
            return taken == [lost["name"] for lost in await _lost(caller)]

        await eventually(are_gone)
        (tmp_path / "nodegroup.yaml").write_text(config())

        async def are_back() -> bool:
            return not await _lost(caller)

        await eventually(are_back)
        refused = await caller.post("/v1/placements", one_by_one)
        assert refused.json["shortfall"]["missing"] == 16
        rest = await caller.post("/v1/placements", {**one_by_one, "pods": 4 * NODES - 2})
        assert not set(nodes_of(rest.json)) & set(taken)
        await caller.master.service.placements.maintenance.recount()
        assert "differences_total 0.0" in (await caller.master.get("/metrics")).body.decode()


async def _lost(caller: Caller) -> Any:
    (hold,) = await caller.holds()
    return (await caller.master.get(f"/v1/holds/{hold['id']}")).json["lost"]


async def test_a_hold_whose_pods_are_bound_is_gone_and_its_gpus_are_still_taken(
    tmp_path: Path,
) -> None:
    async with placing(tmp_path) as caller:
        state = caller.master.service.placements.state
        document = await caller.held(2)
        name = document["hold"]["id"]
        pods = [
            Pod(uid=node, namespace="jobs", name=node, node=NodeName(node), gpus=8, hold=name)
            for node in nodes_of(document)
        ]
        state.advance(*(PodSeen(pod, PodPhase.BOUND) for pod in pods))
        found = await caller.master.get(f"/v1/holds/{name}")
        assert (found.status, found.json["detail"]) == (
            410,
            f"hold {name} ended: its pods are bound",
        )
        assert all(state.capacity.used(pod.node) == 8 for pod in pods)
        await caller.master.service.placements.maintenance.recount()
        state.advance(*(PodGone(pod.uid) for pod in pods))
        assert not state.capacity.bookings()


async def test_what_the_cluster_says_of_a_node_outlives_changes_of_the_tree_and_recounts(
    tmp_path: Path,
) -> None:
    async with placing(tmp_path) as caller:
        placements = caller.master.service.placements
        cordoned = ClusterNode(name=NodeName("n0-0-0"), unschedulable=True)
        placements.state.follow_cluster([cordoned])
        before = await caller.master.generation()
        text = config().replace("name: d0-0", "name: d0-9")
        (tmp_path / "nodegroup.yaml").write_text(text)

        async def renamed() -> bool:
            return await caller.master.generation() > before

        await eventually(renamed)
        await placements.maintenance.recount()
        host = placements.state.capacity.host(NodeName("n0-0-0"))
        assert host is not None
        assert (host.cordoned, host.path[-1]) == (True, "d0-9")
        answer = await caller.post("/v1/placements", {"pods": 16, "gpus_per_pod": 8})
        assert answer.json["shortfall"]["missing"] == 8  # GPUs of the cordoned node
