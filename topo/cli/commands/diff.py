# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo diff`: what moved between two generations, and why."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from topo.cli.options import CaFile, MasterUrl, Output, OutputFormat, TokenFile

if TYPE_CHECKING:
    from topo.cli.client.client import Master
    from topo.cli.client.documents import DiffDoc
    from topo.cli.render.terminal import Glyphs


def _point(text: str) -> str:
    from topo.cli.client.points import is_point

    if not is_point(text):
        raise typer.BadParameter(f"{text!r} is no generation; write one such as 7 or 7.5e0c21af")
    return text


def diff(
    *,
    since: Annotated[
        str | None,
        typer.Option(
            "--from", parser=_point, metavar="GENERATION", help="Default: the one before --to."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--to", parser=_point, metavar="GENERATION", help="Default: the current one."),
    ] = None,
    output: OutputFormat = Output.TABLE,
    master: MasterUrl = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Show what changed between two generations; without options, the last change."""
    from topo.cli.client import connection
    from topo.cli.client.client import DIFF_PATH, typed
    from topo.cli.client.documents import DIFF
    from topo.cli.client.points import before, point_of

    async def question(asked: "Master") -> Any:
        end = until or point_of(await asked.topology(depth=0))
        return await asked.document(DIFF_PATH, **{"from": since or before(end), "to": end})

    to = connection.chosen(master, token_file, ca_file)
    raw = connection.ask(to, question)
    document = typed(DIFF, raw)
    if output is Output.TABLE:
        _draw(document)
    else:
        print(connection.dumped(raw, output), end="")


def _draw(document: "DiffDoc") -> None:
    from rich.console import Group
    from rich.text import Text

    from topo.cli.client import connection
    from topo.cli.render import changes

    title = Text(f"generation {document['from']} to {document['to']}", style="bold")
    moved = document["changes"]

    def picture(glyphs: "Glyphs") -> Group:
        nothing = Text("nothing changed", style="dim")
        return Group(title, changes.listed(moved, glyphs) if moved else nothing)

    connection.draw(picture)
