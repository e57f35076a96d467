"""The demo from start to end: set up, start, wait for the tree, follow it, take it down."""

import asyncio
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from topo.cli.client.client import MasterClient, connect, target
from topo.cli.client.watch import Connected, MasterLost, follow
from topo.cli.demo.messages import Messages
from topo.cli.demo.plan import (
    USUAL_PORTS,
    DemoFiles,
    DemoPorts,
    claimed_ports,
    is_fleet,
    prepare,
    programs,
)
from topo.cli.demo.processes import Died, Program, Started, running
from topo.cli.demo.prometheus import USUAL_PORT as PROMETHEUS_PORT
from topo.cli.demo.prometheus import Prometheus
from topo.cli.demo_directory import Demo, DemoDirectory
from topo.cli.exit_codes import CliError, Exit
from topo.kit.tasks import on_signals
from topo.model.errors import Refusal
from topo.model.rest.topology import TopologyDocument
from topo.sim.worlds.presets import World

_LOOK_S = 0.1
_REST = 4.0
"""The tree of 10,000 nodes is megabytes: a fifth of the time at most goes into looking at it."""
_TIMEOUT_S = 60.0
_EACH_S = 0.02
"""What a node may add to it."""
_TOO_MANY_DEATHS = 3
"""In a row, before the tree stood: the cause will not go away by itself."""
_RETRY_S = 0.25
Chosen = Callable[[DemoFiles, World, str, DemoPorts], Sequence[Program]]
_READY = "Ready"
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _RunningDemo:
    """The demo with its processes, told to other terminals whenever they change."""

    def __init__(self, home: DemoDirectory, demo: Demo, messages: Messages) -> None:
        self._home = home
        self.demo = demo
        self.messages = messages
        self.is_up = False
        self.hopeless: Died | None = None

    def report(self, event: Started | Died) -> None:
        """A process was started or died."""
        pids = dict(self.demo.pids)
        if isinstance(event, Started):
            pids[event.program.name] = event.pid
        else:
            pids.pop(event.program.name, None)
            self.messages.print_death(event)
            if not self.is_up and event.deaths >= _TOO_MANY_DEATHS:
                self.hopeless = event
        self.demo = replace(self.demo, pids=pids)
        self._home.publish(self.demo)


async def run_demo(  # noqa: PLR0913 - the last three are for tests
    world: World,
    world_name: str,
    messages: Messages,
    *,
    once: bool,
    jobs: bool = True,
    prometheus: Prometheus | None = None,
    usual_ports: tuple[int, int, int] = USUAL_PORTS,
    chosen: Chosen = programs,
    clock: Callable[[], float] = time.monotonic,
) -> Exit:
    """Run the demo until Ctrl-C or SIGTERM; with `once` until the tree stands.

    `chosen` are its programs, for the files and ports that it is given. Raises `CliError` when it
    does not come up, or when another demo runs.
    """
    began, task = clock(), asyncio.current_task()
    # Cancelling takes everything down on the way out.
    names = tuple(str(node.name) for node in world.nodes)
    scraped = names if prometheus and not is_fleet(world) else ()
    with (
        DemoDirectory() as home,
        _ports(usual_ports, scraped, jobs=jobs, is_watched=prometheus is not None) as ports,
        on_signals(lambda _: task and task.cancel(), *_ENDING),
    ):
        files = DemoFiles(home.path)
        prepare(files, world, ports)
        demo = Demo(
            master=ports.master,
            recordings=str(files.recordings),
            nodes=names,
            world=world_name,
            token_file=str(files.api_token),
            prometheus=ports.url(ports.prometheus) if prometheus else "",
            kubernetes=str(files.kubernetes) if jobs else "",
        )
        messages.print_starting(world, ports, DemoPorts(*usual_ports))
        started = _RunningDemo(home, demo, messages)
        beside = [prometheus.program(files, scraped, ports)] if prometheus else []
        try:
            async with (
                running((*beside, *chosen(files, world, world_name, ports)), started.report),
                connect(target(ports.master, None, None)) as master,
            ):
                document = await _until_ready(master, started, clock)
                started.is_up = True
                messages.print_ready(document, clock() - began)
                if not once:
                    messages.print_suggestions(world, started.demo)
                    await _follow(master, messages)
        except asyncio.CancelledError:
            return Exit.OK if started.is_up else Exit.INTERRUPTED
        finally:
            messages.print_ended()
    return Exit.OK


@contextmanager
def _ports(
    usual: tuple[int, int, int], scraped: Sequence[str], *, jobs: bool, is_watched: bool
) -> Iterator[DemoPorts]:
    """The ports of the demo; that of a Prometheus too, and of the workers that it reads."""
    own = (0, 0, PROMETHEUS_PORT if is_watched else 0, *(0 for _ in scraped))
    with claimed_ports((*usual, *own)) as claimed:
        api, reports, manager, kubernetes, admission, prometheus, *workers = claimed
        yield DemoPorts(
            *(api, reports, manager),
            kubernetes=kubernetes if jobs else 0,
            admission=admission,
            prometheus=prometheus,
            workers=tuple(workers),
        )


async def _until_ready(
    master: MasterClient, started: _RunningDemo, clock: Callable[[], float]
) -> TopologyDocument:
    """Return the first tree in which all nodes are Ready and in a group; raises `CliError`."""
    limit_s = _TIMEOUT_S + _EACH_S * len(started.demo.nodes)
    deadline = clock() + limit_s
    newest: TopologyDocument | None = None
    while (asked_s := clock()) < deadline:
        if started.hopeless is not None:
            raise _not_up(f"{started.hopeless.program.name} {started.hopeless.how}")
        try:
            newest = await master.topology()
        except CliError:
            words = f"{len(started.demo.pids)} processes run, the master is not there yet"
        else:
            is_ready, words = _seen(newest, len(started.demo.nodes))
            if is_ready:
                return newest
        started.messages.update_progress(words)
        now_s = clock()
        rest_s = max(_LOOK_S, _REST * (now_s - asked_s))
        await asyncio.sleep(min(rest_s, max(0.0, deadline - now_s)))
    if newest is not None:
        started.messages.print_tree(newest)
    raise _not_up(f"no Ready tree after {limit_s:.0f} s")


def _seen(document: TopologyDocument, nodes: int) -> tuple[bool, str]:
    """Return whether all of the nodes are Ready and in their groups, and how far they are in words.

    Workers see dragonflies before the cluster manager has told of the switchboxes above them.
    """
    groups, unplaced = document["groups"], len(document["unplaced"])
    whole = all(group["status"] == _READY for group in groups)
    ready = sum(group["capacity"]["ready"] for group in groups) if whole else 0
    known = sum(group["capacity"]["nodes"] for group in groups) + unplaced
    words = f"the master answers, {known} of {nodes} nodes known, {ready} Ready"
    answered = all(source["state"] == "ok" for source in document["sources"])
    return ready == nodes and not unplaced and answered, words


def _not_up(what: str) -> CliError:
    fix = "what is printed above says more; is another process in the way?"
    return CliError(Exit.FINDING, Refusal(f"the demo did not come up: {what}", "topo demo", fix))


async def _follow(master: MasterClient, messages: Messages) -> None:
    lost = False
    async for event in follow(master, retry_s=_RETRY_S):
        if isinstance(event, MasterLost):
            if not lost:
                messages.print_lost(event.refusal)
            lost = True
        elif isinstance(event, Connected):
            if lost:
                messages.print_found(event.generation)
            lost = False
        else:
            messages.print_changes(event["changes"])
