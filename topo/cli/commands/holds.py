# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo holds`: placements that are reserved, and what becomes of them."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from topo.cli.options import MasterOptions, Output, OutputFormat, path_segment, takes_options
from topo.cli.render.safe import plain

if TYPE_CHECKING:
    from topo.cli.client.client import MasterClient
    from topo.model.rest.topology import GroupDocument

app = typer.Typer(
    invoke_without_command=True,
    help="List reserved placements; show, commit or release one.",
)
HoldId = Annotated[str, typer.Argument(metavar="ID", help="The hold, as `topo holds` lists it.")]


@app.callback()
@takes_options
def holds(
    context: typer.Context, *, output: OutputFormat = Output.TABLE, options: MasterOptions
) -> None:
    """List the placements that are reserved."""
    if context.invoked_subcommand is not None:
        return
    from topo.cli.client import connection
    from topo.cli.render import holds as picture
    from topo.model.rest.placements import HoldsDocument

    raw = connection.document(options, "/v1/holds")
    connection.print_answer(raw, output, HoldsDocument, picture.render_holds)


@app.command()
@takes_options
def show(hold: HoldId, *, output: OutputFormat = Output.TABLE, options: MasterOptions) -> None:
    """Show one hold with its nodes inside the tree."""
    from topo.cli.client import connection, placements
    from topo.cli.client.decoding import decode
    from topo.cli.render import holds as picture
    from topo.model.rest.placements import HoldDocument

    async def conversation(client: "MasterClient") -> tuple[Any, "list[GroupDocument]"]:
        raw = await client.document(_path(hold))
        if output is not Output.TABLE:
            return raw, []
        return raw, await placements.roots(client, decode(HoldDocument, raw)["groups"])

    raw, roots = connection.ask(connection.target_to_read(options), conversation)
    connection.print_document(
        raw, output, lambda glyphs: picture.render_hold(decode(HoldDocument, raw), roots, glyphs)
    )


@app.command()
@takes_options
def commit(hold: HoldId, *, options: MasterOptions) -> None:
    """Keep a hold without a time limit: its job has started."""
    from topo.cli.client import connection

    to = connection.target_to_change(options)
    connection.ask(to, lambda client: client.send("POST", f"{_path(hold)}/commit"))
    print(f"{plain(hold)} is committed; `topo holds release` gives its nodes back")


@app.command()
@takes_options
def release(hold: HoldId, *, options: MasterOptions) -> None:
    """Give the nodes of a hold back."""
    from topo.cli.client import connection

    to = connection.target_to_change(options)
    connection.ask(to, lambda client: client.send("DELETE", _path(hold)))
    print(f"{plain(hold)} is released")


def _path(hold: str) -> str:
    return f"/v1/holds/{path_segment(hold, 'hold', '`topo holds` lists them')}"
