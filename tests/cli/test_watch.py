"""`topo tree --watch`: every change, resumed after a break, in a real process."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import pytest

from tests.cli import samples
from tests.cli.conftest import FakeMaster
from tests.support.waiting import CEILING_S, eventually_in_a_thread


@contextmanager
def watching(
    fake: FakeMaster, *more: str, stdout: int = subprocess.PIPE, code: int = 0
) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "topo.cli.main", "tree", "--watch", *more]
    env = {**os.environ, "TOPO_MASTER": fake.url, "PYTHONUNBUFFERED": "1", "TERM": "xterm"}
    process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, text=True, env=env)
    try:
        yield process
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


def test_a_terminal_is_redrawn_in_place(fake_master: FakeMaster) -> None:
    """On a terminal the tree stands once, changed; the cursor goes back up between drawings."""
    controller, terminal = pty.openpty()
    with (
        os.fdopen(controller, "rb", buffering=0) as screen,
        watching(fake_master, stdout=terminal) as process,
    ):
        os.close(terminal)
        seen = b""
        while b"generation 12" not in seen:
            seen += screen.read(4096)
        until_followed(fake_master)
        fake_master.publish(samples.troubled(), samples.changes())
        seen = b""
        while b"generation 13" not in seen:
            seen += screen.read(4096)
        assert b"\x1b[1A" in seen
        assert process.poll() is None


def test_a_watch_outlives_a_restart_of_the_master(fake_master: FakeMaster) -> None:
    """It says that it is not current while the master is away, and shows what it missed."""
    with watching(fake_master) as process:
        assert process.stdout is not None
        assert "generation 12" in process.stdout.readline()
        until_followed(fake_master)
        fake_master.stop()
        while "not current: no master answers" not in process.stdout.readline():
            pass
        fake_master.document = {**samples.healthy(), "generation": 14}
        fake_master.start()
        while "generation 14" not in process.stdout.readline():
            pass
