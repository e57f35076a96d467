"""Masters that the e2e suites fork instead of executing them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.controlplane.forks import ForkServer
from tests.e2e.controlplane.processes import Program
from tests.support.processes import alive
from tests.support.waiting import eventually_in_a_thread

pytestmark = pytest.mark.slow
ARGV = (sys.executable, "-m", "master", "--server-port=0", "--rpc-server-port=0")


@contextmanager
def server() -> Iterator[ForkServer]:
    """One that has imported all."""
    own = ForkServer()
    try:
        eventually_in_a_thread(lambda: own.serves)
        yield own
    finally:
        own.end()


@pytest.fixture(scope="module")
def own() -> Iterator[ForkServer]:
    """The one of these tests."""
    with server() as begun:
        yield begun


def program(home: Path, own: ForkServer) -> Program:
    """A master whose mode and address come from its environment."""
    config = home / "nodegroup.yaml"
    config.write_text("group: []\n")
    environment = {"TOPO_MODE": "config", "TOPO_BIND_ADDRESS": "127.0.0.1"}
    argv = (*ARGV, f"--config-file={config}")
    return Program("topo-master", argv, home / "master.log", environment, server=own)


def listens(master: Program) -> bool:
    master.must_live()
    return {"api", "reports"} <= {each.get("site") for each in master.events}


def test_a_forked_master_serves_is_stopped_and_started_again(
    tmp_path: Path, own: ForkServer
) -> None:
    master = program(tmp_path, own)
    for _ in range(2):
        master.start()
        assert Path(f"/proc/{master.pid}/cmdline").read_bytes().endswith(b"forks\0")
        eventually_in_a_thread(lambda: listens(master))
        assert os.getsid(master.pid) == master.pid
        master.stop()
        assert not master.is_alive
        assert master.events[-1]["event"] == "stopped", master.tail
        master.log.unlink()


def test_a_forked_master_that_cannot_start_says_why(tmp_path: Path, own: ForkServer) -> None:
    master = program(tmp_path, own)
    master.argv += ("--no-such-flag",)
    master.start()
    eventually_in_a_thread(lambda: not master.is_alive)
    assert "--no-such-flag" in master.tail
    master.stop()


@pytest.mark.parametrize(
    ("command", "variable"),
    [(ARGV, "PYTHONPATH"), (ARGV, "LD_PRELOAD"), ((sys.executable, "-m", "worker"), "TOPO_X")],
)
def test_another_program_or_what_is_read_at_execution_is_executed(
    command: tuple[str, ...], variable: str, tmp_path: Path, own: ForkServer
) -> None:
    assert own.start(command, {variable: "1"}, tmp_path / "log") is None


_RUN = """
import sys, time
from pathlib import Path
from tests.support.test_forks import listens, program, server
from tests.support.waiting import eventually_in_a_thread
with server() as own:
    master = program(Path(sys.argv[1]), own)
    master.start()
    eventually_in_a_thread(lambda: listens(master))
    print(master.pid, flush=True)
    time.sleep(600)
"""


def test_no_forked_master_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _RUN, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        pid = int(run.stdout.readline())
        run.kill()
    eventually_in_a_thread(lambda: not alive(pid))
