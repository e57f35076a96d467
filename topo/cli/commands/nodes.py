# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo nodes`: all nodes as a flat list, or those that one asks for."""

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import typer

from topo.cli.completion import group_names, node_names
from topo.cli.exit_codes import CliError, Exit
from topo.cli.options import MasterOptions, Output, takes_options
from topo.cli.render.safe import plain
from topo.model.errors import Refusal
from topo.model.forest import Status
from topo.model.nearest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from topo.cli.node_list import NodeRow


class NodesOutput(StrEnum):
    """How the list is written."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    NAME = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterOptions:
    """Which nodes are listed: those that fit all that is given."""

    status: Annotated[
        Status | None, typer.Option(case_sensitive=False, help="Only those that are so.")
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

    def fits(self, node: "NodeRow") -> bool:
        """Return whether the node fits all that is given."""
        return (
            (self.status is None or node["status"] == self.status)
            and (self.gpu_type is None or node["gpu_type"] == self.gpu_type)
            and (self.free is None or node["free_gpus"] >= self.free)
            and (self.held is None or (node["held_gpus"] > 0) == self.held)
            and (self.cordoned is None or node["cordoned"] == self.cordoned)
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
    known = node_list.listed(document, unplaced=group is None)
    _check_names(names or (), known)
    if filters.gpu_type is not None:
        _check_gpu_type(filters.gpu_type, known)
    found = [node for node in known if filters.fits(node) and _is_named(node, names or ("*",))]
    _show(found, document["generation"], output)


def _check_names(names: "Sequence[str]", known: "Sequence[NodeRow]") -> None:
    """Raise `CliError` where a name without a wildcard is that of no node."""
    there = {node["name"] for node in known}
    for name in names:
        if not set(name) & set("*?[") and name not in there:
            fix = did_you_mean(name, there, "`topo nodes -o name` lists them")
            raise CliError(Exit.REFUSED, Refusal(f"there is no node {plain(name)!r}", "NODE", fix))


def _check_gpu_type(gpu_type: str, known: "Sequence[NodeRow]") -> None:
    """Raise `CliError` where no node has GPUs of this type."""
    there = sorted({node["gpu_type"] for node in known if node["gpu_type"]})
    if gpu_type not in there:
        types = f"there are {', '.join(map(plain, there))}" if there else "no node states its type"
        what = f"no node has GPUs of the type {plain(gpu_type)!r}"
        fix = did_you_mean(gpu_type, there, types)
        raise CliError(Exit.REFUSED, Refusal(what, "--gpu-type", fix))


def _is_named(node: "NodeRow", patterns: "Iterable[str]") -> bool:
    return any(fnmatchcase(node["name"], pattern) for pattern in patterns)


def _show(found: "list[NodeRow]", generation: int, output: NodesOutput) -> None:
    from topo.cli import node_list
    from topo.cli.client import connection
    from topo.cli.render import nodes as picture
    from topo.cli.render.safe import escaped

    if output is NodesOutput.CSV:
        print(escaped(node_list.as_csv(found)), end="")
    elif output is NodesOutput.NAME:
        for node in found:
            print(plain(node["name"]))
    else:
        raw = node_list.as_document(generation, found)
        connection.print_document(
            raw, Output(output), lambda glyphs: picture.render_nodes(found, glyphs)
        )
