# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo holds`: placements that are reserved, and what becomes of them."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from topo.cli.options import CaFile, MasterUrl, Output, OutputFormat, TokenFile, path_segment
from topo.cli.render.safe import plain

if TYPE_CHECKING:
    from topo.cli.client.client import Master
    from topo.model.rest.topology import GroupDocument

app = typer.Typer(
    invoke_without_command=True,
    help="Reserved placements: list them, look at one, commit it, release it.",
)
HoldId = Annotated[str, typer.Argument(metavar="ID", help="The hold, as `topo holds` lists it.")]


@app.callback()
def holds(
    context: typer.Context,
    *,
    output: OutputFormat = Output.TABLE,
    master: MasterUrl = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """List the placements that are reserved."""
    if context.invoked_subcommand is not None:
        return
    from topo.cli.client import connection
    from topo.cli.client.reading import read
    from topo.cli.render import holds as picture
    from topo.model.rest.holds import HoldsDocument

    to = connection.chosen(master, token_file, ca_file)
    raw = connection.ask(to, lambda client: client.document("/v1/holds"))
    connection.show(
        raw, output, lambda glyphs: picture.listed(read(HoldsDocument, raw).holds, glyphs)
    )


@app.command()
def show(
    hold: HoldId,
    *,
    output: OutputFormat = Output.TABLE,
    master: MasterUrl = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Show one hold with its nodes inside the tree."""
    from topo.cli.client import connection, placements
    from topo.cli.client.reading import read
    from topo.cli.render import holds as picture
    from topo.model.rest.holds import HoldDocument

    async def conversation(client: "Master") -> tuple[Any, "list[GroupDocument]"]:
        raw = await client.document(_path(hold))
        if output is not Output.TABLE:
            return raw, []
        return raw, await placements.roots(client, read(HoldDocument, raw).groups)

    raw, roots = connection.ask(connection.chosen(master, token_file, ca_file), conversation)
    connection.show(
        raw, output, lambda glyphs: picture.page(read(HoldDocument, raw), roots, glyphs)
    )


@app.command()
def commit(
    hold: HoldId,
    *,
    master: MasterUrl = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Keep a hold without a time limit: its job has started."""
    from topo.cli.client import connection

    to = connection.trusted(master, token_file, ca_file)
    connection.ask(to, lambda client: client.send("POST", f"{_path(hold)}/commit"))
    print(f"{plain(hold)} is committed; `topo holds release` gives its nodes back")


@app.command()
def release(
    hold: HoldId,
    *,
    master: MasterUrl = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Give the nodes of a hold back."""
    from topo.cli.client import connection

    to = connection.trusted(master, token_file, ca_file)
    connection.ask(to, lambda client: client.send("DELETE", _path(hold)))
    print(f"{plain(hold)} is released")


def _path(hold: str) -> str:
    return f"/v1/holds/{path_segment(hold, 'hold', '`topo holds` lists them')}"
