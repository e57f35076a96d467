"""The directory of a demo: private, one a time, gone with it."""

import fcntl
import os
import shutil

import pytest

from tests.cli.conftest import NODES, Topo
from topo.cli.demo_directory import Demo, DemoDirectory, directory, running_demo
from topo.cli.exit_codes import CliError, Exit

# --- the directory


def test_the_directory_is_private_and_gone_afterwards() -> None:
    with DemoDirectory() as home:
        assert home.path.stat().st_mode & 0o777 == 0o700
        (home.path / "secrets").mkdir()
    assert not home.path.exists()


def test_a_demo_is_found_while_it_runs_and_not_after(demo: Demo, home: DemoDirectory) -> None:
    assert running_demo() == demo
    home.__exit__()
    assert running_demo() is None


def test_what_a_killed_demo_left_is_no_demo_and_is_removed_by_the_next() -> None:
    with DemoDirectory() as killed:
        killed.publish(Demo("http://127.0.0.1:9", "/x", NODES, "demo"))
        left = directory().with_name("left")
        shutil.copytree(killed.path, left)
    left.rename(directory())
    directory().chmod(0o700)
    (directory() / "logs").mkdir()
    assert running_demo() is None
    with DemoDirectory() as home:
        assert sorted(path.name for path in home.path.iterdir()) == ["lock"]


def test_a_second_demo_is_refused(home: DemoDirectory) -> None:
    with pytest.raises(CliError) as refused, DemoDirectory():
        pass
    assert refused.value.refusal.what == "a demo is already running"
    assert home.path.exists()


def test_a_directory_that_others_may_read_is_refused() -> None:
    directory().mkdir(parents=True, mode=0o755)
    with pytest.raises(CliError, match="not a private directory"), DemoDirectory():
        pass
    assert running_demo() is None


def test_somebody_elses_files_in_the_directory_stay() -> None:
    """And do not keep the next demo from using what is marked as a demo's."""
    with DemoDirectory() as home:
        (home.path / "notes.txt").write_text("mine")
    with DemoDirectory():
        pass
    assert (home.path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "files",
    [
        ("secrets/key", "logs/today", "state/state.json"),
        ("demo.json",),
        ("lock",),
        ("lock", "logs/today"),
        ("lock/inside",),
    ],
)
def test_a_directory_of_somebody_elses_is_refused_and_stays_as_it_is(
    files: tuple[str, ...], topo: Topo
) -> None:
    """Private and the user's own is not enough: names as common as `logs` are not ours alone."""
    directory().mkdir(mode=0o700)
    for name in files:
        (directory() / name).parent.mkdir(exist_ok=True)
        (directory() / name).write_text("mine")
    shown = topo("demo", "--once")
    assert shown.exit_code == Exit.USAGE
    assert "not a demo's" in shown.stderr
    assert "set TOPO_DEMO_DIR" in shown.stderr
    assert {
        str(path.relative_to(directory())): path.read_text()
        for path in directory().rglob("*")
        if path.is_file()
    } == dict.fromkeys(files, "mine")


def test_an_empty_directory_is_taken_over() -> None:
    directory().mkdir(mode=0o700)
    with DemoDirectory() as home:
        assert [path.name for path in home.path.iterdir()] == ["lock"]


def test_a_demo_killed_before_it_wrote_anything_is_no_obstacle() -> None:
    directory().mkdir(mode=0o700)
    (directory() / "lock").touch()
    with DemoDirectory() as home:
        assert home.path.exists()
    assert not directory().exists()


@pytest.mark.parametrize("told", ["", "[]", "{}", '{"master": 1}', "\x00"])
def test_a_runtime_file_that_says_nothing_is_no_demo(home: DemoDirectory, told: str) -> None:
    (home.path / "demo.json").write_text(told)
    assert running_demo() is None


def test_without_a_setting_the_directory_names_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOPO_DEMO_DIR")
    assert directory().name == f"topo-demo-{os.getuid()}"


def test_the_lock_is_no_longer_held_after_the_demo() -> None:
    with DemoDirectory() as home:
        pass
    home.path.mkdir(mode=0o700)
    with (home.path / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
