"""The ports and processes of a demo: whose they are, what a death says, and that none is left."""

import asyncio
import os
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.ports import free_ports
from tests.support.processes import alive
from tests.support.waiting import eventually
from topo.cli.demo import processes
from topo.cli.demo.plan import claimed_ports
from topo.cli.demo.processes import Died, Program, Started

# --- ports


def test_a_usual_port_is_used_where_it_is_free_and_another_where_it_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        taken = holder.getsockname()[1]
        with socket.create_server(("127.0.0.1", 0)) as other:
            open_again = other.getsockname()[1]
        found = free_ports((taken, open_again))
    assert found[0] not in {taken, 0, open_again}
    assert found[1] == open_again


def test_two_demos_that_start_at_once_have_ports_of_their_own() -> None:
    """Of neither a process listens yet."""
    (usual,) = free_ports((0,))
    with claimed_ports((usual,)) as first, claimed_ports((usual,)) as second:
        assert first == (usual,)
        assert second != first
    assert free_ports((usual,)) == (usual,)


def test_a_free_port_is_one_that_no_connection_is_given() -> None:
    """Between the claim and the start of its process a connection would take it as its source."""
    first, last = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    assert not {*free_ports((0, 0, 0))} & {*range(int(first), int(last) + 1)}


# --- processes


def sleeper(tmp_path: Path, code: str) -> Program:
    return Program("sleeper", (sys.executable, "-c", code), tmp_path / "log")


async def test_a_process_that_dies_is_told_with_its_last_lines_and_started_again(
    tmp_path: Path,
) -> None:
    program = sleeper(tmp_path, "print('one'); print('two'); raise SystemExit(7)")
    events: list[Started | Died] = []
    async with processes.running([program], events.append):
        await eventually(lambda: len(events) >= 4)
    first, death, again, second_death = events[:4]
    assert isinstance(first, Started)
    assert isinstance(again, Started)
    assert isinstance(death, Died)
    assert isinstance(second_death, Died)
    assert death.how == "ended with exit code 7"
    assert death.last_lines == ("one", "two")
    assert (death.deaths, second_death.deaths) == (1, 2)
    assert second_death.restart_in_s > death.restart_in_s
    assert again.pid != first.pid


async def test_a_death_is_told_with_the_lines_of_its_own_start_only(tmp_path: Path) -> None:
    program = sleeper(tmp_path, "import os; print(os.getpid())")
    events: list[Started | Died] = []
    async with processes.running([program], events.append):
        await eventually(lambda: len(events) >= 4)
    for death in (events[1], events[3]):
        assert isinstance(death, Died)
        assert death.last_lines == (str(death.pid),)


async def test_what_needs_a_port_is_started_when_the_port_listens(tmp_path: Path) -> None:
    events: list[Started | Died] = []
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))  # nobody listens yet
        address = port.getsockname()
        first_try = f"import socket; print(socket.socket().connect_ex({address!r}))"
        program = replace(sleeper(tmp_path, first_try), needs_port=address[1])
        async with processes.running([program], events.append):
            await asyncio.sleep(0.3)
            assert not events
            port.listen()
            await eventually(lambda: len(events) >= 2)
    death = events[1]
    assert isinstance(death, Died)
    assert death.last_lines == ("0",)


async def test_a_killed_process_is_told_by_its_signal(tmp_path: Path) -> None:
    events: list[Started | Died] = []
    program = sleeper(tmp_path, "import time; time.sleep(600)")
    async with processes.running([program], events.append):
        await eventually(lambda: len(events) >= 1)
        os.kill(events[0].pid, signal.SIGKILL)
        await eventually(lambda: len(events) >= 2)
    assert isinstance(events[1], Died)
    assert events[1].how == "was ended by SIGKILL"


async def test_nothing_runs_after_the_block_even_what_ignores_the_polite_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_GRACE_S", 0.2)
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print('deaf', flush=True); time.sleep(600)"
    )
    program = sleeper(tmp_path, deaf)
    events: list[Started | Died] = []
    async with processes.running([program], events.append):
        await eventually(lambda: len(events) >= 1)
        await eventually(lambda: "deaf" in program.log.read_text())
    assert not alive(events[0].pid)


def test_settings_of_the_caller_do_not_reach_the_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOPO_MODE", "config")
    assert "TOPO_MODE" not in processes.environment()
    assert "PATH" in processes.environment()
