"""`/v1/holds`: one winner for the last group, the same answer for the same key, what is refused."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.master.documents import read, read_json
from tests.master.placing import NODES, Caller, config, nodes_of, placing
from tests.support.waiting import eventually
from topo.model.ids import NodeName
from topo.model.rest.placements import EndedDocument, HoldDocument, HoldsDocument, PlacementDocument
from topo.placement.booking.holds import Limits

pytestmark = pytest.mark.virtual_time

GANG = {"pods": NODES, "gpus_per_pod": 8, "group_size": 8 * NODES, "hold_s": 60}


async def test_a_hold_goes_through_its_life(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        given = await caller.held()
        read_json(PlacementDocument, json.dumps(given).encode())
        name = given["hold"]["id"]
        shown = await caller.master.get(f"/v1/holds/{name}")
        read(HoldDocument, shown)
        assert nodes_of(shown.json) == nodes_of(given)
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


async def test_a_hold_inside_one_group_of_a_kind_names_that_group(tmp_path: Path) -> None:
    box = {"kind": "switchbox", "name": "s0", "path": ["s0"], "fabric": ""}
    async with placing(tmp_path) as caller:
        given = await caller.held(within="switchbox", key="k")
        again = await caller.held(within="switchbox", key="k")
        shown = await caller.master.get(f"/v1/holds/{given['hold']['id']}")
        for told in (given, again):
            read_json(PlacementDocument, json.dumps(told).encode())
        assert [told["inside"] for told in (given, again, shown.json)] == [box] * 3


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
        assert nodes_of(await caller.held()) == nodes_of(first)


async def test_for_the_last_group_there_is_exactly_one_winner(tmp_path: Path) -> None:
    async with placing(tmp_path, text=config(2, 2)) as caller:
        calls = [caller.post("/v1/holds", GANG) for _ in range(12)]
        answers = [answer.json for answer in await asyncio.gather(*calls)]
        winners = [answer for answer in answers if answer["feasible"]]
        assert len(winners) == 4, "as many as there are groups, each once"
        taken = [node for winner in winners for node in nodes_of(winner)]
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
        assert nodes_of(again.json) == nodes_of(first.json)
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
        caller.master.service.placements.state._capacity.remove(NodeName("n1-1-3"))
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


async def test_a_hold_says_whose_pods_take_shares_of_it(tmp_path: Path) -> None:
    """The answer, one hold, the list; the same key for another namespace is another request."""
    async with placing(tmp_path) as caller:
        given = await caller.held(key="job-7", namespace="team-a")
        shown = await caller.master.get(f"/v1/holds/{given['hold']['id']}")
        listed = await caller.holds()
        assert [each["namespace"] for each in (given["hold"], shown.json, *listed)] == [
            *("team-a",) * 3
        ]
        assert (await caller.held())["hold"]["namespace"] == ""
        again = await caller.held(key="job-7", namespace="team-a")
        assert again["hold"]["id"] == given["hold"]["id"]
        for namespace in ({}, {"namespace": "team-b"}):
            other = await caller.post(
                "/v1/holds", {**GANG, "key": "job-7", "group_size": None} | namespace
            )
            assert (other.status, other.json["field"]) == (409, "key")
            assert "namespace 'team-a', now" in other.json["detail"]


async def test_a_namespace_without_a_hold_is_refused_as_it_has_no_effect(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        job = {"pods": 1, "gpus_per_pod": 8, "namespace": "team-a"}
        answer = await caller.post("/v1/placements", job)
        assert (answer.status, answer.json["field"]) == (400, "namespace")
        assert "hold_s" in answer.json["fix"]


async def test_the_groups_of_an_earlier_answer_are_taken_if_they_fit(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        job = {key: value for key, value in GANG.items() if key != "hold_s"}
        told = (await caller.post("/v1/placements", job)).json
        groups, generation = told["groups"], told["generation"]
        same = await caller.held(**GANG, groups=groups, generation=generation)
        assert (same["replanned"], same["replanned_because"]) == (False, None)
        assert nodes_of(same) == nodes_of(told)
        assert same["certified"] == told["certified"]
        # The next one asks for the same nodes, as somebody would who got the same answer before.
        other = await caller.held(**GANG, groups=groups, generation=generation)
        assert other["replanned"] is True
        assert "has 0 free GPUs where 8 are needed" in other["replanned_because"]
        assert not set(nodes_of(other)) & set(nodes_of(same))
        read_json(PlacementDocument, json.dumps(other).encode())


async def test_groups_that_are_not_the_best_are_kept_all_the_same(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        groups = [{"nodes": [{"name": f"n1-1-{n}", "pods": 1} for n in range(NODES)]}]
        found = await caller.held(**GANG, groups=groups, explain=True)
        assert found["replanned"] is False
        assert nodes_of(found) == [f"n1-1-{n}" for n in range(NODES)]
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
        ({"namespace": "Team A"}, 400, "namespace"),
        ({"namespace": "a" * 64}, 400, "namespace"),
        ({"namespace": ""}, 400, "namespace"),
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
    async with placing(tmp_path) as caller:
        caller.master.service.placements.state.bookings._limits = Limits(pods=8)
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
        caller.master.service.port_tokens.writers.tokens = None
        for answer in (
            await caller.post("/v1/holds", GANG),
            await caller.post("/v1/placements", GANG),
            await caller.delete("/v1/holds/hold-0"),
        ):
            assert answer.status == 403
            assert "--api-token-file" in answer.json["fix"]


async def test_tokens_are_taken_up_when_the_file_changes(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        (tmp_path / "writers").write_text("another-writer-1\n")

        async def refused() -> bool:
            return (await caller.post("/v1/holds", GANG)).status == 401

        await eventually(refused)
        caller.token = "another-writer-1"
        await caller.held()


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
