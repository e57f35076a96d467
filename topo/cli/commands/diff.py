# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo diff`: what moved between two generations, and why."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from topo.cli.options import CaFile, MasterUrl, Output, OutputFormat, TokenFile
from topo.model.rest.generation_id import GenerationId

if TYPE_CHECKING:
    from topo.cli.client.client import Master
    from topo.cli.render.terminal import Glyphs


def _generation(text: str) -> GenerationId:
    found = GenerationId.read(text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no generation; write one such as 7 or 7.5e0c21af")
    return found


def diff(
    *,
    since: Annotated[
        GenerationId | None,
        typer.Option(
            "--from", parser=_generation, metavar="GENERATION", help="Default: the one before --to."
        ),
    ] = None,
    until: Annotated[
        GenerationId | None,
        typer.Option(
            "--to", parser=_generation, metavar="GENERATION", help="Default: the current one."
        ),
    ] = None,
    output: OutputFormat = Output.TABLE,
    master: MasterUrl = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Show what changed between two generations; without options, the last change."""
    from rich.console import Group, RenderableType
    from rich.text import Text

    from topo.cli.client import connection
    from topo.cli.client.client import DIFF_PATH
    from topo.cli.client.reading import read
    from topo.cli.render import changes
    from topo.model.rest.changes import DiffDocument

    async def conversation(client: "Master") -> Any:
        end = until
        if end is None:
            now = await client.topology(depth=0)
            end = GenerationId(now.generation, now.run)
        query = {"from": str(since or end.previous), "to": str(end)}
        return await client.document(DIFF_PATH, **query)

    to = connection.chosen(master, token_file, ca_file)
    raw = connection.ask(to, conversation)
    document = read(DiffDocument, raw)

    def picture(glyphs: "Glyphs") -> RenderableType:
        title = Text(f"generation {document.start} to {document.end}", style="bold")
        nothing = Text("nothing changed", style="dim")
        moved = document.changes
        return Group(title, changes.listed(moved, glyphs) if moved else nothing)

    connection.show(raw, output, picture)
