# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo export`: the fabric as a graph, in a format that other tools open."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from topo.cli.exit_codes import usage
from topo.cli.options import GroupName, MasterOptions, takes_options

GRAPH_PATH = "/v1/topology/graph"
_STANDARD_OUTPUT = Path("-")


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
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where to; `-` is the standard output."
        ),
    ] = _STANDARD_OUTPUT,
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
    if output != _STANDARD_OUTPUT:
        _write(output, body)
    elif sys.stdout.isatty():
        print("\n".join(map(plain, body.decode("utf-8", "replace").splitlines())))
    else:
        sys.stdout.buffer.write(body)


def _write(path: Path, body: bytes) -> None:
    """Write to a file, a pipe or a device, as a shell's `>` would. Raises `CliError`."""
    try:
        path.write_bytes(body)
    except OSError as error:
        why = error.strerror or str(error)
        fix = "name a file in a folder that you can write to"
        raise usage(f"the file is not written: {why}", f"--output {path}", fix) from None
