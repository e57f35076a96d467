# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo nodes`: all nodes as a flat list, or those that one asks for."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from topo.cli.completion import group_names, node_names
from topo.cli.options import MasterOptions, Output, takes_options

if TYPE_CHECKING:
    from topo.cli.node_list import NodeFilter, NodeRow


class NodesOutput(StrEnum):
    """How the list is written."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    NAME = "name"


class StatusWord(StrEnum):
    """The two words of the tree."""

    READY = "Ready"
    NOT_READY = "NotReady"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterOptions:
    """Which nodes are listed, beside their names."""

    status: Annotated[
        StatusWord | None, typer.Option(case_sensitive=False, help="Only those that are so.")
    ] = None
    gpu_type: Annotated[
        str | None, typer.Option(metavar="TYPE", help="Only those with GPUs of this type.")
    ] = None
    free: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Only those with so many free GPUs or more."),
    ] = None
    held: Annotated[
        bool | None, typer.Option("--held/--not-held", help="Only those that holds keep, or not.")
    ] = None
    cordoned: Annotated[
        bool | None, typer.Option("--cordoned/--not-cordoned", help="Only those that are so.")
    ] = None

    def wanted(self, names: Sequence[str]) -> "NodeFilter":
        """These, of nodes that one of the patterns fits."""
        from topo.cli.node_list import NodeFilter

        return NodeFilter(
            names=tuple(names),
            status=None if self.status is None else str(self.status),
            gpu_type=self.gpu_type,
            free=self.free,
            held=self.held,
            cordoned=self.cordoned,
        )


@takes_options
def nodes(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NODE]...",
            help="Only these; `*` and `?` stand for any characters. Default: all.",
            autocompletion=node_names,
        ),
    ] = None,
    *,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Only those in this group: its name, or its path with `/`.",
            autocompletion=group_names,
        ),
    ] = None,
    filters: FilterOptions,
    output: Annotated[
        NodesOutput,
        typer.Option(
            "--output",
            "-o",
            metavar="FORMAT",
            help="table for people; json, yaml, csv or name for programs.",
        ),
    ] = NodesOutput.TABLE,
    options: MasterOptions,
) -> None:
    """List the nodes: group, status, GPUs, since when, and why."""
    from topo.cli import node_list
    from topo.cli.client import connection
    from topo.cli.client.client import TOPOLOGY_PATH
    from topo.cli.client.decoding import decode
    from topo.model.rest.topology import TopologyDocument

    document = decode(TopologyDocument, connection.document(options, TOPOLOGY_PATH, group=group))
    wanted = filters.wanted(names or ())
    found = [n for n in node_list.listed(document, unplaced=group is None) if wanted.has(n)]
    _show(found, document["generation"], output)


def _show(found: "list[NodeRow]", generation: int, output: NodesOutput) -> None:
    from topo.cli import node_list
    from topo.cli.client import connection
    from topo.cli.render import nodes as picture
    from topo.cli.render.safe import escaped, plain

    if output is NodesOutput.CSV:
        print(escaped(node_list.as_csv(found)), end="")
    elif output is NodesOutput.NAME:
        for node in found:
            print(plain(node.name))
    else:
        raw = node_list.as_document(generation, found)
        connection.print_document(
            raw, Output(output), lambda glyphs: picture.render_nodes(found, glyphs)
        )
