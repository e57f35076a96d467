# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo gates`: opens the scheduling gates of pods that wait for a plan."""

from typing import TYPE_CHECKING, Annotated

import typer

from topo.cli.options import MasterOptions, takes_options
from topo.cli.render.safe import plain

if TYPE_CHECKING:
    from topo.cli.client.client import MasterClient

app = typer.Typer(no_args_is_help=True, help="The scheduling gates of pods that wait for a plan.")


@app.callback()
def gates() -> None:
    """The scheduling gates of pods that wait for a plan."""


@app.command("open")
@takes_options
def open_(
    name: Annotated[
        str | None, typer.Argument(metavar="JOB|POD", help="Whose gates, as `topo why` takes it.")
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Of all jobs; in place of a name.")] = False,
    options: MasterOptions,
) -> None:
    """Open the gates of a job's pods without a plan: its scheduler places them alone."""
    from topo.cli.client import connection, gangs
    from topo.cli.exit_codes import usage

    if (name is None) != every:
        raise usage("one job, or all", "JOB|POD", "name a job, or give --all")

    async def conversation(client: "MasterClient") -> list[str]:
        return await gangs.open_gates(client, name)

    opened = connection.ask(connection.target_to_change(options), conversation)
    for each in opened:
        print(f"the gates of {plain(each)} are opened")
    if not opened:
        print("no pod waits behind a gate")
