# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo gpus`: which GPUs of one node to take."""

from typing import Annotated

import typer

from topo.cli.completing import node_names
from topo.cli.exits import Exit
from topo.cli.options import CaFile, MasterUrl, Output, OutputFormat, TokenFile, path_segment


def gpus(
    name: Annotated[
        str,
        typer.Argument(metavar="NODE", help="The node's name.", autocompletion=node_names),
    ],
    *,
    count: Annotated[
        int | None, typer.Option("-n", "--gpus", min=1, help="How many GPUs to choose.")
    ] = None,
    free: Annotated[
        str | None,
        typer.Option(metavar="0,1,2", help="GPUs not in use. Default: all that are healthy."),
    ] = None,
    output: OutputFormat = Output.TABLE,
    master: MasterUrl = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Show the links between a node's GPUs, what n of them are worth, and which to take."""
    from topo.cli.client import connection
    from topo.cli.client.reading import read
    from topo.cli.render import gpus as picture
    from topo.model.rest.gpus import GpusDocument

    query = {"n": count, "free": free}
    given = {key: value for key, value in query.items() if value is not None}
    path = f"/v1/nodes/{path_segment(name, 'name of a node', '`topo tree` lists them')}/gpus"
    to = connection.chosen(master, token_file, ca_file)
    raw = connection.ask(to, lambda client: client.document(path, **given))
    document = read(GpusDocument, raw)
    connection.show(raw, output, lambda glyphs: picture.page(document, glyphs))
    if document.choice is not None and not document.choice.fits:
        raise typer.Exit(Exit.NO_FIT)
