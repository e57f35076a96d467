"""`topo demo` as a whole, on the smallest world that has everything: real processes, in seconds."""

import asyncio
import io
import os
import signal
import socket
import sys
from contextlib import ExitStack

import pytest
from rich.console import Console

from tests.cli import samples
from tests.cli.conftest import FakeMaster
from topo.cli import worlds
from topo.cli.demo import lifecycle, plan, processes
from topo.cli.demo.lifecycle import run_demo
from topo.cli.demo.messages import Messages
from topo.cli.demo.ports import free_ports
from topo.cli.demo.runtime import directory, running_demo
from topo.cli.exits import CliError, Exit

WORLD = "1x1x2x2"


class Screen:
    """What the demo printed so far."""

    def __init__(self, *, terminal: bool = False) -> None:
        self._file = io.StringIO()
        width, height = 120, 50
        self.messages = Messages(
            Console(
                file=self._file,
                width=width,
                height=height,
                force_terminal=terminal,
                color_system=None,
                highlight=False,
            )
        )

    @property
    def text(self) -> str:
        return self._file.getvalue()

    async def shows(self, words: str) -> None:
        async with asyncio.timeout(20):
            while words not in self.text:
                await asyncio.sleep(0.02)


@pytest.fixture(autouse=True)
def _odd_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """A demo that somebody runs meanwhile keeps its ports."""
    monkeypatch.setattr(lifecycle, "USUAL_PORTS", free_ports((0, 0, 0)))


async def test_a_demo_from_start_to_end() -> None:
    """The tree, a death, a restart, a master that goes and comes back, Ctrl-C, nothing left."""
    screen = Screen()
    task = asyncio.create_task(run_demo(worlds.chosen(WORLD), WORLD, screen.messages, once=False))
    await screen.shows("Ctrl-C ends everything")
    assert "● switchbox-sample1  switchbox  Ready  2/2 nodes · 4 GPUs" in screen.text
    demo = running_demo()
    assert demo is not None
    assert len(demo.pids) == 4
    os.kill(demo.pids["topo-worker node-sample1"], signal.SIGKILL)
    await screen.shows("topo-worker node-sample1 (pid")
    os.kill(demo.pids["topo-master"], signal.SIGKILL)
    await screen.shows("the master answers again")
    now = running_demo()
    assert now is not None
    os.kill(os.getpid(), signal.SIGINT)
    assert await task == Exit.OK
    assert "everything is stopped and removed" in screen.text
    for pid in {*demo.pids.values(), *now.pids.values()}:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert not directory().exists()


async def test_once_ends_with_the_tree_and_says_which_ports_were_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ExitStack() as stack:
        holder = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        taken = holder.getsockname()[1]
        monkeypatch.setattr(lifecycle, "USUAL_PORTS", (taken, *free_ports((0, 0))))
        screen = Screen(terminal=True)
        code = await run_demo(worlds.chosen("0x1x2x2"), "0x1x2x2", screen.messages, once=True)
    assert code == Exit.OK
    assert f"port {taken} is taken, using" in screen.text
    assert "dragonfly  Ready  2/2 nodes" in screen.text
    assert "Try in another terminal" not in screen.text
    assert not directory().exists()


async def test_a_program_that_cannot_start_ends_the_demo_and_shows_its_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is given up after three deaths in a row: the cause will not go away by itself."""
    code = "print('no such port'); raise SystemExit(2)"

    def broken(files: plan.DemoFiles, *_: object) -> list[processes.Program]:
        command = (sys.executable, "-c", code)
        return [processes.Program("broken", command, files.logs / "broken.log")]

    monkeypatch.setattr(lifecycle, "programs", broken)
    monkeypatch.setattr(processes, "_BACKOFF_S", (0.01,))
    screen = Screen()
    with pytest.raises(CliError) as refused:
        await run_demo(worlds.chosen(WORLD), WORLD, screen.messages, once=False)
    assert refused.value.exit_code == Exit.FINDING
    assert "broken ended with exit code 2" in refused.value.refusal.what
    assert "no such port" in screen.text
    assert not directory().exists()


@pytest.fixture
def a_masters_place(fake_master: FakeMaster, monkeypatch: pytest.MonkeyPatch) -> FakeMaster:
    """The demo starts no process and takes the fake master for its own."""
    monkeypatch.setattr(lifecycle, "free_ports", lambda _: (fake_master.port, 1, 2))
    monkeypatch.setattr(lifecycle, "programs", lambda *_: ())
    return fake_master


async def test_a_tree_that_does_not_come_is_given_up_and_shown(
    a_masters_place: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_masters_place.document = samples.troubled()
    monkeypatch.setattr(lifecycle, "_TIMEOUT_S", 0.3)
    screen = Screen(terminal=True)
    with pytest.raises(CliError, match="no Ready tree after 0 s"):
        await run_demo(worlds.chosen("1x2x2"), "1x2x2", screen.messages, once=True)
    assert "✗ node-3  NotReady" in screen.text


async def test_changes_losses_and_returns_are_lines_with_a_time(
    a_masters_place: FakeMaster,
) -> None:
    screen = Screen()
    task = asyncio.create_task(
        run_demo(worlds.chosen("1x2x2"), "1x2x2", screen.messages, once=False),
    )
    await screen.shows("Ctrl-C ends everything")
    async with asyncio.timeout(10):
        while not a_masters_place.has_listener():
            await asyncio.sleep(0.01)
    await asyncio.to_thread(a_masters_place.publish, samples.troubled(), samples.changes())
    await screen.shows("✗ node-3  Ready → NotReady")
    await asyncio.to_thread(a_masters_place.stop)
    await screen.shows("▲ no master answers: Connection refused")
    await asyncio.to_thread(a_masters_place.start)
    await screen.shows("● the master answers again, generation 13")
    os.kill(os.getpid(), signal.SIGTERM)
    assert await task == Exit.OK


async def test_ctrl_c_while_it_starts_is_an_interruption() -> None:
    screen = Screen()
    task = asyncio.create_task(run_demo(worlds.chosen(WORLD), WORLD, screen.messages, once=False))
    await screen.shows("starting")
    os.kill(os.getpid(), signal.SIGTERM)
    assert await task == Exit.INTERRUPTED
    assert not directory().exists()
