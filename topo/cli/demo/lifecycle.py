"""The demo from start to end: set up, start, wait for the tree, follow it, take it down."""

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from topo.cli.client.client import Master, connect, target
from topo.cli.client.documents import TopologyDoc
from topo.cli.client.following import Connected, Lost, follow
from topo.cli.demo.messages import Narrator, Progress
from topo.cli.demo.plan import USUAL_PORTS, Ports, Stage, prepare, programs
from topo.cli.demo.ports import free
from topo.cli.demo.processes import Died, Started, running
from topo.cli.demo.runtime import Demo, Home
from topo.cli.exits import CliError, Exit
from topo.model.errors import Refusal
from topo.sim.worlds.presets import World

_LOOK_S = 0.1
_PATIENCE_S = 60.0
_TOO_MANY_DEATHS = 3
"""In a row, before the tree stood: the cause will not go away by itself."""
_RETRY_S = 0.25
_READY = "Ready"


@dataclass(slots=True)
class _Cast:
    """Who runs now, told to other terminals whenever it changes."""

    home: Home
    narrator: Narrator
    demo: Demo
    is_up: bool = False
    hopeless: Died | None = None
    pids: dict[str, int] = field(default_factory=dict)

    def tell(self, news: Started | Died) -> None:
        if isinstance(news, Started):
            self.pids[news.program.name] = news.pid
        else:
            self.pids.pop(news.program.name, None)
            self.narrator.died(news)
            if not self.is_up and news.deaths >= _TOO_MANY_DEATHS:
                self.hopeless = news
        self.home.tell(replace(self.demo, pids=dict(self.pids)))


async def play(world: World, world_name: str, narrator: Narrator, *, once: bool) -> Exit:
    """Runs the demo until Ctrl-C or SIGTERM; with `once` until the tree stands.

    Raises `CliError` when it does not come up, or when another demo runs.
    """
    began = time.monotonic()
    with Home() as home, _ended_by_signals():
        stage, ports = Stage(home.path), Ports(*free(USUAL_PORTS))
        prepare(stage, world)
        names = tuple(str(node.name) for node in world.nodes)
        demo = Demo(
            master=ports.master,
            recordings=str(stage.recordings),
            nodes=names,
            world=world_name,
            token_file=str(stage.api_token),
        )
        narrator.starts(ports, USUAL_PORTS, len(names))
        cast = _Cast(home, narrator, demo)
        try:
            async with (
                running(programs(stage, world, world_name, ports), cast.tell),
                connect(target(ports.master, None, None)) as master,
            ):
                document = await _until_ready(master, cast, len(names))
                cast.is_up = True
                narrator.stands(document, time.monotonic() - began)
                if not once:
                    narrator.invites(replace(demo, pids=cast.pids))
                    await _follow(master, narrator)
        except asyncio.CancelledError:
            return Exit.OK if cast.is_up else Exit.INTERRUPTED
        finally:
            narrator.ends()
    return Exit.OK


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Signals cancel the current task, so that everything is taken down on the way out."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in signals:
        loop.add_signal_handler(number, lambda: task and task.cancel())
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


async def _until_ready(master: Master, cast: _Cast, nodes: int) -> TopologyDoc:
    """The first tree in which all nodes are Ready and in a group; raises `CliError`."""
    deadline = time.monotonic() + _PATIENCE_S
    newest: TopologyDoc | None = None
    while time.monotonic() < deadline:
        if cast.hopeless is not None:
            raise _not_up(f"{cast.hopeless.program.name} {cast.hopeless.how}")
        try:
            newest = await master.topology()
        except CliError:
            cast.narrator.progress(Progress(running=len(cast.pids)))
        else:
            progress = _progress(newest, len(cast.pids), nodes)
            cast.narrator.progress(progress)
            if progress.ready == nodes and not newest.get("unplaced"):
                return newest
        await asyncio.sleep(_LOOK_S)
    if newest is not None:
        cast.narrator.shows(newest)
    raise _not_up(f"no Ready tree after {_PATIENCE_S:.0f} s")


def _progress(document: TopologyDoc, running: int, nodes: int) -> Progress:
    counts = [capacity for group in document["groups"] if (capacity := group.get("capacity"))]
    known = sum(count["nodes"] for count in counts) + len(document.get("unplaced", []))
    whole = all(group["status"] == _READY for group in document["groups"])
    ready = sum(count["ready"] for count in counts) if whole else 0
    return Progress(running=running, answers=True, known=known, ready=ready, nodes=nodes)


def _not_up(what: str) -> CliError:
    fix = "what is printed above says more; is another process in the way?"
    return CliError(Exit.FINDING, Refusal(f"the demo did not come up: {what}", "topo demo", fix))


async def _follow(master: Master, narrator: Narrator) -> None:
    lost = False
    async for event in follow(master, retry_s=_RETRY_S):
        if isinstance(event, Lost):
            if not lost:
                narrator.lost(event.refusal)
            lost = True
        elif isinstance(event, Connected):
            if lost:
                narrator.found(event.generation)
            lost = False
        else:
            narrator.changed(event.get("changes", []))
