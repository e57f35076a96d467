# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""The commands that show what a master knows: the tree, a node, its GPUs, findings."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from topo.cli.completion import node_names
from topo.cli.exit_codes import CliError, Exit
from topo.cli.options import (
    FabricName,
    GroupName,
    MasterOptions,
    Output,
    OutputFormat,
    path_segment,
    takes_options,
)

if TYPE_CHECKING:
    from rich.text import Text

    from topo.cli.client.client import MasterClient
    from topo.cli.diagnosis.checkup import Checkup
    from topo.cli.watch.display import View

NodeName = Annotated[
    str, typer.Argument(metavar="NODE", help="The node's name.", autocompletion=node_names)
]


@takes_options
def tree(
    *,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Stay, and show every change as it comes.")
    ] = False,
    group: GroupName = None,
    depth: Annotated[
        int | None, typer.Option(min=0, help="Levels of children to show; 0 shows roots only.")
    ] = None,
    fabric: FabricName = None,
    problems: Annotated[
        bool, typer.Option("--problems", help="Only what is not as it should be.")
    ] = False,
    output: OutputFormat = Output.TABLE,
    options: MasterOptions,
) -> None:
    """Show the tree of groups and nodes, with statuses and reasons."""
    from topo.cli.client import connection
    from topo.cli.client.client import TOPOLOGY_PATH
    from topo.cli.client.decoding import decode
    from topo.cli.render import tree as picture
    from topo.cli.watch.problems import only_problems
    from topo.model.rest.topology import TopologyDocument

    def view(raw: Any) -> tuple[Any, "Text"]:
        known = decode(TopologyDocument, raw)
        if problems and (known["groups"] or known["unplaced"]):
            return only_problems(raw), picture.ALL_READY
        return raw, picture.NO_NODES

    query: dict[str, str | int | None] = {"group": group, "depth": depth, "fabric": fabric}
    if watch:
        _watch(options, query, output, view)
        return
    raw, empty = view(connection.document(options, TOPOLOGY_PATH, **query))
    connection.print_document(
        raw,
        output,
        lambda glyphs: picture.render_topology(decode(TopologyDocument, raw), glyphs, empty),
    )


def _watch(
    options: MasterOptions, query: dict[str, str | int | None], output: Output, view: "View"
) -> None:
    """Follows the master until Ctrl-C, which is how a watch ends and no failure."""
    from topo.cli.client import connection, watch
    from topo.cli.watch import display as displays

    async def conversation(client: "MasterClient") -> None:
        with displays.display(output, view) as display:
            await watch.watch(client, query, display)

    with suppress(KeyboardInterrupt):
        to = connection.target_to_read(options)
        connection.ask(to, conversation, on_waiting=lambda: None)  # the screen says how old it is


@takes_options
def node(name: NodeName, *, output: OutputFormat = Output.TABLE, options: MasterOptions) -> None:
    """Show one node: GPUs, link matrix, ports, servers at the other end, probes, reasons."""
    from topo.cli.client import connection
    from topo.cli.client.client import TOPOLOGY_PATH
    from topo.cli.client.decoding import decode
    from topo.cli.render import node as picture
    from topo.model.rest.topology import TopologyDocument

    raw = connection.document(options, TOPOLOGY_PATH, node=name)
    connection.print_document(
        raw, output, lambda glyphs: picture.render_node(decode(TopologyDocument, raw), name, glyphs)
    )


@takes_options
def gpus(
    name: NodeName,
    *,
    count: Annotated[
        int | None, typer.Option("-n", "--gpus", min=1, help="How many GPUs to choose.")
    ] = None,
    free: Annotated[
        str | None,
        typer.Option(metavar="0,1,2", help="GPUs not in use. Default: all that are healthy."),
    ] = None,
    rails: Annotated[
        str | None,
        typer.Option(metavar="0,1,2", help="Rails of the job's GPUs on other nodes."),
    ] = None,
    output: OutputFormat = Output.TABLE,
    options: MasterOptions,
) -> None:
    """Show the links between a node's GPUs, how good sets of them are, and which to take."""
    from topo.cli.client import connection
    from topo.cli.client.decoding import decode
    from topo.cli.render import gpus as picture
    from topo.model.rest.gpus import GpusDocument

    path = f"/v1/nodes/{path_segment(name, 'name of a node', '`topo tree` lists them')}/gpus"
    raw = connection.document(options, path, n=count, free=free, rails=rails)
    document = decode(GpusDocument, raw)
    connection.print_document(raw, output, lambda glyphs: picture.render_gpus(document, glyphs))
    if document["choice"] is not None and not document["choice"]["fits"]:
        raise typer.Exit(Exit.NO_FIT)


@takes_options
def doctor(
    *,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Look into this cluster, too: pods, roles, the lease, HyperNodes. The master "
            "itself is then asked where --master names it.",
        ),
    ] = None,
    in_cluster: Annotated[
        bool, typer.Option("--in-cluster", help="The same by the service account of this pod.")
    ] = False,
    namespace: Annotated[
        str,
        typer.Option("--namespace", "-n", help="Of the master. Default: where there is one."),
    ] = "",
    output: OutputFormat = Output.TABLE,
    options: MasterOptions,
) -> None:
    """List the problems of the master, its sources, workers and wiring, with the next steps."""
    from topo.cli.client import cluster, connection
    from topo.cli.diagnosis import checkup
    from topo.cli.render import findings

    def of_master() -> "Checkup":
        return connection.ask(connection.target_to_read(options), checkup.examine)

    if kubeconfig is None and not in_cluster:
        result = of_master()
    else:
        result = checkup.of_cluster(cluster.inspect(kubeconfig, namespace))
        if in_cluster or options.master is not None:
            try:
                of_api = of_master()
            except CliError as error:
                of_api = checkup.unreachable(error)
            result = checkup.merge(result, of_api)
        else:
            result = checkup.merge(result, checkup.NOT_ASKED)
    connection.print_document(
        {
            "wrong": result.is_wrong,
            "findings": [each.document for each in result.findings],
            "healthy": result.healthy,
        },
        output,
        lambda glyphs: findings.render_findings(result.findings, result.healthy, glyphs),
    )
    if result.is_wrong:
        raise typer.Exit(Exit.FINDING)


@takes_options
def fragmentation(*, output: OutputFormat = Output.TABLE, options: MasterOptions) -> None:
    """Show how broken up the free GPUs are, and the largest job that fits now."""
    from topo.cli.client import connection
    from topo.cli.render import fragmentation as picture
    from topo.model.rest.fragmentation import FragmentationDocument

    raw = connection.document(options, "/v1/fragmentation")
    connection.print_answer(raw, output, FragmentationDocument, picture.render_fragmentation)
