"""`topo tree --watch`: every change, resumed after a break, in a real process."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import pytest

from tests.cli import samples
from tests.cli.conftest import FakeMaster
from tests.support.waiting import CEILING_S, eventually_in_a_thread


@contextmanager
def watching(
    fake: FakeMaster,
    *more: str,
    stdout: int = subprocess.PIPE,
    stdin: int | None = None,
    code: int = 0,
) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "topo.cli.main", "tree", "--watch", *more]
    env = {**os.environ, "TOPO_MASTER": fake.url, "PYTHONUNBUFFERED": "1", "TERM": "xterm"}
    process = subprocess.Popen(
        command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, text=True, env=env
    )
    try:
        yield process
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        assert process.wait(CEILING_S) == code, process.stderr and process.stderr.read()
    finally:
        process.kill()
        process.communicate()


def a_line(stream: IO[str] | None) -> Any:
    assert stream is not None
    return json.loads(stream.readline())


def until_followed(fake: FakeMaster) -> None:
    eventually_in_a_thread(fake.has_listener)


def test_every_generation_is_one_line_of_json(fake_master: FakeMaster) -> None:
    with watching(fake_master, "-o", "json") as process:
        assert a_line(process.stdout) == samples.healthy()
        until_followed(fake_master)
        fake_master.publish(samples.troubled(), samples.changes())
        assert a_line(process.stdout)["generation"] == 13


def test_another_run_with_the_same_number_is_news(fake_master: FakeMaster) -> None:
    with watching(fake_master, "-o", "json") as process:
        assert a_line(process.stdout) == samples.healthy()
        until_followed(fake_master)
        restarted = {**samples.healthy(), "run": "bbbbbbbb"}
        fake_master.publish(restarted, [])
        assert a_line(process.stdout) == restarted


@pytest.mark.parametrize("output", ["json", "table"])
def test_a_reader_that_has_seen_enough_ends_the_watch(fake_master: FakeMaster, output: str) -> None:
    """As `topo tree --watch | head -1` does: no traceback."""
    with watching(fake_master, "-o", output, code=1) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        until_followed(fake_master)
        process.stdout.close()
        fake_master.publish(samples.troubled(), samples.changes())
        process.wait(CEILING_S)
        assert process.stderr.read() == ""


def test_yaml_documents_are_divided(fake_master: FakeMaster) -> None:
    with watching(fake_master, "-o", "yaml") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "---\n"
        until_followed(fake_master)
        fake_master.publish(samples.troubled(), samples.changes())
        while process.stdout.readline() != "---\n":
            pass


class Screen:
    """A terminal of 80x24: what was drawn on it last, and its keyboard."""

    def __init__(self) -> None:
        self._controller, self.terminal = pty.openpty()
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self._seen = b""

    def close(self) -> None:
        os.close(self._controller)
        os.close(self.terminal)

    def press(self, keys: bytes) -> None:
        os.write(self._controller, keys)

    def until(self, words: str) -> list[str]:
        """The lines of the first whole frame that has these words."""
        while True:
            frame = self._frame()
            if frame is not None and any(words in line for line in frame):
                return frame
            assert select.select([self._controller], [], [], CEILING_S)[0], self._seen
            self._seen += os.read(self._controller, 65536)

    def _frame(self) -> list[str] | None:
        """The last frame that was drawn to its last line; a frame begins at the top left."""
        text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Gl-z]", "", self._seen.decode(errors="ignore"))
        whole = [f.split("\r\n") for f in text.split("\x1b[H")[1:] if f.count("\r\n") >= 23]
        return [line.rstrip() for line in whole[-1]] if whole else None


@pytest.fixture
def screen() -> Iterator[Screen]:
    made = Screen()
    yield made
    made.close()


def wide(nodes: int) -> Any:
    """More groups than lines, of which the last but one is broken."""
    document = samples.healthy()
    pairs = [(f"node-{n}", f"node-{n + 1}") for n in range(1, nodes, 2)]
    flies = [
        samples.group(f"dragonfly-{n}", "dragonfly", [samples.node(name) for name in pair])
        for n, pair in enumerate(pairs)
    ]
    broken = [samples.node(pairs[-2][0]), samples.node(pairs[-2][1], "NotReady", samples.CUT)]
    flies[-2] = samples.group("dragonfly-18", "dragonfly", broken, ("x", "one is not ready"))
    document["groups"][0]["child"] = flies
    document["conflicts"] = samples.troubled()["conflicts"]
    return document


def test_on_a_terminal_what_is_wrong_comes_first_and_the_rest_scrolls(
    fake_master: FakeMaster, screen: Screen
) -> None:
    fake_master.document = wide(40)
    with watching(fake_master, stdout=screen.terminal, stdin=screen.terminal) as process:
        frame = screen.until("lines 1 to 21 of 67")
        assert frame[0].startswith("generation 12")
        assert "cloned-server-uuid" in frame[2]
        assert frame[6] == "├── ✗ dragonfly-18  dragonfly  NotReady  1/2 nodes · 16 GPUs"
        assert "one is not ready" in frame[7]
        assert "lines 1 to 21 of 67 · arrows, PgUp, PgDn, Home, End · q ends" in frame[23]
        assert frame[22].startswith("sources  cluster-manager ok")
        screen.press(b"G")
        frame = screen.until("lines 47 to 67 of 67")
        assert frame[0].startswith("generation 12")
        assert "node-40" in frame[21]
        screen.press(b"q")
        assert process.wait(CEILING_S) == 0


def test_not_current_stays_in_sight_however_long_the_tree_is(
    fake_master: FakeMaster, screen: Screen
) -> None:
    fake_master.document = wide(40)
    with watching(fake_master, stdout=screen.terminal, stdin=screen.terminal):
        screen.until("of 67")
        until_followed(fake_master)
        fake_master.stop()
        frame = screen.until(" s old: no master answers")
        assert frame[0].startswith("generation 12")
        assert " s old: no master answers" in frame[1]
        screen.press(b"\x1b[6~")
        assert " s old: no master answers" in screen.until("lines 20 to")[1]


def test_a_terminal_is_redrawn_in_place(fake_master: FakeMaster, screen: Screen) -> None:
    """On a terminal the tree stands once, changed, and the last one stays when the watch ends."""
    with watching(fake_master, stdout=screen.terminal, stdin=screen.terminal) as process:
        screen.until("generation 12")
        until_followed(fake_master)
        fake_master.publish(samples.troubled(), samples.changes())
        frame = screen.until("generation 13")
        assert not any("generation 12" in line for line in frame)
        assert process.poll() is None


def test_a_watch_of_problems_shows_nothing_else(fake_master: FakeMaster, screen: Screen) -> None:
    with watching(fake_master, "--problems", stdout=screen.terminal, stdin=screen.terminal):
        assert "every group and node is Ready" in screen.until("generation 12")[1]
        until_followed(fake_master)
        fake_master.publish(samples.troubled(), samples.changes())
        frame = screen.until("generation 13")
        assert any("node-3  NotReady" in line for line in frame)
        assert not any("node-4  8 GPUs" in line for line in frame)


def test_a_watch_outlives_a_restart_of_the_master(fake_master: FakeMaster) -> None:
    """It says that it is not current while the master is away, and shows what it missed."""
    with watching(fake_master) as process:
        assert process.stdout is not None
        assert "generation 12" in process.stdout.readline()
        until_followed(fake_master)
        fake_master.stop()
        while " s old: no master answers" not in process.stdout.readline():
            pass
        fake_master.document = {**samples.healthy(), "generation": 14}
        fake_master.start()
        while "generation 14" not in process.stdout.readline():
            pass
