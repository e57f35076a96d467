"""The state file is one master's, and nothing in it is replaced unread: on real files."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from master.state.document import SavedDiscovery, State
from master.state.state_file import StateFile
from tests.master.placing import placing
from topo.discovery.memory import Memory
from topo.discovery.modes import Mode
from topo.model.errors import BadInputError
from topo.model.ids import Generation
from topo.placement.booking.holds import HoldsMemory

NOW_S = 2e9
MEMORY = Memory(1, Generation(1), (), (), (), None, None)
DISCOVERY = SavedDiscovery.of(MEMORY, 1e9)
CONTENT = DISCOVERY.with_holds(Mode.CONFIG, HoldsMemory(1, ()))
LIMIT_BYTES = 100_000


@contextmanager
def store_of(path: Path) -> Iterator[StateFile]:
    """A state file that is given back at the end."""
    store = StateFile(path, limit_bytes=LIMIT_BYTES)
    try:
        yield store
    finally:
        store.close()


def refusal_of(path: Path) -> str:
    """Why the file is not taken up."""
    with store_of(path) as store, pytest.raises(BadInputError) as refused:
        store.load(Mode.CONFIG, NOW_S)
    assert str(path) in refused.value.refusal.where
    assert refused.value.refusal.fix
    return str(refused.value)


def load(path: Path) -> State | HoldsMemory | None:
    """What a master finds there."""
    with store_of(path) as store:
        return store.load(Mode.CONFIG, NOW_S)


def _directory(path: Path) -> None:
    path.mkdir()


def _loop(path: Path) -> None:
    path.symlink_to(path.with_name("other"))
    path.with_name("other").symlink_to(path)


def _larger(path: Path) -> None:
    path.write_bytes(b"{")
    os.truncate(path, LIMIT_BYTES + 1)


@pytest.mark.parametrize(
    ("made", "part"),
    [(_directory, "a directory"), (_loop, "symbolic links"), (_larger, "larger than")],
)
def test_what_cannot_be_read_is_refused_with_the_fix_and_stays(
    tmp_path: Path, made: object, part: str
) -> None:
    path = tmp_path / "state"
    assert callable(made)
    made(path)
    before = path.lstat()
    assert part in refusal_of(path)
    assert os.path.samestat(path.lstat(), before)


def test_what_fails_while_it_is_read_is_refused_and_stays(tmp_path: Path) -> None:
    """`/proc/self/mem` answers EIO at its first byte, as a broken disk does."""
    path = tmp_path / "state"
    path.symlink_to("/proc/self/mem")
    assert "error" in refusal_of(path)
    assert path.is_symlink()


def test_a_link_stays_and_what_it_points_at_is_written(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    path, real = tmp_path / "state", tmp_path / "disk" / "real"
    path.symlink_to(real)
    with store_of(path) as store:
        assert store.load(Mode.CONFIG, NOW_S) is None
        store.save(CONTENT, DISCOVERY)
    assert path.is_symlink()
    assert real.read_bytes() == CONTENT
    assert isinstance(load(path), State)


def test_a_second_store_is_refused_with_the_first_ones_process_and_the_fix(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with store_of(path) as first:
        first.load(Mode.CONFIG, NOW_S)
        said = refusal_of(path)
        assert f"process {os.getpid()} on " in said
        assert "--state-file of its own" in said
        link = tmp_path / "link"
        link.symlink_to(path)
        assert "another master" in refusal_of(link), "by whatever name"
    assert load(path) is None, "given back, it is free"


def test_who_finds_the_lock_file_removed_saves_nothing_beside_another_master(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state"
    with store_of(path) as first, store_of(path) as second:
        first.load(Mode.CONFIG, NOW_S)
        first.save(CONTENT, DISCOVERY)
        path.with_name("state.lock").unlink()
        second.load(Mode.CONFIG, NOW_S)
        with pytest.raises(BlockingIOError, match="has it"):
            first.save(CONTENT + b" ", DISCOVERY)
        second.save(CONTENT, DISCOVERY)


def test_a_directory_that_went_while_running_is_made_and_locked_anew(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "state"
    with store_of(path) as first:
        first.save(CONTENT, DISCOVERY)
        path.unlink()
        path.with_name("state.lock").unlink()
        path.parent.rmdir()
        first.save(CONTENT, DISCOVERY)
        assert path.read_bytes() == CONTENT
        assert "has it" in refusal_of(path)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_lock_file_that_is_none_is_said_and_saves_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.with_name("state.lock").mkdir()
    with store_of(path) as store, capture_logs() as logs:
        assert store.load(Mode.CONFIG, NOW_S) is None
        with pytest.raises(IsADirectoryError):
            store.save(CONTENT, DISCOVERY)
    (said,) = logs
    assert said["event"] == "state file cannot be written; no hold is given"
    assert said["why"] == "Is a directory"
    assert said["file"] == f"{path}.lock", "it is to be mended, not the state file"


def test_a_directory_that_failed_once_makes_the_file_nobody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new file has its name by then; a master that took it for another's would save no more."""
    path, sync = tmp_path / "state", os.fsync

    def failing(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        sync(descriptor)

    with store_of(path) as store:
        store.save(CONTENT, DISCOVERY)
        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", failing)
            with pytest.raises(OSError, match="Input/output"):
                store.save(CONTENT + b" ", DISCOVERY)
        store.save(CONTENT + b"  ", DISCOVERY)
    assert path.read_bytes() == CONTENT + b"  "


@pytest.mark.parametrize("way_out", ["restart", "move away"])
def test_what_somebody_else_wrote_is_not_replaced_and_both_ways_out_work(
    tmp_path: Path, way_out: str
) -> None:
    path = tmp_path / "state"
    with store_of(path) as store:
        store.save(CONTENT, DISCOVERY)
        path.write_bytes(CONTENT + b" ")
        with pytest.raises(OSError, match="restart the master to take it up") as refused:
            store.save(CONTENT, DISCOVERY)
        assert refused.value.errno == errno.ESTALE
        assert path.read_bytes() == CONTENT + b" "
        if way_out == "move away":
            path.rename(tmp_path / "away")
            store.save(CONTENT, DISCOVERY)
            assert path.read_bytes() == CONTENT
    with store_of(path) as store:
        assert isinstance(store.load(Mode.CONFIG, NOW_S), State)
        store.save(CONTENT, DISCOVERY)


def test_a_file_that_appears_behind_a_master_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with store_of(path) as store:
        assert store.load(Mode.CONFIG, NOW_S) is None
        path.write_bytes(b"of a backup")
        with pytest.raises(OSError, match="somebody else"):
            store.save(CONTENT, DISCOVERY)
    assert path.read_bytes() == b"of a backup"


def test_two_that_are_put_aside_in_one_second_are_both_kept(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with capture_logs() as logs:
        for content in (b"one", b"two", b"three"):
            path.write_bytes(content)
            assert load(path) is None
    kept = {found.name: found.read_bytes() for found in tmp_path.glob("*.unusable")}
    assert kept == {
        "state.2000000000.unusable": b"one",
        "state.2000000000-2.unusable": b"two",
        "state.2000000000-3.unusable": b"three",
    }
    assert [entry["put_aside_before"] for entry in logs if "moved_to" in entry] == [0, 1, 2]


async def test_restarts_put_the_same_file_aside_once(tmp_path: Path) -> None:
    """A master that is killed before its first write finds the holds again, each time."""
    path = tmp_path / "state"
    async with placing(tmp_path, f"--state-file={path}") as caller:
        await caller.held()
    for _ in range(3):
        with store_of(path) as store:
            found = store.load(Mode.DRAGONFLY, NOW_S)
        assert isinstance(found, HoldsMemory)
    assert len(list(tmp_path.glob("*.unusable"))) == 1


def test_where_nothing_can_be_put_aside_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"broken")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    said = refusal_of(path)
    assert "not a state file" in said
    assert "nor put aside: No space left on device" in said
    assert path.read_bytes() == b"broken"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_file_of_more_than_its_owner_is_said_and_private_after_a_write(
    tmp_path: Path, mode: int
) -> None:
    path = tmp_path / "state"
    path.write_bytes(CONTENT)
    path.chmod(mode)
    with store_of(path) as store, capture_logs() as logs:
        assert isinstance(store.load(Mode.CONFIG, NOW_S), State)
        store.save(CONTENT, DISCOVERY)
    assert [(entry["event"], entry["fix"]) for entry in logs] == [
        ("others can read or change the state file", f"chmod 600 {path}")
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_directory_that_others_can_write_to_is_said(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    path = tmp_path / "open" / "state"
    path.write_bytes(CONTENT)
    path.chmod(0o600)
    with capture_logs() as logs:
        assert isinstance(load(path), State)
    (said,) = logs
    assert (said["event"], said["fix"]) == (
        "others can replace the state file",
        f"chmod go-w {path.parent}",
    )
    path.parent.chmod(0o755)
    with capture_logs() as logs:
        load(path)
    assert logs == [], "the fix works"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_said(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(CONTENT)
    path.chmod(0o600)
    os.chown(path, 65534, -1)
    with capture_logs() as logs:
        assert isinstance(load(path), State)
    (said,) = logs
    assert (said["event"], said["owner"]) == ("the state file is another user's", 65534)


def test_what_a_kill_left_of_a_write_is_removed_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(CONTENT)
    path.chmod(0o600)
    others = [
        ".state.previous",
        ".state.abcdefg.tmp",
        ".state2.abcdefgh.tmp",
        ".xstate.abcdefgh.tmp",
    ]
    for name in (".state.abcdefgh.tmp", ".state.a_c3ef9h.tmp", *others):
        (tmp_path / name).write_bytes(b"half")
    (tmp_path / ".state.directry.tmp").mkdir()
    (tmp_path / ".state.a_link_a.tmp").symlink_to(path)
    with store_of(path) as first:
        first.load(Mode.CONFIG, NOW_S)
        (tmp_path / ".state.ofalive1.tmp").write_bytes(b"half")
        refusal_of(path)
    left = {found.name for found in tmp_path.iterdir()}
    kept = {".state.ofalive1.tmp", ".state.directry.tmp", ".state.a_link_a.tmp"}
    assert left == {"state", "state.lock", *others, *kept}, "a second master removes nothing"
