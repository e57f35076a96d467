# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo diff`: what moved between two generations, and why."""

from typing import TYPE_CHECKING, Annotated

import typer

from topo.cli.options import CaFile, MasterUrl, Output, OutputFormat, TokenFile

if TYPE_CHECKING:
    from topo.cli.client import Master
    from topo.cli.documents import DiffDoc
    from topo.cli.terminal import Glyphs


def diff(
    *,
    since: Annotated[
        int | None,
        typer.Option("--from", min=0, metavar="GENERATION", help="Default: the one before --to."),
    ] = None,
    until: Annotated[
        int | None,
        typer.Option("--to", min=0, metavar="GENERATION", help="Default: the current one."),
    ] = None,
    output: OutputFormat = Output.TABLE,
    master: MasterUrl = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Show what changed between two generations; without options, the last change."""
    from rich.console import Group
    from rich.text import Text

    from topo.cli import connection
    from topo.cli.render import changes

    async def question(asked: "Master") -> "DiffDoc":
        end = (await asked.topology(depth=0))["generation"] if until is None else until
        return await asked.diff(max(end - 1, 0) if since is None else since, end)

    to = connection.chosen(master, token_file, ca_file)
    document = connection.ask(to, question)
    if output is not Output.TABLE:
        print(connection.dumped(document, output), end="")
        return
    title = Text(f"generation {document['from']} to {document['to']}", style="bold")
    moved = document["changes"]

    def picture(glyphs: "Glyphs") -> Group:
        nothing = Text("nothing changed", style="dim")
        return Group(title, changes.listed(moved, glyphs) if moved else nothing)

    connection.draw(picture)
