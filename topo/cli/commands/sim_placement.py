# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo sim place`: one job on a seeded cluster, our plan beside what other schedulers choose."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from topo.cli.commands.place import PlaceMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from topo.cli.render.shapes.rows import Rows
    from topo.sim.streams.comparison import StreamOutcome


class ClusterShape(StrEnum):
    """Nodes of a whole domain; with two sizes each domain draws one."""

    TWO = "2"
    EIGHT = "8"
    EIGHT_OR_SIXTEEN = "8+16"
    FORTY_EIGHT = "48"


def place(  # noqa: PLR0913 - a parameter per option
    *,
    nodes: Annotated[int, typer.Option(min=1, max=100_000, help="Nodes of the cluster.")] = 10_000,
    shape: Annotated[
        ClusterShape, typer.Option(help="Nodes of a whole domain.")
    ] = ClusterShape.EIGHT,
    load: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of the GPUs that is booked.")
    ] = 0.6,
    pods: Annotated[int, typer.Option(metavar="N", help="Pods of the job.")] = 16,
    gpus: Annotated[int, typer.Option(metavar="G", help="GPUs of each pod.")] = 8,
    group_size: Annotated[
        int | None, typer.Option(metavar="GPUS", help="GPUs of one group; 0: the job is one group.")
    ] = 64,
    mode: Annotated[
        PlaceMode, typer.Option(help="required: no group is split; preferred: as few as possible.")
    ] = PlaceMode.REQUIRED,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, another cluster.")] = 1,
) -> None:
    """Place one job on a simulated cluster: our plan beside what other schedulers choose."""
    from topo.cli.client.option_names import in_options
    from topo.cli.render import terminal
    from topo.model.errors import BadInputError
    from topo.placement.job.request import PlacementMode, Request
    from topo.sim.streams.comparison import compare
    from topo.sim.worlds.clusters import cluster

    request = Request(
        pods=pods, gpus_per_pod=gpus, group_size=group_size or None, mode=PlacementMode(str(mode))
    )
    try:
        found = compare(cluster(nodes, str(shape), load, seed), request)
    except BadInputError as error:
        raise BadInputError(in_options(error.refusal, "topo sim place")) from None
    console = terminal.out()
    groups = f" in groups of {group_size}" if group_size else ""
    console.print(
        f"{_counted(nodes, 'node')} in domains of {shape}, {load:.0%} booked, seed {seed}: "
        f"{_counted(pods, 'pod')} of {_counted(gpus, 'GPU')}{groups}"
    )
    console.print(_table(found.outcomes))
    if why := found.outcomes[0].why:
        console.print(f"{found.outcomes[0].policy}: {why}")
    console.print(
        "time: the quickest of five calls; others' is that of our re-implementation, "
        f"without counting all nodes ({found.counting_us / 1000:,.1f} ms)",
        style="dim",
    )


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _table(found: "Sequence[StreamOutcome]") -> "Rows":
    from rich.text import Text

    from topo.cli.render.shapes.rows import Column, table

    rows = []
    for row, each in enumerate(found):
        objective = each.objective
        cells = ["no place", "", "", ""]
        if objective is not None:
            numbers = (
                objective.split_groups,
                objective.span[0],
                objective.span[-1],
                objective.whole_groups_left,
            )
            cells = [f"{number:,}" for number in numbers]
        style = "bold" if row == 0 else ""
        texts = (each.policy, *cells, f"{each.took_us:,.0f} µs")
        rows.append([Text(text, style=style) for text in texts])
    counted = ("split groups", "top groups", "tier-1 groups", "whole groups left", "time")
    return table("policy", *(Column(title, right=True) for title in counted), rows=rows)
