"""`topo demo` as a whole, on the smallest world that has everything: real processes, in seconds."""

import asyncio
import io
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from rich.console import Console

from tests.cli import samples
from tests.cli.conftest import FakeMaster
from tests.support.ports import free_ports
from tests.support.waiting import eventually
from topo.cli import worlds
from topo.cli.demo import plan, processes
from topo.cli.demo.lifecycle import run_demo
from topo.cli.demo.messages import Messages
from topo.cli.demo_directory import directory, running_demo
from topo.cli.exit_codes import CliError, Exit

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
        await eventually(lambda: words in self.text)


async def demo(world: str, screen: Screen, *, once: bool = False, **more: Any) -> Exit:
    """A demo that never gives up, for no test is about speed; another one keeps the usual ports."""
    ports = free_ports((0, 0, 0))
    chosen = {"usual_ports": (ports[0], ports[1], ports[2]), "clock": lambda: 0.0, **more}
    return await run_demo(worlds.chosen(world), world, screen.messages, once=once, **chosen)


@pytest.mark.slow
async def test_a_demo_from_start_to_end() -> None:
    """The tree, a death, a restart, a master that goes and comes back, Ctrl-C, nothing left."""
    screen = Screen()
    task = asyncio.create_task(demo(WORLD, screen))
    await screen.shows("Ctrl-C ends everything")
    assert "● switchbox-sample1  switchbox  Ready  2/2 nodes · 4 GPUs" in screen.text
    first = running_demo()
    assert first is not None
    assert len(first.pids) == 5
    os.kill(first.pids["topo-worker node-sample1"], signal.SIGKILL)
    await screen.shows("topo-worker node-sample1 (pid")
    os.kill(first.pids["topo-master"], signal.SIGKILL)
    await screen.shows("the master answers again")
    now = running_demo()
    assert now is not None
    os.kill(os.getpid(), signal.SIGINT)
    assert await task == Exit.OK
    assert "everything is stopped and removed" in screen.text
    for pid in {*first.pids.values(), *now.pids.values()}:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert not directory().exists()


async def test_once_ends_with_the_tree_and_says_which_ports_were_taken() -> None:
    with ExitStack() as stack:
        holder = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        taken = holder.getsockname()[1]
        screen = Screen(terminal=True)
        ports = (taken, *free_ports((0, 0)))
        code = await demo("0x1x2x2", screen, once=True, usual_ports=ports)
    assert code == Exit.OK
    assert f"port {taken} is taken, using" in screen.text
    assert "dragonfly  Ready  2/2 nodes" in screen.text
    assert "Try in another terminal" not in screen.text
    assert not directory().exists()


async def test_a_program_that_cannot_start_ends_the_demo_and_shows_its_log() -> None:
    """It is given up after three deaths in a row: the cause will not go away by itself."""
    code = "print('no such port'); raise SystemExit(2)"

    def broken(files: plan.DemoFiles, *_: object) -> list[processes.Program]:
        command = (sys.executable, "-c", code)
        return [processes.Program("broken", command, files.logs / "broken.log")]

    screen = Screen()
    with pytest.raises(CliError) as refused:
        await demo(WORLD, screen, chosen=broken)
    assert refused.value.exit_code == Exit.FINDING
    assert "broken ended with exit code 2" in refused.value.refusal.what
    assert "no such port" in screen.text
    assert not directory().exists()


Chosen = Callable[..., Sequence[processes.Program]]


@pytest.fixture
def fake_programs(fake_master: FakeMaster) -> Chosen:
    """The demo starts no process, and finds the fake master at the master's port."""

    def start(*given: object) -> Sequence[processes.Program]:
        (ports,) = [value for value in given if isinstance(value, plan.DemoPorts)]
        fake_master.stop()
        fake_master.port = ports.api
        fake_master.start()
        return ()

    return start


async def test_a_tree_that_does_not_come_is_given_up_and_shown(
    fake_master: FakeMaster, fake_programs: Chosen
) -> None:
    """A minute is over when the master has been asked twice: it has answered once at least."""
    fake_master.document = samples.troubled()
    screen = Screen(terminal=True)
    with pytest.raises(CliError, match="no Ready tree after 60 s"):
        await demo(
            "1x2x2",
            screen,
            once=True,
            chosen=fake_programs,
            clock=lambda: 61.0 if len(fake_master.asked) > 1 else 0.0,
        )
    assert "✗ node-3  NotReady" in screen.text


async def test_changes_losses_and_returns_are_lines_with_a_time(
    fake_master: FakeMaster, fake_programs: Chosen
) -> None:
    screen = Screen()
    task = asyncio.create_task(demo("1x2x2", screen, chosen=fake_programs))
    await screen.shows("Ctrl-C ends everything")
    await eventually(fake_master.has_listener)
    await asyncio.to_thread(fake_master.publish, samples.troubled(), samples.changes())
    await screen.shows("✗ node-3  Ready → NotReady")
    await asyncio.to_thread(fake_master.stop)
    await screen.shows("▲ no master answers: Connection refused")
    await asyncio.to_thread(fake_master.start)
    await screen.shows("● the master answers again, generation 13")
    os.kill(os.getpid(), signal.SIGTERM)
    assert await task == Exit.OK


async def test_ctrl_c_while_it_starts_is_an_interruption() -> None:
    screen = Screen()
    task = asyncio.create_task(demo(WORLD, screen))
    await screen.shows("starting")
    os.kill(os.getpid(), signal.SIGTERM)
    assert await task == Exit.INTERRUPTED
    assert not directory().exists()
