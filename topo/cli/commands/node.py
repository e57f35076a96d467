# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo node`: one node from the inside."""

from typing import Annotated

import typer

from topo.cli.completing import node_names
from topo.cli.options import CaFile, MasterUrl, Output, OutputFormat, TokenFile


def node(
    name: Annotated[
        str,
        typer.Argument(metavar="NODE", help="The node's name.", autocompletion=node_names),
    ],
    *,
    output: OutputFormat = Output.TABLE,
    master: MasterUrl = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Show one node: GPUs, link matrix, ports, servers at the other end, probes, reasons."""
    from topo.cli.client import connection
    from topo.cli.client.client import TOPOLOGY_PATH
    from topo.cli.render import node as picture

    to = connection.chosen(master, token_file, ca_file)
    if output is Output.TABLE:
        document = connection.ask(to, lambda client: client.topology(node=name))
        connection.draw(lambda glyphs: picture.page(document, name, glyphs))
    else:
        raw = connection.ask(to, lambda client: client.document(TOPOLOGY_PATH, node=name))
        print(connection.dumped(raw, output), end="")
