"""Jobs of `topo demo`: through the real webhook and gates, on a simulated Kubernetes."""

import os
import re
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import RunningDemo
from tests.support.waiting import eventually_in_a_thread as eventually

pytestmark = pytest.mark.slow

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
_BLOCK = re.search(
    r"<!-- jobs of the demo -->\n```console\n(.*?)```\n<!-- end of jobs -->", README, re.DOTALL
)
_CHANGING = re.compile(r"\b\d[\d.]* \w+ old|(?<=-\d-)[0-9a-f]{5}\b|(?<=\w-)[0-9a-f]{8}\b|\s+")
"""What another run prints otherwise: ages, ends of names that are drawn, and widths."""


@pytest.fixture
def jobs(demo: RunningDemo) -> Iterator[RunningDemo]:
    """The demo of the module, without jobs before and after the test."""
    yield demo
    demo.topo("demo", "heal")
    for name in _states(demo):
        demo.topo("demo", "finish", name)
    eventually(lambda: _gpus(demo).get("free") == 64)


def _states(demo: RunningDemo) -> dict[str, str]:
    """The jobs that have not ended, and how they are."""
    lines = [line.split() for line in demo.topo("demo", "jobs").stdout.splitlines()]
    rows = (line for line in lines if len(line) > 2 and line[1] in {"●", "▲"})
    return {name: state for name, _, state, *_ in rows if state != "finished"}


def _shown() -> Iterator[tuple[list[str], str]]:
    """The commands of the README's block, each with what it prints there."""
    assert _BLOCK is not None
    for part in _BLOCK[1].split("$ .venv/bin/topo ")[1:]:
        command, _, printed = part.partition("\n")
        yield shlex.split(command), printed


def _lasting(text: str) -> str:
    return _CHANGING.sub("", text)


def test_the_jobs_of_the_readme_go_as_it_shows(jobs: RunningDemo) -> None:
    """A job on whole dragonflies, one that waits and what would let it in, and its start."""
    for command, printed in _shown():
        if command[:2] == ["demo", "jobs"] or command[0] == "why":
            _prints(jobs, command, printed)
        else:
            assert _lasting(jobs.topo(*command).stdout) == _lasting(printed)


def _prints(demo: RunningDemo, command: list[str], printed: str) -> None:
    """It prints that, as soon as the cluster is so far."""
    told = ""

    def is_shown() -> bool:
        nonlocal told
        told = demo.topo(*command).stdout
        return _lasting(told) == _lasting(printed)

    try:
        eventually(is_shown)
    except AssertionError:
        assert told == printed, command
        raise


def test_a_running_job_that_loses_a_link_is_told_and_goes_on(jobs: RunningDemo) -> None:
    assert jobs.topo("demo", "submit", "hurt").returncode == 0
    eventually(lambda: _states(jobs) == {"hurt": "running"})
    jobs.topo("demo", "cut", "node-sample1")
    eventually(lambda: "group 0 lost node-sample1" in jobs.topo("why", "hurt").stdout)
    assert _states(jobs) == {"hurt": "running"}
    jobs.topo("demo", "heal")
    eventually(lambda: "lost" not in jobs.topo("why", "hurt").stdout)


def test_a_wrong_request_is_warned_of_and_the_job_runs_without_groups(jobs: RunningDemo) -> None:
    made = jobs.topo("demo", "submit", "odd", "--group-size", "12")
    assert made.returncode == 0
    assert "not a multiple of the 8 GPUs of a pod" in made.stderr
    eventually(lambda: _states(jobs) == {"odd": "running"})
    assert "odd" not in jobs.topo("gangs").stdout


def test_used_and_free_gpus_are_all_gpus_while_jobs_come_and_go(jobs: RunningDemo) -> None:
    """Also after the API server was killed in between: it comes back with the same jobs."""
    for arguments in (("one", "--pods", "2"), ("two", "--pods", "4"), ("three", "--pods", "6")):
        jobs.topo("demo", "submit", *arguments)
    eventually(lambda: _states(jobs) == {"one": "running", "two": "running", "three": "waits"})
    before = jobs.topo("demo", "jobs").stdout
    pid = jobs.pid("kubernetes")
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: jobs.told()["pids"].get("kubernetes", pid) != pid)
    eventually(lambda: jobs.topo("demo", "jobs").stdout == before)
    eventually(lambda: _gpus(jobs) == {"gpus": 64, "used": 48, "held": 0, "free": 16})
    jobs.topo("demo", "finish", "one")
    eventually(lambda: _gpus(jobs) == {"gpus": 64, "used": 32, "held": 0, "free": 32})
    jobs.topo("demo", "finish", "two")
    eventually(lambda: _gpus(jobs) == {"gpus": 64, "used": 48, "held": 0, "free": 16})
    assert _states(jobs) == {"three": "running"}


def _gpus(demo: RunningDemo) -> dict[str, int]:
    """What the master counts of the GPUs."""
    metrics = {"topo_master_gpus": "gpus"}
    metrics |= {f"topo_master_{name}_gpus": name for name in ("used", "held", "free")}
    found: dict[str, int] = {}
    for line in (demo.page("/metrics") or "").splitlines():
        name = metrics.get(line.partition("{")[0])
        if name is not None:
            found[name] = found.get(name, 0) + int(float(line.split()[-1]))
    return found


Start = Callable[..., RunningDemo]


def test_without_jobs_there_is_no_kubernetes(start: Start) -> None:
    demo = start("--no-jobs")
    eventually(lambda: "Ctrl-C ends everything" in demo.text)
    assert "kubernetes" not in demo.told()["pids"]
    assert "demo submit" not in demo.text
    refused = demo.topo("demo", "submit")
    assert refused.returncode == 1
    assert "start it without --no-jobs" in refused.stderr
