# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo export`: the fabric as a graph, in a format that other tools open."""

import sys
from enum import StrEnum
from typing import Annotated

import typer

from topo.cli.options import GroupName, MasterOptions, takes_options

GRAPH_PATH = "/v1/topology/graph"


class GraphFormat(StrEnum):
    """How a graph is written."""

    NODE_LINK = "node-link"
    GRAPHML = "graphml"
    DOT = "dot"


@takes_options
def export(
    *,
    graph_format: Annotated[
        GraphFormat,
        typer.Option(
            "--format",
            "-f",
            help="node-link for networkx and d3, graphml for Gephi and yEd, dot for Graphviz.",
        ),
    ] = GraphFormat.NODE_LINK,
    group: GroupName = None,
    devices: Annotated[
        bool, typer.Option("--devices", help="GPUs and NICs as vertices, with their links.")
    ] = False,
    options: MasterOptions,
) -> None:
    """Write the fabric as a graph: groups, nodes, GPUs, NICs, and the wires between nodes."""
    from topo.cli.client import connection
    from topo.cli.render.safe import plain

    query = {
        "format": graph_format.value,
        "group": group,
        "devices": "vertices" if devices else None,
    }
    to = connection.target_to_read(options)
    body = connection.ask(to, lambda master: master.content(GRAPH_PATH, **query))
    if sys.stdout.isatty():
        print("\n".join(map(plain, body.decode("utf-8", "replace").splitlines())))
    else:
        sys.stdout.buffer.write(body)
