# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo tree`: the forest, once or for as long as somebody watches."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from topo.cli.completing import group_names
from topo.cli.options import CaFile, MasterUrl, Output, OutputFormat, TokenFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from topo.cli.client.client import Target


def tree(
    *,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Stay, and show every change as it comes.")
    ] = False,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Only this group: its name, or its path with `/`.",
            autocompletion=group_names,
        ),
    ] = None,
    depth: Annotated[
        int | None, typer.Option(min=0, help="Levels of children to show; 0 shows roots only.")
    ] = None,
    output: OutputFormat = Output.TABLE,
    master: MasterUrl = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Show the tree of groups and nodes, its status and the why."""
    from topo.cli.client import connection
    from topo.cli.client.client import TOPOLOGY_PATH
    from topo.cli.client.reading import read
    from topo.cli.render import tree as picture
    from topo.model.rest.topology import TopologyDocument

    to = connection.chosen(master, token_file, ca_file)
    query: dict[str, str | int] = {} if group is None else {"group": group}
    if depth is not None:
        query["depth"] = depth
    if watch:
        _watch(to, query, output)
        return
    raw = connection.ask(to, lambda client: client.document(TOPOLOGY_PATH, **query))
    connection.show(
        raw, output, lambda glyphs: picture.topology(read(TopologyDocument, raw), glyphs)
    )


def _watch(to: "Target", query: "Mapping[str, str | int]", output: Output) -> None:
    """Ctrl-C is how a watch ends, so it is no failure."""
    from topo.cli.client import connection, following
    from topo.cli.render import watch_display

    with suppress(KeyboardInterrupt), watch_display.display(output) as display:
        connection.run(following.watch(to, query, display))
