"""A follower shows what the leader knows, passes reports on, takes over without a wrong word."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from master.replicas.follower import AGE, PATH
from tests.master.placing import WRITER, Caller, config
from tests.master.world import TOKEN, Master, facts
from tests.replicas.installation import Installation, becomes, follows, leads
from tests.support.raw_http import answered, packed_head
from tests.support.waiting import eventually

pytestmark = [pytest.mark.virtual_time, pytest.mark.slow]


@pytest.fixture
def flags(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "writers").write_text(WRITER)
    (tmp_path / "workers").write_text(TOKEN)
    return (
        "--mode=dragonfly",
        f"--worker-token-file={tmp_path / 'workers'}",
        "--gpus-per-node=1",
        f"--api-token-file={tmp_path / 'writers'}",
    )


def timeless(document: Any) -> Any:
    """A document without ages and since when nodes are as they are: each master tells its own."""
    if isinstance(document, list):
        return [timeless(each) for each in document]
    if not isinstance(document, dict):
        return document
    return {name: timeless(each) for name, each in document.items() if not name.endswith("_s")}


def statuses(topology: Any) -> dict[str, str]:
    """The status of each node that a document of the topology shows."""
    found: dict[str, str] = {}
    left = [*topology["groups"], *topology["unplaced"]]
    while left:
        each = left.pop()
        left += each.get("children", [])
        if "children" not in each:
            found[each["name"]] = each["status"]
    return found


async def test_both_answer_alike_and_the_follower_says_how_old_it_is(
    installed: Installation, flags: tuple[str, ...]
) -> None:
    installed.nodes = ("n1", "n2", "n3", "n4")
    async with installed.master("a", *flags) as leader, installed.master("b", *flags) as follower:
        await leads(leader)
        await leader.pair("n1", "n2")
        await leader.pair("n3", "n4")
        await leader.ready()
        await follows(follower, leader)
        assert not follower.service.replica.role.acts
        ours, theirs = [(await each.get("/v1/topology")).json for each in (follower, leader)]
        for part in ("generation", "groups", "unplaced", "wires", "conflicts", "restored_age_s"):
            assert timeless(ours[part]) == timeless(theirs[part]), part
        assert float((await follower.get("/node_group")).headers[AGE]) <= 2
        assert AGE not in (await leader.get("/node_group")).headers
        assert (await follower.get("/ready")).status == 200


async def test_a_follower_warns_of_the_cables_that_the_leader_found_different(
    installed: Installation, flags: tuple[str, ...]
) -> None:
    plan = installed.home / "cables.csv"
    plan.write_text("a_node,a_port,z_node,z_port\nn1,1,n9,1\n")
    flags = (*flags, f"--wiring-plan={plan}")

    async def cables(master: Master) -> list[Any]:
        warnings = (await master.get("/v1/topology")).json["warnings"]
        return [each for each in warnings if each["code"] == "cables-differ-from-plan"]

    async def is_told() -> bool:
        return bool(await cables(leader)) and await cables(follower) == await cables(leader)

    async with installed.master("a", *flags) as leader, installed.master("b", *flags) as follower:
        await leads(leader)
        await leader.pair("n1", "n2")
        await leader.ready()
        await follows(follower, leader)
        await becomes(is_told)


async def test_a_follower_shows_the_leaders_sources_and_how_old_what_they_said_is(
    installed: Installation, flags: tuple[str, ...]
) -> None:
    file = installed.home / "nodegroup.yaml"
    file.write_text(config())
    flags = (*flags, "--mode=config", f"--config-file={file}")

    async def sources(master: Master) -> dict[str, dict[str, Any]]:
        found = (await master.get("/v1/topology")).json["sources"]
        return {each["source"]: each for each in found}

    async def says(state: str) -> bool:
        return str((await sources(follower))["config-file"]["state"]) == state

    async def is_alike() -> bool:
        ours, theirs = await sources(follower), await sources(leader)
        return bool(timeless(ours) == timeless(theirs))

    async with installed.master("a", *flags) as leader, installed.master("b", *flags) as follower:
        await leads(leader)
        await leader.ready()
        await follows(follower, leader)
        await becomes(is_alike)
        assert await says("ok")
        generation = await leader.generation()
        file.write_text("group: [")
        await becomes(partial(says, "failing"))
        await asyncio.sleep(30)
        ours, theirs = await sources(follower), await sources(leader)
        assert timeless(ours) == timeless(theirs)
        assert await leader.generation() == generation, "nothing but a source changed"
        for source, said in theirs.items():
            for age in ("age_s", "failing_s"):
                assert ours[source][age] == pytest.approx(said[age], abs=2), (source, age)
        assert ours["config-file"]["age_s"] > 29
        tag = (await follower.get("/v1/topology")).headers["ETag"]
        await asyncio.sleep(5)
        assert (await follower.get("/v1/topology")).headers["ETag"] == tag, "only ages moved"
        file.write_text(config())
        await becomes(partial(says, "ok"))


async def test_a_report_to_the_follower_is_one_to_the_leader(
    installed: Installation, flags: tuple[str, ...]
) -> None:
    async with installed.master("a", *flags) as leader, installed.master("b", *flags) as follower:
        await leads(leader)
        await eventually(lambda: bool(follower.service.replica.role.reports_url))
        await follower.pair("n1", "n2")
        await leader.ready()
        await follows(follower, leader)
        assert (await follower.worker("n3", token="stranger").full(facts("n3"))).status == 401
        answer = await follower.worker("n3").post(b"{")
        assert answer.status == 400
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert len(leader.service.worker_port.sessions) == 2
        assert not len(follower.service.worker_port.sessions)


async def test_a_cut_cable_shows_in_the_follower_within_two_seconds_of_the_leader(
    installed: Installation, flags: tuple[str, ...]
) -> None:
    async with installed.master("a", *flags) as leader, installed.master("b", *flags) as follower:
        await leads(leader)
        first, second = await leader.pair("n1", "n2")
        await leader.ready()
        await follows(follower, leader)
        for _ in range(3):
            await first.full(facts("n1"))
            await second.full(facts("n2"))
        loop = asyncio.get_running_loop()

        async def is_cut(master: Master) -> bool:
            (group,) = (await master.get("/node_group")).json
            return str(group["status"]) == "NotReady"

        await becomes(lambda: is_cut(leader))
        seen_s = loop.time()
        await becomes(lambda: is_cut(follower))
        assert loop.time() - seen_s <= 2


async def test_holds_are_the_leaders_alone_and_shown_by_both(
    installed: Installation, flags: tuple[str, ...]
) -> None:
    async with installed.master("a", *flags) as leader, installed.master("b", *flags) as follower:
        await leads(leader)
        await leader.pair("n1", "n2")
        await leader.ready()
        await follows(follower, leader)
        job = {"pods": 1, "gpus_per_pod": 1, "hold_s": 600}
        refused = await Caller(follower).post("/v1/holds", job)
        assert (refused.status, refused.json["leader"]) == (503, leader.url)
        given = await Caller(leader).post("/v1/holds", job)
        name = given.json["hold"]["id"]

        async def shown(master: Master) -> list[str]:
            return [hold["id"] for hold in (await master.get("/v1/holds")).json["holds"]]

        async def is_shown() -> bool:
            return await shown(follower) == [name]

        async def is_held_in_both() -> bool:
            shows = [(await each.get("/v1/topology")).json["groups"] for each in (leader, follower)]
            held = [group["capacity"]["held_gpus"] for group in shows[1]]
            return held == [1] and bool(timeless(shows[0]) == timeless(shows[1]))

        await becomes(is_shown)
        await becomes(is_held_in_both)
        await Caller(leader).delete(f"/v1/holds/{name}")

        async def is_gone() -> bool:
            return not await shown(follower)

        await becomes(is_gone)


async def test_an_unchanged_state_is_not_sent_twice(
    installed: Installation, flags: tuple[str, ...]
) -> None:
    async with installed.master("a", *flags) as leader, installed.master("b", *flags) as follower:
        await leads(leader)
        worker, _ = await leader.pair("n1", "n2")
        await leader.ready()
        await follows(follower, leader)
        for _ in range(12):
            await asyncio.sleep(5)
            await worker.beat()
        page = (await leader.get("/metrics")).body.decode()
        sent = [line for line in page.splitlines() if f'route="{PATH}"' in line]
        (whole,) = [line for line in sent if 'code="200"' in line and "_total" in line]
        assert float(whole.split()[-1]) < 6
        assert any('code="304"' in line for line in sent)
        assert float((await follower.get("/node_group")).headers[AGE]) <= 2


async def test_who_takes_over_shows_no_ready_node_as_not_ready(
    installed: Installation, flags: tuple[str, ...]
) -> None:
    """After minutes of following, in which it heard no worker, every node has its return time."""
    loop = asyncio.get_running_loop()
    first = AsyncExitStack()
    leader = await first.enter_async_context(installed.master("a", *flags))
    await leads(leader)
    async with installed.master("b", *flags) as follower:
        workers = await leader.pair("n1", "n2")
        await leader.ready()
        await follows(follower, leader)
        for _ in range(30):
            await asyncio.sleep(10)
            for worker in workers:
                await worker.beat()
        generation = (await leader.get("/v1/topology")).json["generation"]
        before = (await follower.get("/node_group")).body
        await first.aclose()
        ended_s = loop.time()
        await leads(follower)
        assert loop.time() - ended_s <= 3, "the lease was given back"
        await eventually(lambda: follower.service.replica.is_fed)
        for _ in range(20):
            await asyncio.sleep(1)
            answer = await follower.get("/node_group")
            assert (answer.status, answer.body) == (200, before)
            assert AGE not in answer.headers
        topology = (await follower.get("/v1/topology")).json
        assert topology["generation"] > generation
        assert topology["restored_age_s"] is not None
        await follower.pair("n1", "n2")
        assert await follower.generation() >= generation
        assert (await follower.get("/node_group")).body == before
        assert set(statuses((await follower.get("/v1/topology")).json).values()) == {"Ready"}


async def test_a_master_of_another_mode_is_ready_to_lead_when_the_old_one_ends(
    installed: Installation, flags: tuple[str, ...]
) -> None:
    """An update that changes the mode waits for the new one to be ready before the old one ends."""
    first = AsyncExitStack()
    leader = await first.enter_async_context(installed.master("a", *flags))
    await leads(leader)
    await leader.pair("n1", "n2")
    await leader.ready()
    async with installed.master("b", *flags, "--mode=auto") as newer:

        async def is_ready() -> bool:
            return (await newer.get("/ready")).status == 200

        await becomes(is_ready)
        refused = await newer.get("/node_group")
        assert refused.status == 503
        assert "written in mode dragonfly, this is mode auto" in refused.body.decode()
        await first.aclose()
        await leads(newer)
        await newer.pair("n1", "n2")
        await newer.ready()
        assert set(statuses((await newer.get("/v1/topology")).json).values()) == {"Ready"}


async def test_workers_that_never_come_back_are_missed_by_the_new_leader(
    installed: Installation, flags: tuple[str, ...]
) -> None:
    first = AsyncExitStack()
    leader = await first.enter_async_context(installed.master("a", *flags))
    await leads(leader)
    async with installed.master("b", *flags) as follower:
        await leader.pair("n1", "n2")
        await leader.ready()
        await follows(follower, leader)
        await first.aclose()
        await leads(follower)

        async def missed() -> bool:
            topology = (await follower.get("/v1/topology")).json
            return set(statuses(topology).values()) == {"NotReady"}

        await becomes(missed)


async def test_a_hold_lives_through_a_take_over_with_the_time_that_it_had(
    installed: Installation, flags: tuple[str, ...]
) -> None:
    first = AsyncExitStack()
    leader = await first.enter_async_context(installed.master("a", *flags, "--state-config-maps"))
    await leads(leader)
    async with installed.master("b", *flags, "--state-config-maps") as follower:
        await leader.pair("n1", "n2")
        await leader.ready()
        await follows(follower, leader)
        job = {"pods": 1, "gpus_per_pod": 1, "hold_s": 600}
        given = await Caller(leader).post("/v1/holds", job)
        assert given.status == 200, given.body
        await asyncio.sleep(100)
        await first.aclose()
        await leads(follower)
        await eventually(lambda: follower.service.replica.is_fed)
        (hold,) = (await follower.get("/v1/holds")).json["holds"]
        assert hold["id"] == given.json["hold"]["id"]
        assert 480 <= hold["expires_in_s"] <= 500


async def test_a_new_leader_takes_no_call_before_it_has_restored_what_was_kept(
    installed: Installation, flags: tuple[str, ...]
) -> None:
    """What it gave before would be replaced by what was kept; until then it answers as a
    follower.
    """
    kept, may_restore = "--state-config-maps", asyncio.Event()
    first = AsyncExitStack()
    leader = await first.enter_async_context(installed.master("a", *flags, kept))
    await leads(leader)
    async with installed.master("b", *flags, kept) as follower:
        await leader.pair("n1", "n2")
        await leader.ready()
        await follows(follower, leader)
        job = {"pods": 1, "gpus_per_pod": 1, "hold_s": 600}
        given = await Caller(leader).post("/v1/holds", job)
        replica, path = follower.service.replica, f"/v1/holds/{given.json['hold']['id']}"
        restore = replica.restore
        assert restore is not None

        async def restored_late() -> None:
            await may_restore.wait()
            await restore()

        replica.restore = restored_late
        await first.aclose()
        await leads(follower)
        caller = Caller(follower)
        refused = [await caller.post("/v1/holds", job), await caller.delete(path)]
        refused.append(await caller.post("/v1/placements", job))
        assert [each.status for each in refused] == [503] * 3
        assert all("restores what was kept" in each.json["detail"] for each in refused)
        assert AGE in (await follower.get("/v1/holds")).headers
        may_restore.set()
        await eventually(lambda: replica.is_fed)
        assert AGE not in (await follower.get("/v1/holds")).headers
        assert (await caller.post("/v1/holds", job)).status == 200
        assert (await caller.delete(path)).status == 200


async def test_a_follower_that_no_leader_told_anything_lists_no_holds(
    installed: Installation, flags: tuple[str, ...]
) -> None:
    """An empty list would say that there are none."""
    async with installed.master("a", *flags) as leader:
        await leads(leader)
    assert installed.lease.stored is not None
    installed.lease.stored["spec"] |= {"holderIdentity": "ghost", "leaseDurationSeconds": 15}
    async with installed.master("b", *flags) as follower:
        answer = await follower.get("/v1/holds")
        assert answer.status == 503
        assert "no leader has told" in answer.body.decode()


async def test_a_cold_start_answers_at_once_what_the_config_maps_keep(
    installed: Installation, flags: tuple[str, ...]
) -> None:
    async with installed.master("a", *flags, "--state-config-maps") as leader:
        await leads(leader)
        await leader.pair("n1", "n2")
        await leader.ready()
        shown = (await leader.get("/node_group")).body
    assert installed.lease.stored is not None
    held_by_a_ghost = installed.lease.stored
    held_by_a_ghost["spec"] |= {"holderIdentity": "ghost", "leaseDurationSeconds": 15}
    async with installed.master("b", *flags, "--state-config-maps") as other:

        async def answers() -> bool:
            answer = await other.get("/node_group")
            return answer.status == 200 and answer.body == shown

        await becomes(answers)
        assert not other.service.replica.role.acts
        assert asyncio.get_running_loop().time() < 60
        codes = [each["code"] for each in (await other.get("/v1/topology")).json["warnings"]]
        assert "leader-silent" not in codes or other.service.replicas is not None
        await leads(other)
        assert (await other.get("/node_group")).body == shown


async def test_without_a_leader_a_report_is_told_to_come_again(
    installed: Installation, flags: tuple[str, ...]
) -> None:
    spec = {"holderIdentity": "ghost", "leaseDurationSeconds": 3600}
    installed.lease.stored = {"metadata": {"resourceVersion": "1"}, "spec": spec}
    async with installed.master("a", *flags) as follower:
        await asyncio.sleep(20)
        answer = await follower.worker("n1").full(facts("n1"))
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        topology = (await follower.get("/v1/topology")).json
        (warning,) = [each for each in topology["warnings"] if each["code"] == "leader-silent"]
        assert "describe lease topo-master" in warning["fix"]
        assert (await follower.get("/node_group")).status == 503


async def test_a_leader_that_cannot_be_reached_is_answered_for(
    installed: Installation, flags: tuple[str, ...]
) -> None:
    async with installed.master("a", *flags) as follower:
        await leads(follower)
    spec = {"holderIdentity": "ghost", "leaseDurationSeconds": 3600}
    annotations = {
        "metax-tech.com/address": "127.0.0.1:1",
        "metax-tech.com/reports-address": "127.0.0.1:1",
    }
    metadata = {"resourceVersion": "1", "annotations": annotations}
    installed.lease.stored = {"metadata": metadata, "spec": spec}
    async with installed.master("b", *flags) as follower:
        await eventually(lambda: bool(follower.service.replica.role.reports_url))
        answer = await follower.worker("n1").full(facts("n1"))
        assert answer.status == 503
        assert "cannot be reached" in answer.json["detail"]
        assert answer.headers["Retry-After"] == "1"


async def test_a_follower_reads_and_passes_on_no_body_of_a_stranger(
    installed: Installation, flags: tuple[str, ...]
) -> None:
    """It is answered before its body is there, and the leader hears nothing of it."""
    async with installed.master("a", *flags) as leader, installed.master("b", *flags) as follower:
        await leads(leader)
        await eventually(lambda: bool(follower.service.replica.role.reports_url))
        port = int(follower.reports_url.rpartition(":")[2])
        head = packed_head("POST", "/v1/reports", 100_000, "Authorization: Bearer stranger")
        assert (await answered(port, head)).startswith(b"HTTP/1.1 401 ")
        counted = (await leader.get("/metrics")).body.decode()
        assert 'result="unauthorized"' not in counted


async def test_a_report_is_passed_on_once(installed: Installation, flags: tuple[str, ...]) -> None:
    """Two followers that take each other for the leader do not play ball with it."""
    async with installed.master("a", *flags) as leader, installed.master("b", *flags) as follower:
        await leads(leader)
        await eventually(lambda: bool(follower.service.replica.role.reports_url))
        url = follower.reports_url + "/v1/reports"
        headers = {"Topo-Forwarded": "1", "Authorization": f"Bearer {TOKEN}"}
        async with follower.session.post(url, data=b"{}", headers=headers) as answer:
            assert answer.status == 503
