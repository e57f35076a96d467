# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo sim stream`: the same stream of jobs under every policy, as a table, CSV and a picture."""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from topo.cli.options import takes_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from topo.cli.render.shapes.rows import Rows
    from topo.placement.capacity.capacity import Capacity
    from topo.sim.streams.figures import Figures
    from topo.sim.streams.jobs import StreamJob
    from topo.sim.streams.stream import Stream

MAX_NODES = 20_000
_SIZE = re.compile(r"(\d{1,4})x(\d{1,4})x(\d{1,4})", re.ASCII)


class Mix(StrEnum):
    """Where the sizes of the jobs come from."""

    LLM = "llm"
    LLM_TAILS = "llm-tails"
    PHILLY_X8 = "philly-x8"
    UNEVEN = "uneven"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """The cluster that all streams run on."""

    size: Annotated[
        str,
        typer.Option(
            "--cluster",
            metavar="TOPSxDOMAINSxNODES|MACHINE",
            help="An even cluster, or one of real machines, such as cm384-48x8.",
        ),
    ] = "10x16x8"
    map_file: Annotated[
        Path | None,
        typer.Option(
            "--map",
            metavar="FILE",
            help="Instead a real one: CSV, a node a line, then its groups from the top down.",
        ),
    ] = None

    def capacity(self) -> "tuple[Capacity, str]":
        """The cluster, and what it is called."""
        from topo.cli.exit_codes import usage
        from topo.sim.worlds.maps import MACHINES, capacity_of, grid, read_map

        if self.map_file is not None:
            hosts = read_map(self.map_file)
            return capacity_of(hosts), f"{self.map_file.name}, {len(hosts):,} nodes"
        if self.size in MACHINES:
            hosts = MACHINES[self.size]()
            return capacity_of(hosts), f"{self.size}, {len(hosts):,} nodes"
        found = _SIZE.fullmatch(self.size)
        tops, domains, nodes = (int(n) for n in found.groups()) if found else (0, 0, 0)
        if not 1 <= tops * domains * nodes <= MAX_NODES:
            fix = f"up to {MAX_NODES:,} nodes, such as 10x16x8; or one of {', '.join(MACHINES)}"
            raise usage(f"{self.size!r} is not a size of a cluster", "--cluster", fix)
        return capacity_of(grid(tops, domains, nodes)), f"{self.size} nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsOptions:
    """The jobs of the streams, and how many streams there are."""

    mix: Annotated[
        Mix,
        typer.Option(
            help="Sizes of the jobs; llm-tails: a job in fifty has a tail; uneven: many have."
        ),
    ] = Mix.LLM
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Instead the sizes of an openb pod list (CSV)."),
    ] = None
    jobs: Annotated[int, typer.Option(min=1, max=100_000, help="Jobs of a stream.")] = 1000
    load: Annotated[
        float, typer.Option(min=0.05, max=2.0, help="GPUs that jobs ask for over GPUs there are.")
    ] = 1.0
    seeds: Annotated[int, typer.Option(min=1, max=100, help="Streams; figures are means.")] = 1

    def streams(self, gpus: int) -> "list[tuple[StreamJob, ...]]":
        """The streams, on a cluster of so many GPUs."""
        from topo.sim.streams.jobs import MIXES, Flow, draw_jobs, read_pod_gpus, replay_sizes

        flow = Flow(jobs=self.jobs, load=self.load, capacity_gpus=gpus)
        seeds = range(1, self.seeds + 1)
        if self.trace is None:
            return [draw_jobs(MIXES[str(self.mix)], flow, seed) for seed in seeds]
        sizes = read_pod_gpus(self.trace)
        return [replay_sizes(sizes, flow, seed) for seed in seeds]

    def title(self, where: str) -> str:
        """What runs where, in a line."""
        from topo.cli.render.safe import plain

        what = plain(self.trace.name) if self.trace else str(self.mix)
        jobs = f"{self.seeds} x {self.jobs:,} jobs of {what}"
        return f"{plain(where)}, {jobs}, load {self.load:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesOptions:
    """The files that the figures are written to."""

    trade_off: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.svg",
            help="Draw over-span against integrity; ours also with extra domains.",
        ),
    ] = None
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the figures of every stream.")
    ] = None
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Draw the means as a picture.")
    ] = None

    def write(self, found: "Mapping[str, Sequence[Figures]]", title: str) -> None:
        """Write those that are asked for."""
        from topo.cli import sim_files

        if self.csv is not None:
            sim_files.write(self.csv, sim_files.as_csv(found))
        if self.plot is not None:
            sim_files.write(self.plot, sim_files.as_svg(found, title))
        if self.trade_off is not None:
            sim_files.write(self.trade_off, sim_files.as_trade_off(found, title))


@takes_options
def stream(
    *,
    cluster: ClusterOptions,
    jobs: JobsOptions,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this policy; repeatable. Default: all."),
    ] = None,
    reservation: Annotated[
        bool,
        typer.Option(
            "--reservation", help="The first big job that waits has nodes reserved in all policies."
        ),
    ] = False,
    files: FilesOptions,
) -> None:
    """Run the same streams of jobs under every policy and compare."""
    from topo.cli.render import terminal
    from topo.sim.streams.reservation import ReservingStream
    from topo.sim.streams.stream import EXTRA_DOMAINS, POLICIES, Stream

    capacity, where = cluster.capacity()
    streams = jobs.streams(max(1, sum(host.gpus for host in capacity.hosts())))
    policies = policy or (*POLICIES, *(EXTRA_DOMAINS if files.trade_off else ()))
    queue = ReservingStream if reservation else Stream
    found = _run(capacity, streams, tuple(dict.fromkeys(policies)), queue)
    title = jobs.title(where) + (", the first big job reserved" if reservation else "")
    console = terminal.out()
    console.print(title)
    console.print(_table(found))
    files.write(found, title)


def _run(
    capacity: "Capacity",
    streams: "list[tuple[StreamJob, ...]]",
    policies: tuple[str, ...],
    queue: "type[Stream]",
) -> "Mapping[str, Sequence[Figures]]":
    """The figures by policy, one for each stream; progress goes to standard error."""
    from rich.progress import Progress

    from topo.cli.render import terminal
    from topo.sim.streams.stream import run

    console = terminal.err()
    found: dict[str, list[Figures]] = {policy: [] for policy in policies}
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        for policy in policies:
            task = progress.add_task(policy, total=sum(len(jobs) for jobs in streams))
            for number, jobs in enumerate(streams, start=1):
                tick = lambda started, task=task: progress.advance(task, started)  # noqa: E731
                found[policy].append(run(capacity, jobs, policy, tick, queue=queue))
                progress.update(task, completed=number * len(jobs))
    return found


def _table(found: "Mapping[str, Sequence[Figures]]") -> "Rows":
    from rich.text import Text

    from topo.cli.render.shapes.rows import Column, table
    from topo.cli.sim_files import COLUMNS
    from topo.sim.streams.figures import average

    rows = []
    for policy, figures in found.items():
        mean = average(figures)
        cells = (policy, *(f"{getattr(mean, name):,.1f}" for name in COLUMNS), str(mean.stuck))
        style = "bold" if policy.startswith("topo") else ""
        rows.append([Text(cell, style=style) for cell in cells])
    titles = (*COLUMNS.values(), "never placed")
    return table("policy", *(Column(title, right=True) for title in titles), rows=rows)
