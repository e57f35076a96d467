"""What was is told: by the API, after a restart, and never at the cost of what is."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from master.state.history_file import HistoryFile
from tests.history.test_edits import cut
from tests.history.test_ring import Told
from tests.master.documents import read
from tests.master.world import Master, facts, running
from tests.publish.forests import VENDOR
from tests.support.waiting import eventually
from topo.discovery.modes import DiscoverySettings
from topo.history.ring import Piece, rebuild
from topo.model.rest.changes import DiffDocument
from topo.model.rest.findings import FindingsDocument
from topo.model.rest.history import HistoryDocument
from topo.model.rest.topology import TopologyDocument, walk

pytestmark = pytest.mark.virtual_time
FLAGS = ("--mode=dragonfly", "--allow-anonymous-workers")
BEGAN_S = 1_800_000_000.0
"""2027-01-15T08:00:00Z."""


@asynccontextmanager
async def keeping(*flags: str) -> AsyncIterator[Master]:
    """A master whose time of day goes with its clock, and to which no worker is ever silent."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DiscoverySettings, "stale_s", 1e6)
        async with running(*FLAGS, *flags, began_s=BEGAN_S) as master:
            yield master


async def cut_and_heal(master: Master) -> tuple[str, str]:
    """A pair, minutes later a broken GPU of n1, minutes later all well; the two times between."""
    past = master.service.past
    first, _ = await master.pair("n1", "n2")
    await master.ready()
    await _later(master)
    between = []
    for healthy in (False, True):
        between.append(await _later(master))
        for _ in range(3):
            assert (await first.full(facts("n1", "n2", healthy=healthy))).status == 200
            await asyncio.sleep(2)
    assert len(past.ring) > 2
    return between[0], between[1]


async def _later(master: Master) -> str:
    """The time in a minute."""
    worker = asyncio.create_task(asyncio.sleep(5))
    await worker
    now = (await master.get("/v1/history")).json["now"]
    await asyncio.sleep(5)
    return str(now)


async def topology(master: Master, query: str) -> TopologyDocument:
    return read(TopologyDocument, await master.get(f"/v1/topology{query}"))


def statuses(tree: TopologyDocument) -> dict[str, str]:
    return {v["name"]: v["status"] for _, v in walk(tree["groups"]) if v["kind"] == "node"}


async def test_the_tree_of_a_moment_is_the_one_that_was_shown_then() -> None:
    """A node that was down is down in it, and says why; now it is Ready. It says of when it is."""
    async with keeping() as master:
        whole, broken = await cut_and_heal(master)
        then = await topology(master, f"?at={broken}")
        down = next(v for _, v in walk(then["groups"]) if v["name"] == "n1")
        assert (down["status"], bool(down["reasons"])) == ("NotReady", True)
        assert then["as_of"] is not None
        assert then["as_of"]["at"] <= broken
        assert statuses(await topology(master, f"?at={whole}"))["n1"] == "Ready"
        live = await topology(master, "?at=now")
        assert (statuses(live)["n1"], live["as_of"]) == ("Ready", None)
        node = await topology(master, f"?at={broken}&node=n1")
        assert set(statuses(node)) == {"n1"}
        missing = await master.get(f"/v1/topology?at={broken}&node=n3")
        assert missing.status == 404


async def test_what_was_wrong_at_a_moment_is_judged_of_the_tree_of_then() -> None:
    """Neither what is wrong today nor what its sources say today is told of it."""
    async with keeping() as master:
        whole, broken = await cut_and_heal(master)
        then = read(FindingsDocument, await master.get(f"/v1/findings?at={broken}"))
        assert ["n1" in finding["subjects"] for finding in then["findings"]] == [True]
        assert then["findings"][0]["severity"] == "wrong"
        assert then["as_of"] == (await topology(master, f"?at={broken}"))["as_of"]
        before = read(FindingsDocument, await master.get(f"/v1/findings?at={whole}"))
        assert before["findings"] == []
        now = read(FindingsDocument, await master.get("/v1/findings?at=now"))
        assert now["as_of"] is None
        assert not any("n1" in finding["subjects"] for finding in now["findings"])
        late = await master.get("/v1/findings?at=9d")
        assert (late.status, late.json["field"]) == (410, "at")


async def test_a_picture_of_a_moment_is_asked_for_once() -> None:
    """It never changes: who has it is told so."""
    async with keeping() as master:
        _, broken = await cut_and_heal(master)
        answer = await master.get(f"/v1/topology?at={broken}")
        again = await master.get(f"/v1/topology?at={broken}", If_None_Match=answer.headers["ETag"])
        assert (again.status, again.body) == (304, b"")
        part = await master.get(f"/v1/topology?at={broken}&depth=0")
        assert part.headers["ETag"] != answer.headers["ETag"]


async def test_a_diff_of_two_times_tells_who_changed_and_why() -> None:
    """Since before it broke and since it was broken; ago is counted from the master's now."""
    async with keeping() as master:
        whole, broken = await cut_and_heal(master)
        diff = read(DiffDocument, await master.get(f"/v1/topology/diff?from={whole}&to={broken}"))
        (change,) = [c for c in diff["changes"] if c["what"] == "node-status"]
        assert (change["subject"], change["before"], change["after"]) == ("n1", "Ready", "NotReady")
        assert change["why"]
        assert diff["from_at"] <= whole < diff["to_at"] <= broken
        back = read(DiffDocument, await master.get(f"/v1/topology/diff?from={whole}"))
        assert back["changes"] == []
        healed = read(DiffDocument, await master.get(f"/v1/topology/diff?from={broken}"))
        assert [c["after"] for c in healed["changes"] if c["what"] == "node-status"] == ["Ready"]


async def test_the_list_of_moments_says_how_much_changed_at_each() -> None:
    """Few are asked for: neighbours are put together, and no change is lost."""
    async with keeping() as master:
        await cut_and_heal(master)
        every = read(HistoryDocument, await master.get("/v1/history"))
        assert every["moments"][0]["changes"] == {}
        assert every["moments"][-1]["at"] <= every["now"]
        told = sum(moment["changes"].get("node-status", 0) for moment in every["moments"])
        assert told >= 2
        few = read(HistoryDocument, await master.get("/v1/history?limit=1"))
        (one,) = few["moments"]
        assert one["moments"] == len(every["moments"])
        assert one["changes"]["node-status"] == told
        since = every["moments"][-1]["at"]
        rest = read(HistoryDocument, await master.get(f"/v1/history?from={since}"))
        assert [moment["at"] for moment in rest["moments"]] == [since]


@pytest.mark.parametrize(
    ("query", "status", "field", "fix"),
    [
        ("/v1/topology?at=yesterday", 400, "at", "10m"),
        ("/v1/topology?at=2027-02-30T00:00:00Z", 400, "at", "10m"),
        (
            "/v1/topology?at=2027-01-14T00:00:00Z",
            410,
            "at",
            "the oldest that is kept is 2027-01-15",
        ),
        ("/v1/topology?at=2030-01-14T00:00:00Z", 400, "at", "it is 2027-01-15"),
        ("/v1/topology/diff?from=1d", 410, "from", "the oldest that is kept is 2027-01-15"),
        ("/v1/topology/diff?from=now&to=1s", 400, "to", "swap"),
        ("/v1/history?limit=1001", 400, "limit", "1 to 1000"),
        ("/v1/history?limit=0", 400, "limit", "1 to 1000"),
        ("/v1/history?from=9d", 410, "from", "the oldest that is kept is 2027-01-15"),
    ],
)
async def test_a_moment_that_cannot_be_told_is_refused_with_the_next_step(
    query: str, status: int, field: str, fix: str
) -> None:
    """Too old, yet to come, or none: the field and what to ask for."""
    async with keeping() as master:
        await cut_and_heal(master)
        answer = await master.get(query)
        assert (answer.status, answer.json["field"]) == (status, field)
        assert fix in answer.json["fix"]


async def test_to_keep_more_is_advised_by_the_limit_for_which_moments_had_to_go() -> None:
    """The metrics tell it too. What was before the first was never seen: no setting brings it."""
    async with keeping() as master:
        await cut_and_heal(master)
        dropped = master.service.past.ring.dropped
        advised = []
        for by_bytes, by_age in ((0, 0), (1, 0), (0, 1)):
            dropped["bytes"], dropped["age"] = by_bytes, by_age
            fix = (await master.get("/v1/topology/diff?from=1d")).json["fix"]
            advised.append(re.findall("--history-[a-z]+", fix))
            metrics = (await master.get("/metrics")).body.decode()
            for each, count in dropped.items():
                series = f'topo_master_history_dropped_moments_total{{limit="{each}"}}'
                assert _value(metrics, series) == count
        assert advised == [[], ["--history-bytes"], ["--history-age"]]


async def test_what_flaps_all_the_time_is_kept_once_a_second() -> None:
    """Generations within a second are one moment."""
    async with keeping() as master:
        await master.pair("n1", "n2")
        await master.ready()
        for number in range(100):
            await master.worker(f"m{number}").full(facts(f"m{number}"))
            await asyncio.sleep(0.2)
        await asyncio.sleep(2)
        assert master.service.engine.snapshot.generation > 80
        assert 10 < len(master.service.past.ring) < 30


async def test_a_restart_goes_on_with_the_kept_moments(tmp_path: Path) -> None:
    """The moments of the earlier process are shown, named by its run, and compared with now."""
    flag = f"--state-file={tmp_path / 'state.json'}"
    async with keeping(flag) as master:
        whole, broken = await cut_and_heal(master)
        run = master.service.engine.history.run_id
        number = len(master.service.past.ring)
    async with keeping(flag) as master:
        await master.pair("n1", "n2")
        await master.ready()
        await eventually(lambda: len(master.service.past.ring) >= number)
        assert statuses(await topology(master, f"?at={broken}"))["n1"] == "NotReady"
        diff = read(DiffDocument, await master.get(f"/v1/topology/diff?from={whole}&to={broken}"))
        assert (diff["from_run"], diff["run"]) == (run, run)
        named = await master.get(f"/v1/topology/diff?from={diff['to']}.{run}")
        assert named.json["from_run"] == run
        assert named.json["run"] != run


async def test_a_broken_history_is_put_aside_and_the_state_is_taken_up(tmp_path: Path) -> None:
    """Its good beginning is used; where it was moved is said."""
    state, kept = tmp_path / "state.json", tmp_path / "state.json.history"
    async with keeping(f"--state-file={state}") as master:
        await cut_and_heal(master)
        number = len(master.service.past.ring)
    content = bytearray(kept.read_bytes())
    content[-3] ^= 0xFF
    kept.write_bytes(content)
    with capture_logs() as logs:
        async with keeping(f"--state-file={state}") as master:
            assert (await master.get("/node_group")).status == 200
            await asyncio.sleep(3)
            assert len(master.service.past.ring) >= number - 1
    (said,) = [each for each in logs if each["event"] == "history not used"]
    assert Path(said["moved_to"]).read_bytes() == content


class _Kept:
    """A history file and what is told to it."""

    def __init__(self, folder: Path) -> None:
        self.told, self.file = Told(), HistoryFile(folder / "state.json")

    def tell(self, count: int) -> None:
        for number in range(count):
            self.told.tell((VENDOR, cut(VENDOR))[number % 2], float(number))
            self.file.append(self.told.ring.pieces[-1], lambda: self.told.ring.pieces)

    def loaded(self) -> list[Piece]:
        return list(HistoryFile(self.file.path.with_name("state.json")).load())


def test_what_a_kill_cut_short_is_left_out_and_the_rest_is_read(tmp_path: Path) -> None:
    """At every byte: the whole records before it, and no complaint."""
    kept = _Kept(tmp_path)
    kept.tell(4)
    content, pieces = kept.file.path.read_bytes(), list(kept.told.ring.pieces)
    for end in range(len(content) - 200, len(content)):
        kept.file.path.write_bytes(content[:end])
        assert kept.loaded() == pieces[: len(kept.loaded())]
        assert len(kept.loaded()) in (2, 3)
    assert not list(tmp_path.glob("*.unusable"))


@pytest.mark.parametrize("tail", [b"\0" * 4096, b"\xff" * 512, b"\0\0\0\4\0\0\0\0abcd"])
def test_a_garbled_end_costs_no_moment_before_it_at_any_later_start(
    tmp_path: Path, tail: bytes
) -> None:
    """A power cut may leave such an end: what is before it is read, and is there the next time."""
    kept = _Kept(tmp_path)
    kept.tell(4)
    content = kept.file.path.read_bytes() + tail
    kept.file.path.write_bytes(content)
    for _ in range(3):
        assert kept.loaded() == list(kept.told.ring.pieces)
    (aside,) = tmp_path.glob("*.unusable")
    assert aside.read_bytes() == content


@pytest.mark.parametrize("content", [b"", b"{}", b"topo-master-history 2\nxx", b"\0" * 9])
def test_a_file_that_is_no_history_is_put_aside(tmp_path: Path, content: bytes) -> None:
    """And the next moment begins a new one beside it."""
    kept = _Kept(tmp_path)
    kept.file.path.write_bytes(content)
    assert not kept.file.load()
    (aside,) = tmp_path.glob("*.unusable")
    assert aside.read_bytes() == content
    kept.tell(1)
    assert len(kept.loaded()) == 1


def test_after_a_cut_tail_the_next_moment_is_kept_behind_what_is_whole(tmp_path: Path) -> None:
    """Nothing is written behind half a record."""
    kept = _Kept(tmp_path)
    kept.tell(3)
    kept.file.path.write_bytes(kept.file.path.read_bytes()[:-1])
    kept.file = HistoryFile(tmp_path / "state.json")
    assert len(kept.file.load()) == 2
    kept.tell(1)
    assert kept.loaded() == list(kept.told.ring.pieces)


def test_the_file_stays_in_proportion_to_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many moments come and go; only its owner can read it."""
    monkeypatch.setattr(os, "fdatasync", lambda _: None)  # 3,000 waits tell nothing more
    kept = _Kept(tmp_path)
    kept.told = Told(limit_bytes=200_000, age_s=1e9)
    kept.tell(3000)
    assert kept.file.path.stat().st_size < 2 * 200_000 + (1 << 20) + 10_000
    assert kept.file.path.stat().st_mode & 0o777 == 0o600
    assert rebuild(kept.loaded()) == kept.told.forest


async def test_a_disk_that_takes_nothing_costs_no_moment(tmp_path: Path) -> None:
    """It is said once and counted, and the moments are there while the process lives."""
    state = tmp_path / "state.json"
    with capture_logs() as logs:
        async with keeping(f"--state-file={state}") as master:
            await asyncio.sleep(1)
            Path(f"{state}.history").mkdir()
            (Path(f"{state}.history") / "full").touch()
            await cut_and_heal(master)
            metrics = (await master.get("/metrics")).body.decode()
    failures = _value(metrics, "topo_master_history_failures_total")
    assert failures > 0
    assert _value(metrics, "topo_master_history_moments") > 2
    assert _value(metrics, "topo_master_history_bytes") > 0
    assert _value(metrics, "topo_master_history_oldest_timestamp_seconds") > BEGAN_S - 10
    assert [each["event"] for each in logs].count("history not written") == 1


def _value(metrics: str, name: str) -> float:
    (line,) = [each for each in metrics.splitlines() if each.startswith(name + " ")]
    return float(line.split()[1])
