# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo place`: which whole groups a job should get, and why."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from topo.cli.exit_codes import Exit
from topo.cli.options import MasterOptions, Output, takes_options

if TYPE_CHECKING:
    from topo.cli.client.client import MasterClient, Target
    from topo.model.rest.placements import FitsDocument, NoFitDocument
    from topo.model.rest.topology import GroupDocument

    _Answer = tuple[Any, FitsDocument | NoFitDocument, list[GroupDocument]]


class PlaceMode(StrEnum):
    """Whether a group of pods may be split when it does not fit in one group of the tree."""

    REQUIRED = "required"
    PREFERRED = "preferred"


class JobUsage(StrEnum):
    """What a job is; a pool of nodes may be meant for the one or the other."""

    TRAINING = "training"
    INFERENCE = "inference"


class PlaceOutput(StrEnum):
    """The picture, the document, or the names alone."""

    TREE = "tree"
    JSON = "json"
    YAML = "yaml"
    NODES = "nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The job that is to be placed."""

    pods: Annotated[int, typer.Option(metavar="N", help="Pods of the job.")]
    gpus: Annotated[int, typer.Option(metavar="G", help="GPUs of each pod.")]
    group_size: Annotated[
        int | None,
        typer.Option(metavar="GPUS", help="GPUs of one group. Default: the job is one group."),
    ] = None
    mode: Annotated[
        PlaceMode, typer.Option(help="required: no group is split; preferred: as few as possible.")
    ] = PlaceMode.REQUIRED
    within: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="All of the job in one group of this kind."),
    ] = None
    gpu_type: Annotated[
        str | None, typer.Option(metavar="TYPE", help="Only nodes with GPUs of this type.")
    ] = None
    selector: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Only nodes with this label; repeatable."),
    ] = None
    toleration: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY[=VALUE][:EFFECT]", help="A taint to put up with; repeatable."),
    ] = None
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="NODE", help="Not this node; repeatable.")
    ] = None
    usage: Annotated[
        JobUsage | None,
        typer.Option(help="What the job is: nodes that are for the other are out."),
    ] = None

    def body(self) -> dict[str, Any]:
        """These fields of a request."""
        from topo.cli.client import placements

        return placements.body(
            pods=self.pods,
            gpus_per_pod=self.gpus,
            group_size=self.group_size,
            mode=str(self.mode),
            within=self.within,
            gpu_type=self.gpu_type,
            selector=placements.selector(self.selector or []),
            tolerations=placements.tolerations(self.toleration or []),
            exclude=self.exclude,
            usage=None if self.usage is None else str(self.usage),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumeOptions:
    """What if nodes were otherwise."""

    assume_free: Annotated[
        list[str] | None,
        typer.Option(metavar="NODE", help="What if this node were open and empty; repeatable."),
    ] = None
    assume_down: Annotated[
        list[str] | None, typer.Option(metavar="NODE", help="What if it were down; repeatable.")
    ] = None
    assume_drain: Annotated[
        list[str] | None, typer.Option(metavar="NODE", help="What if it were cordoned; repeatable.")
    ] = None

    def body(self) -> dict[str, Any]:
        """What a request assumes; empty: the nodes as they are."""
        from topo.cli.client import placements

        return placements.body(
            free=self.assume_free, down=self.assume_down, drain=self.assume_drain
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldOptions:
    """How the nodes are reserved, if they are."""

    hold: Annotated[
        str | None, typer.Option(metavar="TIME", help="Reserve the nodes for so long, such as 10m.")
    ] = None
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="With --hold: asked again with this key, the same hold."),
    ] = None
    namespace: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --hold: the namespace whose pods may take shares."),
    ] = None

    def body(self) -> dict[str, Any]:
        """These fields of a request."""
        from topo.cli.client import placements

        hold_s = placements.hold_s(self.hold)
        return placements.body(hold_s=hold_s, key=self.key, namespace=self.namespace)


@takes_options
def place(
    *,
    job: JobOptions,
    reservation: HoldOptions,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say for every objective what was refused and why.")
    ] = False,
    assume: AssumeOptions,
    output: Annotated[
        PlaceOutput,
        typer.Option("--output", "-o", help="nodes: a name per pod in rank order, a hostfile."),
    ] = PlaceOutput.TREE,
    options: MasterOptions,
) -> None:
    """Find the whole groups that a job should get; exit code 5 when it does not fit now."""
    from topo.cli.client import connection, placements

    asked = placements.body(assume=assume.body(), explain=explain or None)
    request = job.body() | reservation.body() | asked
    reads = reservation.hold is None
    find = connection.target_to_read if reads else connection.target_to_change
    raw, document, roots = _place(find(options), request, output)
    if output is PlaceOutput.NODES:
        _print_nodes(document, request)
    else:
        _show((raw, document, roots), request, output, explain=explain)
    if not document["feasible"]:
        raise typer.Exit(Exit.NO_FIT)


def _place(to: "Target", request: dict[str, Any], output: PlaceOutput) -> "_Answer":
    """The answer as it came and as it was read, and for a picture the top groups around it."""
    from topo.cli.client import connection, placements

    async def conversation(client: "MasterClient") -> "_Answer":
        raw = await client.send("POST", placements.PLACEMENTS_PATH, request)
        document = placements.read_placement(raw)
        if output is not PlaceOutput.TREE:
            return raw, document, []
        placed = document["groups"] if document["feasible"] else ()
        return raw, document, await placements.roots(client, placed)

    return connection.ask(to, conversation)


def _show(
    answer: "_Answer", request: dict[str, Any], output: PlaceOutput, *, explain: bool
) -> None:
    """The picture, or the document as it came."""
    from topo.cli.client import connection
    from topo.cli.render import placement

    raw, document, roots = answer
    connection.print_document(
        raw,
        Output.TABLE if output is PlaceOutput.TREE else Output(output),
        lambda glyphs: placement.render_placement(
            document, request, roots, glyphs, explain=explain
        ),
    )


def _print_nodes(document: "FitsDocument | NoFitDocument", request: dict[str, Any]) -> None:
    """Names to standard output and nothing else; a refusal or a hold goes to standard error."""
    from topo.cli.client import placements
    from topo.cli.render import placement, terminal
    from topo.cli.render.safe import plain

    console = terminal.err()
    glyphs = terminal.glyphs(console)
    if not document["feasible"]:
        console.print(placement.render_placement(document, request, [], glyphs, explain=False))
        return
    for name in placements.hostfile(document["groups"]):
        print(plain(name))
    if document["hold"]:
        console.print(placement.render_hold(document["hold"], glyphs))
