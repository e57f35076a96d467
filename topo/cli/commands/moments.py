# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""The commands that show what was: what differs between two moments, and which are kept."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from topo.cli.options import MasterOptions, Output, OutputFormat, takes_options
from topo.model.rest.generation_id import GenerationId
from topo.model.rest.moment_id import EXAMPLES, MomentId

if TYPE_CHECKING:
    from rich.console import RenderableType

    from topo.cli.client.client import MasterClient
    from topo.cli.render.terminal import Glyphs


def _moment(text: str) -> str:
    if MomentId.read(text) is None:
        raise typer.BadParameter(f"{text!r} is not a moment; write {EXAMPLES}")
    return text


@takes_options
def diff(
    since: Annotated[
        str | None,
        typer.Argument(
            parser=_moment,
            metavar="[FROM]",
            help="10m (ago), a time such as 2026-11-22T14:02:11Z, or a generation. Default: the "
            "generation before the current one.",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Argument(parser=_moment, metavar="[TO]", help="Default: now.")
    ] = None,
    *,
    output: OutputFormat = Output.TABLE,
    options: MasterOptions,
) -> None:
    """Show what changed between two moments; without arguments, the last change."""
    from rich.console import Group
    from rich.text import Text

    from topo.cli.client import connection
    from topo.cli.client.client import DIFF_PATH
    from topo.cli.client.decoding import decode
    from topo.cli.render import changes
    from topo.model.rest.changes import DiffDocument

    async def conversation(client: "MasterClient") -> Any:
        if since is not None:
            return await client.document(DIFF_PATH, **{"from": since, "to": until})
        now = await client.topology(depth=0)
        end = GenerationId(now["generation"], now["run"])
        return await client.document(DIFF_PATH, **{"from": str(end.previous), "to": str(end)})

    raw = connection.ask(connection.target_to_read(options), conversation)
    document = decode(DiffDocument, raw)

    def picture(glyphs: "Glyphs") -> "RenderableType":
        nothing = Text("nothing changed", style="dim")
        moved = document["changes"]
        return Group(
            changes.render_title(document),
            changes.render_changes(moved, glyphs) if moved else nothing,
        )

    connection.print_document(raw, output, picture)


@takes_options
def history(
    *,
    since: Annotated[
        str | None,
        typer.Option("--from", parser=_moment, metavar="MOMENT", help="Default: the oldest."),
    ] = None,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", "-n", min=1, max=1000, help="Rows; neighbours are put together in fewer."
        ),
    ] = 40,
    output: OutputFormat = Output.TABLE,
    options: MasterOptions,
) -> None:
    """Show the moments of the tree that the master keeps, and how much changed at each."""
    from topo.cli.client import connection
    from topo.cli.client.client import HISTORY_PATH
    from topo.cli.render import changes
    from topo.model.rest.history import HistoryDocument

    query: dict[str, str | int | None] = {"from": since, "limit": limit}
    raw = connection.document(options, HISTORY_PATH, **query)
    connection.print_answer(raw, output, HistoryDocument, changes.render_moments)
