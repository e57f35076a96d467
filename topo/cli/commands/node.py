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
    from topo.cli.client.reading import read
    from topo.cli.render import node as picture
    from topo.model.rest.topology import TopologyDocument

    to = connection.chosen(master, token_file, ca_file)
    raw = connection.ask(to, lambda client: client.document(TOPOLOGY_PATH, node=name))
    connection.show(
        raw, output, lambda glyphs: picture.page(read(TopologyDocument, raw), name, glyphs)
    )
