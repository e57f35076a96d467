"""A master that can ask nobody shows its own copy, says so, acts on nothing, and gives way."""

import asyncio
from pathlib import Path

import pytest

from master.kube.client import Call
from master.kube.errors import KubeError
from master.replicas.follower import AGE, ORIGIN
from master.state.document import State, decode
from tests.master.placing import WRITER, Caller
from tests.master.world import TOKEN, Answer, Master, facts
from tests.replicas.installation import Installation, becomes, follows, leads
from tests.support.waiting import eventually
from topo.discovery.modes import Mode

pytestmark = [pytest.mark.virtual_time, pytest.mark.slow]
JOB = {"pods": 1, "gpus_per_pod": 1, "hold_s": 600}


@pytest.fixture
def flags(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "writers").write_text(WRITER)
    (tmp_path / "workers").write_text(TOKEN)
    return (
        "--mode=dragonfly",
        f"--worker-token-file={tmp_path / 'workers'}",
        "--gpus-per-node=1",
        f"--api-token-file={tmp_path / 'writers'}",
        "--state-config-maps",
    )


def copying(home: Path, name: str) -> str:
    """The flag by which a master has a copy, in a folder that is not there yet."""
    return f"--state-file={home / name / 'state.json'}"


def copied(home: Path, name: str) -> State:
    """What a copy says."""
    found = decode((home / name / "state.json").read_bytes(), Mode.DRAGONFLY)
    assert isinstance(found, State)
    return found


async def led(installed: Installation, name: str, *flags: str) -> Answer:
    """What a master showed that led a pair of nodes and ended."""
    async with installed.master(name, *flags) as leader:
        await leads(leader)
        await leader.pair("n1", "n2")
        await leader.ready()
        return await leader.get("/node_group")


async def shows(master: Master, body: bytes) -> None:
    """Returns when the master shows this."""

    async def is_shown() -> bool:
        answer = await master.get("/node_group")
        return answer.status == 200 and answer.body == body

    await becomes(is_shown)


async def test_a_master_alone_shows_its_copy_while_the_api_server_is_away(
    installed: Installation, flags: tuple[str, ...], tmp_path: Path
) -> None:
    copy = copying(tmp_path, "a")
    before = await led(installed, "a", *flags, copy)
    writes = list(installed.lease.writes)
    installed.is_away = True
    async with installed.master("a", *flags, copy) as again:
        answer = await again.get("/node_group")
        assert (answer.status, answer.body) == (200, before.body), "at once"
        assert answer.headers[ORIGIN] == "state-copy"
        await eventually(lambda: _asked(again))
        ready = await again.get("/ready")
        assert ready.status == 200
        assert ready.json["origin"] == "state-copy"
        assert ready.json["age_s"] == pytest.approx(float(ready.headers[AGE]), abs=1)
        assert "coordination.k8s.io" in ready.json["why"]
        topology = (await again.get("/v1/topology")).json
        (warning,) = [each for each in topology["warnings"] if each["code"] == "state-copy"]
        assert ready.json["why"] in warning["text"]
        page = (await again.get("/metrics")).body.decode()
        assert 'topo_master_warnings{code="state-copy"} 1.0' in page
        held = await Caller(again).post("/v1/holds", JOB)
        assert held.status == 503
        assert "follower" in held.json["detail"]
        report = await again.worker("n1").full(facts("n1"))
        assert (report.status, report.headers["Retry-After"]) == (503, "1")
        assert not again.service.replica.role.acts
    assert installed.lease.writes == writes, "nothing was written without the lease"


def _asked(master: Master) -> bool:
    replicas = master.service.replicas
    return replicas is not None and bool(replicas.lease.trouble)


async def test_what_the_cluster_keeps_is_taken_up_by_who_leads_and_not_the_copy(
    installed: Installation, flags: tuple[str, ...], tmp_path: Path
) -> None:
    copy = copying(tmp_path, "a")
    before = await led(installed, "a", *flags, copy)
    async with installed.master("b", *flags) as other:
        await leads(other)
        await other.pair("n1", "n2")
        await other.pair("n3", "n4")

        async def is_grown() -> bool:
            return len((await other.get("/node_group")).json) == 2

        await becomes(is_grown)
        after = await other.get("/node_group")
    installed.is_away = True
    async with installed.master("a", *flags, copy) as again:
        assert (await again.get("/node_group")).body == before.body
        installed.is_away = False
        await shows(again, after.body)
        await leads(again)
        await eventually(lambda: again.service.replica.is_fed)
        answer = await again.get("/node_group")
        assert (answer.body, ORIGIN in answer.headers) == (after.body, False)
        warned = [each["code"] for each in (await again.get("/v1/topology")).json["warnings"]]
        assert "state-copy" not in warned


async def test_a_follower_copies_what_the_leader_tells(
    installed: Installation, flags: tuple[str, ...], tmp_path: Path
) -> None:
    copy = copying(tmp_path, "b")
    async with installed.master("a", *flags) as leader:
        await leads(leader)
        async with installed.master("b", *flags, copy) as follower:
            await leader.pair("n1", "n2")
            await leader.ready()
            await follows(follower, leader)
            given = await Caller(leader).post("/v1/holds", JOB)
            hold = given.json["hold"]["id"]

            async def is_shown() -> bool:
                found = (await follower.get("/v1/holds")).json["holds"]
                return [each["id"] for each in found] == [hold]

            await becomes(is_shown)
        installed.is_away = True
        async with installed.master("b", *flags, copy) as again:
            shown = await again.get("/node_group")
            assert shown.body == (await leader.get("/node_group")).body
            assert shown.headers[ORIGIN] == "state-copy"
            (held,) = (await again.get("/v1/holds")).json["holds"]
            assert held["id"] == hold


async def test_a_copy_of_what_does_not_change_is_renewed_while_the_leader_says_that_it_holds(
    installed: Installation, flags: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "b" / "state.json"
    async with installed.master("a", *flags) as leader:
        await leads(leader)
        async with installed.master("b", *flags, copying(tmp_path, "b")) as follower:
            workers = await leader.pair("n1", "n2")
            await leader.ready()
            await follows(follower, leader)
            await eventually(file.exists)
            versions = set()
            for _ in range(12):
                for worker in workers:
                    await worker.beat()
                await asyncio.sleep(10)
                versions.add(file.stat().st_mtime_ns)
            assert 3 <= len(versions) <= 6, "every half minute"


async def test_a_copy_is_written_also_where_the_cluster_takes_none(
    installed: Installation, flags: tuple[str, ...], tmp_path: Path
) -> None:
    installed.maps.fails = _takes_none
    before = await led(installed, "a", *flags, copying(tmp_path, "a"))
    assert before.status == 200
    names = {node.identity.name for node in copied(tmp_path, "a").memory.nodes}
    assert names == {"n1", "n2"}


def _takes_none(call: Call) -> None:
    if call.method != "GET":
        raise KubeError("the store is full", status=500)


async def test_a_copy_that_cannot_be_used_is_told_and_the_master_serves(
    installed: Installation, flags: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "a" / "state.json").mkdir(parents=True)
    async with installed.master("a", *flags, copying(tmp_path, "a")) as leader:
        await leads(leader)
        await leader.pair("n1", "n2")
        await leader.ready()

        async def is_told() -> bool:
            warned = (await leader.get("/v1/topology")).json["warnings"]
            return "state-copy-file" in {each["code"] for each in warned}

        await becomes(is_told)
        assert (await leader.get("/node_group")).status == 200
