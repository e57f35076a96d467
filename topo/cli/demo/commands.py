# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo demo` and what one does to a running demo from another terminal."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from topo.cli.demo import job_commands
from topo.cli.options import MasterOptions, Output, OutputFormat

if TYPE_CHECKING:
    from topo.cli.client.client import MasterClient

app = typer.Typer(
    invoke_without_command=True,
    help="A simulated cluster of real processes on this machine; cut its cables, heal it.",
)
for command in (job_commands.submit, job_commands.jobs, job_commands.finish):
    app.command()(command)
NodeName = Annotated[
    str | None, typer.Argument(metavar="NODE", help="A node of the demo.", show_default=False)
]


@app.callback()
def demo(
    context: typer.Context,
    *,
    world: Annotated[
        str,
        typer.Option(metavar="WORLD", help="A preset, or SWITCHBOXESxDRAGONFLIESxNODES[xGPUS]."),
    ] = "demo",
    once: Annotated[
        bool, typer.Option("--once", help="Start, print the tree, stop: for scripts.")
    ] = False,
    jobs: Annotated[
        bool, typer.Option("--jobs/--no-jobs", help="Also a simulated Kubernetes, for jobs.")
    ] = True,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="Also a Prometheus, for dashboards.")
    ] = False,
    alert_rules: Annotated[
        Path | None,
        typer.Option(metavar="FILE", exists=True, dir_okay=False, help="Alerting rules for it."),
    ] = None,
) -> None:
    """Run a simulated cluster: a cluster manager, workers, a master, until Ctrl-C."""
    if context.invoked_subcommand is not None:
        return
    import asyncio
    import os

    from topo.cli import worlds
    from topo.cli.demo import prometheus as beside
    from topo.cli.demo.lifecycle import run_demo
    from topo.cli.demo.messages import Messages
    from topo.cli.exit_codes import usage
    from topo.cli.render import terminal

    if not hasattr(os, "pidfd_open"):
        fix = "run it on Linux; `topo sim generate` and topo-worker --replay work anywhere"
        raise usage("the demo's processes are watched by means of Linux", "topo demo", fix)
    simulated = worlds.chosen(world)
    if alert_rules is not None and not prometheus:
        fix = "give --prometheus too: it is what judges by them"
        raise usage("alert rules without a Prometheus", "--alert-rules", fix)
    scraper = beside.found(alert_rules) if prometheus else None
    messages = Messages(terminal.out())
    code = asyncio.run(
        run_demo(simulated, world, messages, once=once, jobs=jobs, prometheus=scraper)
    )
    raise typer.Exit(code)


@app.command()
def cut(
    node: NodeName = None,
    *,
    slot: Annotated[
        int, typer.Option(min=1, metavar="SLOT", help="Which of its cables, from 1.")
    ] = 1,
) -> None:
    """Pull a cable between this node and its neighbour, at both ends."""
    from topo.cli.demo import faults

    for sentence in faults.cut(node, slot):
        print(sentence)


@app.command()
def fault(
    sentence: Annotated[
        str | None,
        typer.Argument(
            metavar="SENTENCE", help="Such as `gpu 2 of node-sample1 fails`.", show_default=False
        ),
    ] = None,
) -> None:
    """Start or end any fault of the simulation, given as a sentence."""
    from topo.cli.demo import faults

    print(faults.add(sentence))


async def _clear(nodes: Iterable[str], client: "MasterClient") -> None:
    for node in nodes:
        await client.send("POST", f"/v1/nodes/{node}/clear", {})


@app.command()
def heal() -> None:
    """Repair everything, with new cables that are not suspected."""
    from topo.cli.client import connection
    from topo.cli.demo import faults
    from topo.cli.exit_codes import CliError

    healed = faults.heal()
    number = sum(healed.values())
    print(f"{number} healed" if number else "nothing was broken")
    to = connection.target_to_change(MasterOptions())
    try:
        connection.ask(to, partial(_clear, healed))
    except CliError as error:
        stays = f"what the master holds against the cables stays: {error.refusal.what}"
        typer.echo(stays, err=True)


@app.command()
def status(*, output: OutputFormat = Output.TABLE) -> None:
    """Show the running demo: its address, its processes, what is broken."""
    from topo.cli.client import connection
    from topo.cli.demo import faults, messages
    from topo.cli.demo_directory import required_demo

    running = required_demo()
    active = faults.active_sentences(running)
    document = {"master": running.master, "processes": running.pids, "faults": active}
    connection.print_document(
        document, output, lambda marks: messages.render_status(running, active, marks)
    )
