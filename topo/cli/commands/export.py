# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo export`: the fabric in the formats of others: graphs, files, objects of schedulers."""

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from topo.cli.exit_codes import Exit, usage
from topo.cli.options import FabricName, GroupName, MasterOptions, takes_options

if TYPE_CHECKING:
    from topo.cli.forest_files import ForestFile
    from topo.model.forest import Forest
    from topo.model.ids import FabricName as Fabric
    from topo.model.rest.topology import TopologyDocument

GRAPH_PATH = "/v1/topology/graph"
_TREE_PATH = "/v1/topology"
_STANDARD_OUTPUT = Path("-")


class ExportFormat(StrEnum):
    """How the fabric is written: the first three as a graph."""

    NODE_LINK = "node-link"
    GRAPHML = "graphml"
    DOT = "dot"
    SLURM_TREE = "slurm-tree"
    SLURM_BLOCK = "slurm-block"
    SLURM_YAML = "slurm-yaml"
    NFD = "nfd"
    KUEUE = "kueue"
    KAI = "kai"
    KOORDINATOR = "koordinator"
    EXCLUDED_HOSTS = "excluded-hosts"
    EXCLUDED_HOSTLIST = "excluded-hostlist"


OF_SCHEDULERS = (ExportFormat.KUEUE, ExportFormat.KAI, ExportFormat.KOORDINATOR)
GRAPHS = (ExportFormat.NODE_LINK, ExportFormat.GRAPHML, ExportFormat.DOT)
OF_ONE_FABRIC = (
    *GRAPHS,
    ExportFormat.SLURM_TREE,
    ExportFormat.SLURM_BLOCK,
    ExportFormat.KOORDINATOR,
)
"""Formats with one topology: that of the tree, or of the fabric that is named. The others have all
fabrics, each under its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphOptions:
    """What of the fabric a graph has."""

    group: GroupName = None
    devices: Annotated[
        bool,
        typer.Option("--devices", help="GPUs and NICs as vertices, with their links. Graphs only."),
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeOptions:
    """What of the tree Slurm's files and NFD's objects have."""

    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="Blocks, or labels, of groups of this kind; may be repeated. No graphs.",
        ),
    ] = None
    block_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65536,
            metavar="NODES",
            help="The smallest of Slurm's BlockSizes. Default: as many nodes as most blocks have.",
        ),
    ] = None
    forget: Annotated[
        bool,
        typer.Option(
            "--forget",
            help="Drop names that only the earlier file has: no node of Slurm's has one.",
        ),
    ] = False
    domain: Annotated[
        str,
        typer.Option(
            metavar="DOMAIN", help="What labels begin with: the master's --domain. Objects only."
        ),
    ] = "metax-tech.com"
    namespace: Annotated[str, typer.Option(metavar="NAME", help="Where NFD's objects go.")] = (
        "node-feature-discovery"
    )


@takes_options
def export(
    *,
    export_format: Annotated[
        ExportFormat,
        typer.Option(
            "--format",
            "-f",
            help="node-link for networkx and d3, graphml for Gephi and yEd, dot for Graphviz; "
            "slurm-tree, slurm-block (topology.conf), slurm-yaml (topology.yaml); nfd for objects "
            "of Node Feature Discovery; kueue, kai, koordinator for their topologies; "
            "excluded-hosts, excluded-hostlist: nodes that cannot be trusted, a line each or for "
            "Slurm's --exclude.",
        ),
    ] = ExportFormat.NODE_LINK,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where to; `-` is the standard output."
        ),
    ] = _STANDARD_OUTPUT,
    exit_code: Annotated[
        bool,
        typer.Option("--exit-code", help="End with 6 where the file was changed. No graphs."),
    ] = False,
    fabric: FabricName = None,
    graph: GraphOptions,
    tree: TreeOptions,
    options: MasterOptions,
) -> None:
    """Write the fabric as a graph: groups, nodes, GPUs, NICs, and the wires between nodes; or as
    topology files of Slurm, as objects of Node Feature Discovery, Kueue, KAI or Koordinator, or
    only the nodes that a launcher should leave out.
    """
    is_unwanted = fabric is not None and export_format not in OF_ONE_FABRIC
    _refuse_given(is_unwanted, "formats of one topology", export_format)
    if export_format in GRAPHS:
        _refuse_given(tree != TreeOptions() or exit_code, "files and objects", export_format)
        _export_graph(export_format, graph, output, options, fabric=fabric)
        return
    _refuse_given(graph != GraphOptions(), "graphs", export_format)
    from topo.cli.forest_files import put

    where = None if output == _STANDARD_OUTPUT else output
    changed = put(_forest_file(export_format, tree, where, options, fabric=fabric), where)
    if where is not None:
        print(f"topo: {'written' if changed else 'unchanged'}: {where}", file=sys.stderr)
        if changed and exit_code:
            raise typer.Exit(Exit.CHANGED)


def _refuse_given(is_given: bool, whose: str, export_format: ExportFormat) -> None:  # noqa: FBT001
    if is_given:
        what = f"an option that only {whose} have"
        raise usage(what, f"--format {export_format}", "`topo export --help` says which take it")


def _forest_file(
    export_format: ExportFormat,
    tree: TreeOptions,
    output: Path | None,
    options: MasterOptions,
    *,
    fabric: str | None,
) -> "ForestFile":
    from topo.cli import forest_files
    from topo.cli.client import connection
    from topo.cli.client.decoding import decode
    from topo.model.rest.topology import TopologyDocument

    document = decode(TopologyDocument, connection.document(options, _TREE_PATH))
    if export_format in (ExportFormat.EXCLUDED_HOSTS, ExportFormat.EXCLUDED_HOSTLIST):
        _refuse_given(tree != TreeOptions(), "trees and objects", export_format)
        as_hostlist = export_format is ExportFormat.EXCLUDED_HOSTLIST
        return forest_files.excluded_hosts(document, as_hostlist=as_hostlist)
    forests = _forests(document, export_format, options, fabric)
    made = _made(forests, export_format, tree, output)
    names = [each["fabric"] for each in document["fabrics"]]
    if fabric is None and names and export_format in OF_ONE_FABRIC:
        made = made.remarked(
            f"it is {names[0]}, the tree; --fabric {names[1]} writes the other fabric"
        )
    return made


def _forests(
    document: "TopologyDocument",
    export_format: ExportFormat,
    options: MasterOptions,
    fabric: str | None,
) -> "tuple[Forest, dict[Fabric, Forest]]":
    """Return the forest to write and, for formats that take them, those of the other fabrics."""
    from topo.cli.client import connection
    from topo.cli.client.decoding import decode
    from topo.cli.forest_document import forest_of
    from topo.model.forest import Forest
    from topo.model.ids import FabricName as Fabric
    from topo.model.rest.topology import TopologyDocument

    def forest_in(name: str) -> Forest:
        shown = connection.document(options, _TREE_PATH, fabric=name)
        return forest_of(decode(TopologyDocument, shown))

    others = [Fabric(each["fabric"]) for each in document["fabrics"]][1:]
    if fabric is None:
        has_all = export_format not in OF_ONE_FABRIC or export_format is ExportFormat.SLURM_BLOCK
        return forest_of(document), {name: forest_in(name) for name in others if has_all}
    if export_format in OF_SCHEDULERS and fabric in others:
        return Forest(), {Fabric(fabric): forest_in(fabric)}
    return forest_in(fabric), {}


def _made(
    forests: "tuple[Forest, dict[Fabric, Forest]]",
    export_format: ExportFormat,
    tree: TreeOptions,
    output: Path | None,
) -> "ForestFile":
    """Return the file of a format."""
    from topo.cli import forest_files
    from topo.model.ids import Kind
    from topo.publish.slurm.document import SlurmChoice, SlurmFormat

    (forest, beside), kinds = forests, tree.kind or []
    if export_format is ExportFormat.NFD:
        objects_of = forest_files.node_feature_objects
        return objects_of(forest, beside, tree.domain, kinds, namespace=tree.namespace)
    if export_format in OF_SCHEDULERS:
        topologies_of = forest_files.topology_objects
        return topologies_of(forest, beside, tree.domain, kinds, scheduler=export_format)
    choice = SlurmChoice(
        format=SlurmFormat(export_format.value),
        kinds=tuple(map(Kind, kinds)),
        base=tree.block_size,
        is_forgetful=tree.forget,
    )
    return forest_files.slurm(forest, choice, output, beside)


def _export_graph(
    export_format: ExportFormat,
    graph: GraphOptions,
    output: Path,
    options: MasterOptions,
    *,
    fabric: str | None,
) -> None:
    from topo.cli.client import connection
    from topo.cli.render.safe import plain

    query = {
        "format": export_format.value,
        "group": graph.group,
        "fabric": fabric,
        "devices": "vertices" if graph.devices else None,
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
