"""The state is saved: never half written, never overtaken, and a disk that fails is said."""

import asyncio
import errno
import json
import os
import shutil
import threading
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from master.sources.row import SourceContext, SourceRow
from master.sources.table import SOURCE_ROWS
from master.state.document import SavedDiscovery
from master.state.state_file import StateFile
from tests.master.placing import config, placing
from tests.master.state.conftest import FAST
from tests.master.world import facts, running
from tests.support.waiting import CEILING_S, eventually
from topo.discovery.modes import Mode
from topo.discovery.sources import Source, first_answer_rule
from topo.kit.tasks import Work
from topo.model.ids import Generation, GroupName, Kind, NodeName, SourceName
from topo.model.observation import ConfigLoaded, DeclaredForest, DeclaredGroup, DeclaredNode
from topo.placement.booking.holds import HoldRequest
from topo.placement.job.request import Request

pytestmark = pytest.mark.virtual_time


async def test_it_is_written_while_running_and_only_for_its_owner(
    state: Path, token_flag: str
) -> None:
    flags = ("--mode=dragonfly", f"--state-file={state}", token_flag, FAST)
    async with running(*flags) as master:
        await asyncio.sleep(60)
        assert not state.exists(), "nothing was seen: nothing is kept"
        await master.pair("n1", "n2")

        async def written() -> bool:
            return state.exists()

        await eventually(written)
        assert state.stat().st_mode & 0o077 == 0
        names = {path.name for path in state.parent.iterdir()}
        kept = {state.name, f"{state.name}.lock", f"{state.name}.history"}
        assert {state.name} <= names <= kept, "no temporary file is left"

        async def counted() -> bool:
            return b'state_saves_total{result="ok"}' in (await master.get("/metrics")).body

        await eventually(counted)


async def test_an_unchanged_state_is_written_again_so_that_its_age_is_true(
    state: Path, token_flag: str
) -> None:
    flags = ("--mode=dragonfly", f"--state-file={state}", token_flag, FAST)
    async with running(*flags) as master:
        await master.worker("n1").full(facts("n1"))
        stamps = set()

        async def thrice() -> bool:
            if state.exists():
                stamps.add(json.loads(state.read_text())["saved_at_s"])
            return len(stamps) >= 3

        await eventually(thrice)


async def test_a_disk_that_cannot_be_written_is_said_once_and_stops_nothing(
    tmp_path: Path, token_flag: str
) -> None:
    blocker = tmp_path / "state"
    blocker.write_text("")
    flags = ("--mode=dragonfly", token_flag, FAST)
    with capture_logs() as logs:
        async with running(*flags, f"--state-file={blocker / 'file'}") as master:
            await master.worker("n1").full(facts("n1"))

            async def failed_twice() -> bool:
                text = (await master.get("/metrics")).body.decode()
                return 'state_saves_total{result="failed"} 2' in text

            await eventually(failed_twice)
            assert (await master.get("/health")).status == 200
            blocker.unlink()

            async def written() -> bool:
                return (blocker / "file").exists()

            await eventually(written)
    said = [e["event"] for e in logs if e["event"].startswith("state ")]
    assert said == [
        "state file cannot be written; no hold is given",
        "state not written",
        "state written again",
    ]


async def test_a_hold_is_given_only_once_the_disk_has_it(
    tmp_path: Path,
) -> None:
    blocker = tmp_path / "state"
    blocker.write_text("")
    state = blocker / "file"
    async with placing(tmp_path, f"--state-file={state}", FAST) as caller:
        job = {"pods": 2, "gpus_per_pod": 8, "hold_s": 60}
        refused = await caller.post("/v1/holds", job)
        assert (refused.status, refused.json["field"]) == (503, "--state-file")
        assert "Retry-After" in refused.headers
        assert await caller.holds() == []
        assert not caller.master.service.placements.state.capacity.bookings()
        blocker.unlink()

        async def given() -> bool:
            answer = await caller.post("/v1/holds", job)
            return answer.status == 200 and answer.json["hold"]["id"] in state.read_text()

        await eventually(given)
        (hold,) = await caller.holds()
        await caller.post(f"/v1/holds/{hold['id']}/commit")
        assert '"deadline_s":null' in state.read_text()
        await caller.delete(f"/v1/holds/{hold['id']}")
        assert hold["id"] not in state.read_text()


async def test_what_is_done_on_a_full_disk_is_said_to_be_forgettable(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    async with placing(tmp_path, f"--state-file={folder / 'file'}", FAST) as caller:
        one, other = [(await caller.held(1))["hold"]["id"] for _ in range(2)]
        shutil.rmtree(folder)
        folder.write_text("no directory")
        kept = await caller.post(f"/v1/holds/{one}/commit")
        gone = await caller.delete(f"/v1/holds/{other}")
        assert (kept.status, gone.status) == (503, 503)
        assert "forget" in gone.json["detail"]
        assert [(hold["id"], hold["state"]) for hold in await caller.holds()] == [
            (one, "committed")
        ]


async def test_an_end_that_is_not_saved_is_told_as_final_to_nobody_who_asks_again(
    tmp_path: Path,
) -> None:
    """Who is told 410 asks no more, and a restart would bring the hold back."""
    folder = tmp_path / "state"
    async with placing(tmp_path, f"--state-file={folder / 'file'}", FAST) as caller:
        hold = (await caller.held(1))["hold"]["id"]
        shutil.rmtree(folder)
        folder.write_text("no directory")
        calls = [await caller.delete(f"/v1/holds/{hold}") for _ in range(2)]
        calls.append(await caller.post(f"/v1/holds/{hold}/commit"))
        assert [each.status for each in calls] == [503] * 3
        folder.unlink()

        async def is_final() -> bool:
            return (await caller.delete(f"/v1/holds/{hold}")).status == 410

        await eventually(is_final)
        assert hold not in (folder / "file").read_text()


async def test_a_standstill_while_it_is_saved_delays_no_later_save(
    state: Path, token_flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped process or a hung disk is no work of ours, for which we would have to rest."""
    loop, save, stood_s = asyncio.get_running_loop(), StateFile.save, [0.0]

    def stands_still(store: StateFile, content: bytes, discovery: SavedDiscovery) -> None:
        stood_s[0] = 60.0
        save(store, content, discovery)

    def generation() -> int:
        return int(json.loads(state.read_text())["memory"]["generation"])

    async with running("--mode=dragonfly", f"--state-file={state}", FAST, token_flag) as master:
        saver = master.service.saver
        assert saver is not None
        saver.clock = lambda: loop.time() + stood_s[0]
        monkeypatch.setattr(StateFile, "save", stands_still)
        await master.pair("n1", "n2")
        await eventually(state.exists)
        await master.pair("n3", "n4")
        await asyncio.sleep(5)
        assert generation() == await master.generation()


async def test_the_last_save_is_not_overtaken_by_one_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the end of a master would bring back what was released, and lose what was held last."""
    state, goes_on, begun = tmp_path / "state", threading.Event(), asyncio.Event()
    loop, save = asyncio.get_running_loop(), StateFile.save

    def slow_once(store: StateFile, content: bytes, discovery: SavedDiscovery) -> None:
        if not begun.is_set() and b"hold-" in content:
            loop.call_soon_threadsafe(begun.set)
            goes_on.wait(CEILING_S)
        save(store, content, discovery)

    monkeypatch.setattr(StateFile, "save", slow_once)
    async with placing(tmp_path, f"--state-file={state}", FAST) as caller:
        holds = caller.master.service.placements.holds
        request = Request(pods=1, gpus_per_pod=8)
        holds.hold(HoldRequest(request, 60.0, "first"))
        await begun.wait()
        holds.hold(HoldRequest(request, 60.0, "last"))
        threading.Timer(0.5, goes_on.set).start()
    await loop.shutdown_default_executor()
    kept = json.loads(state.read_text())["holds"]["holds"]
    assert [hold["wish"]["key"] for hold in kept] == ["first", "last"]


async def test_when_a_part_dies_the_last_save_is_not_overtaken_by_one_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All parts are cancelled twice then: when the one dies, and when the service ends."""
    state, goes_on, begun = tmp_path / "state", threading.Event(), asyncio.Event()
    loop, save, dying = asyncio.get_running_loop(), StateFile.save, asyncio.Event()
    (tmp_path / "nodegroup.yaml").write_text(config())

    def slow_once(store: StateFile, content: bytes, discovery: SavedDiscovery) -> None:
        if not begun.is_set() and b"hold-" in content:
            loop.call_soon_threadsafe(begun.set)
            goes_on.wait(CEILING_S)
        save(store, content, discovery)

    def source(_: SourceContext) -> Work:
        return dies

    async def dies() -> None:
        await dying.wait()
        threading.Timer(0.5, goes_on.set).start()
        raise OSError("something broke")

    breaks = Source(
        name=SourceName("breaks"),
        states="nothing",
        unsettled=first_answer_rule("nothing is waited for"),
        needed_in=frozenset(),
        optional_in=frozenset(Mode),
    )
    rows = (*SOURCE_ROWS, SourceRow(breaks, source))

    async def until_it_dies() -> None:
        files = (f"--config-file={tmp_path / 'nodegroup.yaml'}", f"--state-file={state}")
        async with running(*files, "--gpus-per-node=8", FAST, source_rows=rows) as master:
            await master.ready()
            holds, request = master.service.placements.holds, Request(pods=1, gpus_per_pod=8)
            holds.hold(HoldRequest(request, 60.0, "first"))
            await begun.wait()
            holds.hold(HoldRequest(request, 60.0, "last"))
            dying.set()
            await asyncio.Event().wait()

    monkeypatch.setattr(StateFile, "save", slow_once)
    with capture_logs(), pytest.raises((asyncio.CancelledError, OSError, ExceptionGroup)):
        await asyncio.create_task(until_it_dies())
    await loop.shutdown_default_executor()
    kept = json.loads(state.read_text())["holds"]["holds"]
    assert [hold["wish"]["key"] for hold in kept] == ["first", "last"]


async def test_what_a_store_refuses_for_a_moment_at_the_end_is_saved_a_moment_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server that is busy then is asked again; a disk that is full is not."""
    state, save, ending, tries = tmp_path / "state", StateFile.save, [False], [0]

    def busy_twice(store: StateFile, content: bytes, discovery: SavedDiscovery) -> None:
        tries[0] += 1
        if ending[0] and tries[0] <= 2:
            raise BlockingIOError(errno.EAGAIN, "too many requests")
        save(store, content, discovery)

    monkeypatch.setattr(StateFile, "save", busy_twice)
    with capture_logs() as logs:
        async with placing(tmp_path, f"--state-file={state}", FAST) as caller:
            await caller.held()
            await asyncio.sleep(5)
            tries[0], ending[0] = 0, True
            request = Request(pods=1, gpus_per_pod=8)
            caller.master.service.placements.holds.hold(HoldRequest(request, 60.0, "last"))
    assert "last" in state.read_text()
    assert tries == [3]
    assert "the last state is not saved" not in [line["event"] for line in logs]


async def test_a_state_that_no_encoding_has_is_said_and_ends_nothing(tmp_path: Path) -> None:
    """Names are checked where they come in; should one slip through, the tree is still served."""
    config = tmp_path / "nodegroup.yaml"
    config.write_text("group: [n1]")
    child = (DeclaredNode(NodeName("n1")),)
    lone = DeclaredGroup(GroupName("box\ud800"), Kind("leaf"), child)
    declared = DeclaredForest((lone,))
    flags = (f"--config-file={config}", f"--state-file={tmp_path / 'state'}", FAST)
    with capture_logs() as logs:
        async with running(*flags) as master:
            await master.ready()
            master.service.engine.submit(ConfigLoaded(declared))

            async def failed() -> bool:
                page = (await master.get("/metrics")).body
                return b'state_saves_total{result="failed"} 1.0' in page

            await eventually(failed)
            assert (await master.get("/health")).status == 200
    assert "state not written" in [e["event"] for e in logs]
    assert not list(tmp_path.glob(".state*")), "no temporary file is left"


def test_a_write_that_breaks_off_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state"
    store, about = StateFile(path), SavedDiscovery(1.0, Generation(1), b"")
    store.save(b"old", about)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        store.save(b"new", about)
    store.close()
    assert path.read_text() == "old"
    assert {found.name for found in tmp_path.iterdir()} == {"state", "state.lock"}
