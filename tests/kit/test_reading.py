"""Reading a file is bounded: in size, in time, and to what is a file."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import CEILING_S
from topo.kit import files
from topo.kit.files import AbsentFile, NotAFile, WatchedFile, call_unless_silent, read_bounded
from topo.kit.secrets import read_secret
from topo.kit.threads import off_loop
from topo.kit.tls import client_context, server_context
from topo.model.errors import BadInputError, Refusal
from topo.sim.certificates import Authority


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


KINDS: dict[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a directory": Path.mkdir,
    "a socket": _socket,
    "a device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_is_refused_by_its_kind_at_once(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not even opened: that would hang, or do something to a device."""
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    KINDS[kind](path := Path("f"))
    for refused in (read_bounded(path, 100), WatchedFile(path, 100).poll()):
        assert isinstance(refused, NotAFile)
        assert kind in refused.what
        assert refused.where == "f"
    with pytest.raises(BadInputError, match=kind):
        read_secret(path)
    with pytest.raises(BadInputError, match=kind):
        client_context(path)
    with pytest.raises(BadInputError, match=kind):
        server_context(path, path)


def test_an_absent_file_is_told_from_one_that_cannot_be_read(tmp_path: Path) -> None:
    assert isinstance(read_bounded(tmp_path / "f", 10), AbsentFile)
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path / "loop", Path("a\0b")):
        refused = read_bounded(path, 10)
        assert isinstance(refused, Refusal)
        assert not isinstance(refused, AbsentFile)


def test_a_file_that_is_written_twice_within_a_moment_is_read_twice(tmp_path: Path) -> None:
    """Times and size are those of the first writing: a tick of the clock is some milliseconds."""
    path = tmp_path / "f"
    path.write_text("old token")
    watched = WatchedFile(path, 100)
    assert watched.poll() == b"old token"
    before = path.stat()
    path.write_text("new token")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert watched.poll() == b"new token"


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Makes a file hang that is called `hangs`, as on a mount whose server is gone, until set."""
    released, opened = threading.Event(), os.open

    def open_or_hang(path: Path, *rest: int) -> int:
        if Path(path).name == "hangs":
            released.wait()
        return opened(path, *rest)

    monkeypatch.setattr(os, "open", open_or_hang)
    monkeypatch.setattr(files, "SILENCE_S", 0.05)
    yield released
    released.set()


def test_a_file_that_does_not_answer_is_given_up_and_asked_again_when_it_does(
    tmp_path: Path, hanging: threading.Event
) -> None:
    path = tmp_path / "hangs"
    path.write_text("late")
    threads = threading.active_count()
    for _ in range(3):
        refused = read_bounded(path, 100)
        assert isinstance(refused, Refusal)
        assert "does not answer" in refused.what
        assert "mount" in refused.fix
    assert threading.active_count() == threads + 1, "one thread hangs, however often it is asked"
    (tmp_path / "other").write_text("well")
    assert read_bounded(tmp_path / "other", 100) == b"well"
    hanging.set()
    late = read_bounded(path, 100)
    while isinstance(late, Refusal):
        late = read_bounded(path, 100)
    assert late == b"late"


def test_a_file_that_is_slow_and_alive_is_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is on silence, not on the time of a whole file."""
    both = threading.Barrier(2, timeout=CEILING_S)
    waits = iter(range(9))

    def silence(futures: Iterable[Future[Any]], _limit_s: float) -> None:
        """The limit passes; there is one sign of life in it, and at last the end."""
        both.wait()
        if next(waits) == 8:
            wait(futures)
        else:
            both.wait()

    def slow(alive: Callable[[], None]) -> str:
        for _ in range(8):
            both.wait()
            alive()
            both.wait()
        both.wait()
        return "all of it"

    monkeypatch.setattr(files, "wait", silence)
    assert call_unless_silent(tmp_path / "f", slow) == "all of it"
    assert next(waits, "none left") == "none left"


async def test_a_call_off_the_loop_gives_its_result_or_its_error() -> None:
    assert await off_loop(lambda: 7) == 7
    with pytest.raises(OSError, match="gone"):
        await off_loop(_fails)


def _fails() -> None:
    raise OSError("gone")


def test_a_call_that_hangs_keeps_neither_a_loop_nor_the_process_from_ending() -> None:
    script = (
        "import asyncio, sys, threading\n"
        "from topo.kit.threads import off_loop\n"
        "async def main():\n"
        "    begun = threading.Event()\n"
        "    task = asyncio.ensure_future(\n"
        "        off_loop(lambda: begun.set() or threading.Event().wait()))\n"
        "    while not begun.is_set():\n"
        "        await asyncio.sleep(0)\n"
        "    task.cancel()\n"
        "asyncio.run(main())\n"
        "sys.exit(7)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (7, "")


def test_an_encrypted_key_is_refused_and_asks_nobody_for_its_password(tmp_path: Path) -> None:
    cert, key = Authority.at(tmp_path / "ca").leaf("m", "127.0.0.1")
    locked = tmp_path / "locked.pem"
    command = ["openssl", "pkey", "-in", str(key), "-out", str(locked)]
    subprocess.run(
        [*command, "-aes256", "-passout", "pass:abcdefgh"], check=True, capture_output=True
    )
    with pytest.raises(BadInputError, match="unencrypted"):
        server_context(cert, locked)


async def test_a_loop_beats_while_a_file_hangs(tmp_path: Path, hanging: threading.Event) -> None:
    (tmp_path / "hangs").write_text("x")
    reading = asyncio.ensure_future(off_loop(lambda: read_bounded(tmp_path / "hangs", 9)))
    await asyncio.sleep(0)
    assert not reading.done()
    hanging.set()
    await reading
