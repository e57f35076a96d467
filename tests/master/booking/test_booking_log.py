"""`--booking-log`: what a master did is replayed elsewhere; its files are bounded and complete."""

import asyncio
import errno
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from master.booking.booking_log import BookingLog
from tests.master.placing import config, placing
from tests.support.waiting import eventually
from topo.cli.commands.sim import app
from topo.model.cluster import ClusterNode
from topo.model.ids import NodeName
from topo.placement.booking.bookings import Bookings
from topo.placement.booking.events import HoldReleased
from topo.placement.booking.holds import HoldId, Limits
from topo.placement.booking.log import Advanced, HostsChanged, LogHeader, Replay, replay, state_json
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.host import Host

pytestmark = pytest.mark.virtual_time


def replayed(path: Path) -> Replay:
    with path.open("rb") as lines:
        found = replay(lines)
    assert isinstance(found, Replay), found
    assert found.difference == ""
    return found


async def test_what_a_master_did_is_replayed_to_the_same_bookings(tmp_path: Path) -> None:
    log = tmp_path / "bookings.log"
    async with placing(tmp_path, f"--booking-log={log}") as caller:
        state = caller.master.service.placements.state
        first = (await caller.held(2, key="a"))["hold"]["id"]
        await caller.held(3, hold_s=0.05)
        await caller.post(f"/v1/holds/{first}/commit")
        (tmp_path / "nodegroup.yaml").write_text(config().replace("n1-1-0, ", ""))

        async def gone() -> bool:
            return state.capacity.host(NodeName("n1-1-0")) is None

        async def expired() -> bool:
            return len(await caller.holds()) == 1

        await eventually(gone)
        await eventually(expired)
        state.follow_cluster([ClusterNode(name=NodeName("n1-1-1"), unschedulable=True)])
        await caller.held(4, exclude=["n0-0-0", "n0-0-1"])
    here, hosts = state_json(state.bookings.state()), list(state.capacity.hosts())
    found = replayed(log)
    assert state_json(found.bookings.state()) == here
    assert list(found.capacity.hosts()) == hosts
    assert log.stat().st_mode & 0o077 == 0

    shown = CliRunner().invoke(app, ["replay", str(log)])
    assert shown.exit_code == 0, shown.output
    assert first in shown.output
    assert max(map(len, shown.output.splitlines())) <= 80
    as_json = CliRunner().invoke(app, ["replay", str(log), "-o", "json"])
    assert as_json.stdout.strip().encode() == here
    assert json.loads(as_json.stdout)["holds"][0]["id"] == first


def machine() -> tuple[Bookings, LogHeader]:
    capacity = Capacity()
    bookings = Bookings(capacity)
    empty = LogHeader(policy=capacity.policy, limits=Limits(), hosts=(), bookings=bookings.state())
    return bookings, empty


def step(bookings: Bookings, number: int) -> Advanced:
    events = (HoldReleased(HoldId(f"h{number}")),)
    return Advanced.of(number, events, bookings.advance(number, *events))


async def test_the_end_does_not_overtake_a_write_that_still_waits(tmp_path: Path) -> None:
    """Every thread is busy when the log begins, and free only after the master has been stopped."""
    loop, release = asyncio.get_running_loop(), threading.Event()
    with ThreadPoolExecutor(1) as threads:
        loop.set_default_executor(threads)
        busy = asyncio.ensure_future(asyncio.to_thread(release.wait))
        bookings, empty = machine()
        log = BookingLog(tmp_path / "log", lambda: empty)
        running = asyncio.create_task(log.run())
        await asyncio.sleep(0)
        log.record(step(bookings, 7))
        await asyncio.sleep(0)
        running.cancel()
        release.set()
        await asyncio.wait({running, busy})
    assert len((tmp_path / "log").read_bytes().splitlines()) == 2, "the state and what came after"
    assert replayed(tmp_path / "log").bookings.state() == bookings.state()


async def test_a_full_file_is_kept_beside_and_each_can_be_replayed_alone(tmp_path: Path) -> None:
    bookings, empty = machine()
    path = tmp_path / "log"
    log = BookingLog(path, lambda: empty, max_bytes=6000)
    for number in range(100):
        log.record(step(bookings, number))
        await log.flush()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log", "log.1", "log.lock"]
    for file in (path, tmp_path / "log.1"):
        assert file.stat().st_size < 3500
        assert replayed(file).steps > 5


async def test_a_file_of_an_earlier_process_is_kept_beside(tmp_path: Path) -> None:
    _, empty = machine()
    path = tmp_path / "log"
    path.write_text("earlier")
    await BookingLog(path, lambda: empty).flush()
    assert (tmp_path / "log.1").read_text() == "earlier"
    assert replayed(path).steps == 0


async def test_a_disk_that_fails_is_said_once_and_then_a_new_file_begun(tmp_path: Path) -> None:
    bookings, empty = machine()
    folder = tmp_path / "absent"
    log = BookingLog(folder / "log", lambda: empty)
    with capture_logs() as logs:
        for number in range(3):
            log.record(step(bookings, number))
            await log.flush()
    assert [entry["event"] for entry in logs] == ["booking log not written"]
    folder.mkdir()
    await log.flush()
    log.record(step(bookings, 3))
    await log.flush()
    assert replayed(folder / "log").steps == 1


async def test_a_full_disk_costs_no_file_that_was_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_path: Path, _content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    bookings, empty = machine()
    path = tmp_path / "log"
    path.write_text("earlier")
    log = BookingLog(path, lambda: empty, max_bytes=600)
    for number in range(3):
        await log.flush()
        log.record(step(bookings, number))
    whole = dict(written(tmp_path))
    assert whole.keys() == {"log", "log.1", "log.lock"}
    monkeypatch.setattr("master.booking.booking_log.replace_whole", full)
    log.record(step(bookings, 4))
    for _ in range(3):
        await log.flush()
    assert {name: content[: len(whole[name])] for name, content in written(tmp_path)} == whole
    monkeypatch.undo()
    await log.flush()
    assert replayed(path).steps == 0


async def test_a_log_is_one_processs_and_the_other_one_takes_over_when_it_ends(
    tmp_path: Path,
) -> None:
    bookings, empty = machine()
    path = tmp_path / "log"
    first, second = (BookingLog(path, lambda: empty) for _ in range(2))
    running = asyncio.create_task(first.run())
    await asyncio.sleep(1)
    with capture_logs() as logs:
        await second.flush()
    assert [f"process {os.getpid()} on " in entry["reason"] for entry in logs] == [True]
    first.record(step(bookings, 1))
    running.cancel()
    await asyncio.wait({running})
    assert replayed(path).steps == 1
    await second.flush()
    assert replayed(path).steps == 0
    assert replayed(tmp_path / "log.1").steps == 1


@pytest.mark.parametrize("done", ["moved", "cut"])
async def test_a_log_that_is_moved_or_cut_is_begun_anew_with_its_header(
    tmp_path: Path, done: str
) -> None:
    bookings, empty = machine()
    path = tmp_path / "log"
    log = BookingLog(path, lambda: empty)
    await log.flush()
    if done == "moved":
        path.rename(tmp_path / "rotated")
    else:
        path.write_bytes(b"")
    with capture_logs() as logs:
        for number in range(3):
            log.record(step(bookings, number))
            await log.flush()
    assert [entry["event"] for entry in logs] == ["booking log not written"]
    assert replayed(path).steps == 1


async def test_what_a_kill_left_of_a_log_is_removed(tmp_path: Path) -> None:
    _, empty = machine()
    (tmp_path / ".log.new.abcdefgh.tmp").write_bytes(b"half")
    await BookingLog(tmp_path / "log", lambda: empty).flush()
    assert {name for name, _ in written(tmp_path)} == {"log", "log.lock"}


def written(folder: Path) -> list[tuple[str, bytes]]:
    return [(file.name, file.read_bytes()) for file in sorted(folder.iterdir())]


async def test_what_is_no_regular_file_is_never_moved_away(tmp_path: Path) -> None:
    _, empty = machine()
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "other").write_text("not ours")
    log = BookingLog(folder, lambda: empty)
    with capture_logs() as logs:
        await log.flush()
        await log.flush()
    assert [entry["reason"] for entry in logs] == ["it is no regular file"]
    assert [each.name for each in tmp_path.iterdir()] == ["logs"]
    assert (folder / "other").read_text() == "not ours"


async def test_a_text_that_no_encoding_has_ends_no_master(tmp_path: Path) -> None:
    bookings, empty = machine()
    log = BookingLog(tmp_path / "log", lambda: empty)
    await log.flush()
    log.record(HostsChanged((Host(name=NodeName("n\ud800")),)))
    with capture_logs() as logs:
        await log.flush()
    assert [entry["event"] for entry in logs] == ["booking log not written"]
    await log.flush()
    log.record(step(bookings, 1))
    await log.flush()
    assert replayed(tmp_path / "log").steps == 1


@pytest.mark.parametrize("text", ["", "no log\n"])
def test_a_file_that_is_no_log_is_bad_input(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    shown = CliRunner().invoke(app, ["replay", str(path)])
    assert shown.exit_code != 0
