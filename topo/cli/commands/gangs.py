# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo gangs` and `topo why`: the jobs whose pods go together, where each stands, and why."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from topo.cli.options import MasterOptions, Output, OutputFormat, takes_options

if TYPE_CHECKING:
    from rich.console import RenderableType

    from topo.cli.client.client import MasterClient
    from topo.cli.render.terminal import Glyphs
    from topo.model.rest.topology import GroupDocument


@takes_options
def gangs(
    *,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Only of this one.")
    ] = None,
    output: OutputFormat = Output.TABLE,
    options: MasterOptions,
) -> None:
    """List the jobs whose pods start together; those that wait, in the order of the queue."""
    from topo.cli.client import connection
    from topo.cli.client.gangs import fetch_gangs
    from topo.cli.render import gangs as picture
    from topo.model.rest.gangs import GangsDocument

    raw = connection.ask(
        connection.target_to_read(options), lambda master: fetch_gangs(master, namespace=namespace)
    )
    connection.print_answer(raw, output, GangsDocument, picture.render_gangs)


@takes_options
def why(
    name: Annotated[
        str, typer.Argument(metavar="JOB|POD", help="Its name, or namespace/name where it is not.")
    ],
    *,
    history: Annotated[
        bool, typer.Option("--history", help="Its last 20 changes of state instead of its nodes.")
    ] = False,
    output: OutputFormat = Output.TABLE,
    options: MasterOptions,
) -> None:
    """Explain why a job's pods are where they are, or why it waits and what would admit it."""
    from topo.cli.client import connection, gangs, placements
    from topo.cli.client.decoding import decode
    from topo.cli.render import gangs as picture
    from topo.model.rest.gangs import GangDocument

    async def conversation(client: "MasterClient") -> tuple[Any, "list[GroupDocument]"]:
        raw = await gangs.fetch_gang(client, name)
        if output is not Output.TABLE or history:
            return raw, []
        return raw, await placements.roots(client, decode(GangDocument, raw)["groups"])

    raw, roots = connection.ask(connection.target_to_read(options), conversation)

    def drawn(glyphs: "Glyphs") -> "RenderableType":
        gang = decode(GangDocument, raw)
        return (
            picture.render_history(gang, glyphs)
            if history
            else picture.render_gang(gang, roots, glyphs)
        )

    connection.print_document(raw, output, drawn)
