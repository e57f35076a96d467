"""`/v1/holds`: one winner for the last group, the same answer for the same key, over restarts."""

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.master.documents import read, read_json
from tests.master.placing import NODES, Caller, config, placing
from tests.master.world import running
from tests.support.waiting import eventually
from topo.model.cluster import ClusterNode
from topo.model.ids import NodeName
from topo.model.rest.placements import EndedDocument, HoldDocument, HoldsDocument, PlacementDocument
from topo.placement.booking.events import Pod, PodGone, PodPhase, PodSeen

pytestmark = pytest.mark.virtual_time

GANG = {"pods": NODES, "gpus_per_pod": 8, "group_size": 8 * NODES, "hold_s": 60}
FAST = "--state-save-interval=1h"
"""So that only what is written at once is seen."""


def nodes(answer: Any) -> list[str]:
    return [node["name"] for group in answer["groups"] for node in group["nodes"]]


async def test_a_hold_goes_through_its_life(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        given = await caller.held()
        read_json(PlacementDocument, json.dumps(given).encode())
        name = given["hold"]["id"]
        shown = await caller.master.get(f"/v1/holds/{name}")
        read(HoldDocument, shown)
        assert nodes(shown.json) == nodes(given)
        assert shown.json["state"] == "held"
        kept = await caller.post(f"/v1/holds/{name}/commit")
        read(HoldDocument, kept)
        assert (kept.json["state"], kept.json["expires_in_s"]) == ("committed", None)
        assert (await caller.post(f"/v1/holds/{name}/commit")).json["state"] == "committed"
        listed = await caller.master.get("/v1/holds")
        read(HoldsDocument, listed)
        assert [hold["id"] for hold in listed.json["holds"]] == [name]
        ended = await caller.delete(f"/v1/holds/{name}")
        read(EndedDocument, ended)
        assert (ended.status, ended.json) == (200, {"id": name, "state": "released"})
        for again in (
            await caller.delete(f"/v1/holds/{name}"),
            await caller.post(f"/v1/holds/{name}/commit"),
            await caller.master.get(f"/v1/holds/{name}"),
        ):
            assert again.status == 410
            assert "was released" in again.json["detail"]
        assert await caller.holds() == []


async def test_a_hold_expires_and_its_nodes_are_free_again(tmp_path: Path) -> None:
    async with placing(tmp_path, text=config(1, 1)) as caller:
        first = await caller.held(hold_s=0.05)
        assert (await caller.post("/v1/holds", GANG)).json["feasible"] is False
        name = first["hold"]["id"]

        async def gone() -> bool:
            return await caller.holds() == []

        await eventually(gone)
        late = await caller.post(f"/v1/holds/{name}/commit")
        assert (late.status, late.json["field"]) == (410, "id")
        assert "expired" in late.json["detail"]
        assert nodes(await caller.held()) == nodes(first)


async def test_for_the_last_group_there_is_exactly_one_winner(tmp_path: Path) -> None:
    async with placing(tmp_path, text=config(2, 2)) as caller:
        calls = [caller.post("/v1/holds", GANG) for _ in range(12)]
        answers = [answer.json for answer in await asyncio.gather(*calls)]
        winners = [answer for answer in answers if answer["feasible"]]
        assert len(winners) == 4, "as many as there are groups, each once"
        taken = [node for winner in winners for node in nodes(winner)]
        assert len(set(taken)) == len(taken) == 4 * NODES
        for loser in answers:
            if not loser["feasible"]:
                assert loser["shortfall"]["missing"] > 0
                assert "hold" not in loser
        assert len(await caller.holds()) == 4


async def test_the_same_key_is_the_same_hold_however_it_is_sent(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        first = await caller.post("/v1/holds", GANG, Idempotency_Key='"job-7"')
        again = await caller.post("/v1/holds", {**GANG, "key": "job-7"})
        third = await caller.post("/v1/placements", GANG, Idempotency_Key="job-7")
        assert first.status == again.status == third.status == 200
        ids = {answer.json["hold"]["id"] for answer in (first, again, third)}
        assert len(ids) == 1
        assert nodes(again.json) == nodes(first.json)
        read(PlacementDocument, again)
        assert len(await caller.holds()) == 1


async def test_retries_in_flight_with_one_key_book_once(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        body = {**GANG, "key": "job-7"}
        answers = await asyncio.gather(*(caller.post("/v1/holds", body) for _ in range(8)))
        assert len({answer.json["hold"]["id"] for answer in answers}) == 1
        assert len(await caller.holds()) == 1


async def test_a_retry_gets_its_hold_though_a_node_that_it_excludes_went(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        body = {**GANG, "key": "job-7", "exclude": ["n1-1-3"]}
        first = await caller.post("/v1/holds", body)
        caller.master.service.placements.state.capacity.remove(NodeName("n1-1-3"))
        again = await caller.post("/v1/holds", body)
        assert again.json["hold"]["id"] == first.json["hold"]["id"]
        other = await caller.post("/v1/holds", {**body, "key": "job-8"})
        assert (other.status, other.json["field"]) == (400, "exclude")


async def test_a_key_of_another_request_is_refused_and_names_both(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        first = await caller.held(key="job-7")
        other = await caller.post("/v1/holds", {**GANG, "pods": 8, "key": "job-7"})
        assert (other.status, other.json["field"]) == (409, "key")
        assert first["hold"]["id"] in other.json["detail"]
        assert "pods 4, now 8" in other.json["detail"]
        both = await caller.post("/v1/holds", {**GANG, "key": "a"}, Idempotency_Key="b")
        assert (both.status, both.json["field"]) == (400, "key")


async def test_the_groups_of_an_earlier_answer_are_taken_if_they_fit(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        job = {key: value for key, value in GANG.items() if key != "hold_s"}
        told = (await caller.post("/v1/placements", job)).json
        groups, generation = told["groups"], told["generation"]
        same = await caller.held(**GANG, groups=groups, generation=generation)
        assert (same["replanned"], same["replanned_because"]) == (False, None)
        assert nodes(same) == nodes(told)
        assert same["certified"] == told["certified"]
        # The next one asks for the same nodes, as somebody would who got the same answer before.
        other = await caller.held(**GANG, groups=groups, generation=generation)
        assert other["replanned"] is True
        assert "has 0 free GPUs where 8 are needed" in other["replanned_because"]
        assert not set(nodes(other)) & set(nodes(same))
        read_json(PlacementDocument, json.dumps(other).encode())


async def test_groups_that_are_not_the_best_are_kept_all_the_same(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        groups = [{"nodes": [{"name": f"n1-1-{n}", "pods": 1} for n in range(NODES)]}]
        found = await caller.held(**GANG, groups=groups, explain=True)
        assert found["replanned"] is False
        assert nodes(found) == [f"n1-1-{n}" for n in range(NODES)]
        assert found["groups"][0]["domains"][0]["path"] == ["s1", "d1-1"]
        assert found["explanation"]


async def test_a_given_group_that_would_be_split_is_replanned(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        names = ["n0-0-0", "n0-0-1", "n0-1-0", "n0-1-1"]
        groups = [{"nodes": [{"name": name, "pods": 1} for name in names]}]
        found = await caller.held(**GANG, groups=groups)
        assert found["replanned"] is True
        assert "split" in found["replanned_because"]
        assert found["objective"]["split_groups"] == 0


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"hold_s": 0}, 400, "hold_s"),
        ({"hold_s": -1}, 400, "hold_s"),
        ({"hold_s": 1e12}, 400, "hold_s"),
        ({"hold_s": None}, 400, "hold_s"),
        ({"pods": 0}, 400, "pods"),
        ({"pods": 9}, 400, "pods"),
        ({"key": ""}, 400, "key"),
        ({"key": "k" * 256}, 400, "key"),
        ({"groups": []}, 400, "groups"),
        ({"groups": [{"nodes": [{"name": "n0-0-0", "pods": 0}]}]}, 400, "groups.0.nodes.0.pods"),
        ({"assume": {}}, 400, "assume"),
        ({"generation": -1}, 400, "generation"),
        ({"generation": 1}, 400, "generation"),
    ],
)
async def test_a_wrong_hold_is_named_by_its_field(
    tmp_path: Path, change: dict[str, Any], status: int, field: str
) -> None:
    async with placing(tmp_path, "--max-hold-pods=8") as caller:
        answer = await caller.post("/v1/holds", {**GANG, "group_size": None, **change})
        assert (answer.status, answer.json["field"]) == (status, field)
        assert answer.json["fix"]
        assert await caller.holds() == []


async def test_there_are_no_more_holds_than_allowed(tmp_path: Path) -> None:
    async with placing(tmp_path, "--max-holds=1") as caller:
        await caller.held(1)
        answer = await caller.post("/v1/holds", {**GANG, "pods": 1})
        assert answer.status == 429
        assert "release" in answer.json["fix"]


async def test_an_unknown_hold_is_404(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        for answer in (
            await caller.master.get("/v1/holds/hold-0"),
            await caller.delete("/v1/holds/hold-0"),
            await caller.post("/v1/holds/hold-0/commit"),
        ):
            assert (answer.status, answer.json["field"]) == (404, "id")
            assert "GET /v1/holds" in answer.json["fix"]


async def test_every_write_needs_a_token(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        name = (await caller.held())["hold"]["id"]
        stranger = Caller(caller.master, "not-a-token-of-ours")
        for answer in (
            await stranger.post("/v1/holds", GANG),
            await stranger.post(f"/v1/holds/{name}/commit"),
            await stranger.delete(f"/v1/holds/{name}"),
        ):
            assert answer.status == 401
            assert answer.json["field"] == "Authorization"
            assert "not-a-token" not in answer.body.decode()
        assert [hold["state"] for hold in await caller.holds()] == ["held"]


async def test_without_a_token_file_nothing_can_be_written(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        caller.master.service.callers.writers.tokens = None
        for answer in (
            await caller.post("/v1/holds", GANG),
            await caller.post("/v1/placements", GANG),
            await caller.delete("/v1/holds/hold-0"),
        ):
            assert answer.status == 403
            assert "--api-token-file" in answer.json["fix"]


async def test_tokens_are_taken_up_when_the_file_changes(tmp_path: Path) -> None:
    async with placing(tmp_path, "--config-poll-interval=50ms") as caller:
        (tmp_path / "writers").write_text("another-writer-1\n")

        async def refused() -> bool:
            return (await caller.post("/v1/holds", GANG)).status == 401

        await eventually(refused)
        caller.token = "another-writer-1"
        await caller.held()


async def test_a_hold_is_on_disk_soon_and_a_restart_keeps_it(tmp_path: Path) -> None:
    state = tmp_path / "state"
    flags = (f"--state-file={state}", "--state-save-interval=50ms")
    async with placing(tmp_path, *flags) as caller:

        async def written() -> bool:
            return state.exists()

        await eventually(written)
        given = await caller.held(key="job-7")

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
            again = await caller.held(key="job-7")
            assert again["hold"]["id"] == given["hold"]["id"]
            assert nodes(again) == nodes(given)
            third = await caller.held()
            assert not set(nodes(third)) & set(nodes(given))
            assert not set(nodes(third)) & set(nodes(other))

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
            assert nodes(await caller.held()) == nodes(given)
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
    async with placing(tmp_path, "--config-poll-interval=50ms") as caller:
        given = await caller.held()
        name, gone = given["hold"]["id"], nodes(given)[0]
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
        capacity = caller.master.service.placements.state.capacity
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
        capacity = caller.master.service.placements.state.capacity
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
    async with placing(tmp_path, "--recount-interval=1s") as caller:

        async def recounted() -> bool:
            text = (await caller.master.get("/metrics")).body
            return b"topo_master_capacity_recounts_total 1.0" in text

        await eventually(recounted)
        text = (await caller.master.get("/metrics")).body
        assert b"topo_master_capacity_differences_total 0.0" in text


async def test_holds_are_counted(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        name = (await caller.held(2, key="a"))["hold"]["id"]
        await caller.held(2, key="a")
        await caller.post("/v1/holds", {**GANG, "key": "a"})
        await caller.post(f"/v1/holds/{name}/commit")
        await caller.held(1)
        text = (await caller.master.get("/metrics")).body.decode()
        for line in (
            'topo_master_holds{state="committed"} 1.0',
            'topo_master_holds{state="held"} 1.0',
            "topo_master_booked_gpus 24.0",
            'topo_master_hold_events_total{event="reserved"} 2.0',
            'topo_master_hold_events_total{event="repeated"} 1.0',
            'topo_master_hold_events_total{event="committed"} 1.0',
            'topo_master_holds_declined_total{obstacle="key"} 1.0',
        ):
            assert line in text, line


async def test_nodes_that_come_later_than_the_hold_after_a_restart_are_still_held(
    tmp_path: Path,
) -> None:
    flags = (f"--state-file={tmp_path / 'state'}", "--config-poll-interval=50ms", FAST)
    async with placing(tmp_path, *flags) as caller:
        taken = nodes(await caller.held(pods=2))
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
        assert not set(nodes(rest.json)) & set(taken)
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
            for node in nodes(document)
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
    async with placing(tmp_path, "--config-poll-interval=50ms") as caller:
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
