# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo wiring`: the plan of the cables beside the cables that are there."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from topo.cli.exit_codes import Exit
from topo.cli.options import MasterOptions, takes_options

app = typer.Typer(no_args_is_help=True, help="The plan of the cables beside those that are there.")


@app.callback()
def wiring() -> None:
    """The plan of the cables beside those that are there."""


class WiringOutput(StrEnum):
    """How the findings are written."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"


@app.command()
@takes_options
def check(
    plan: Annotated[
        Path,
        typer.Argument(
            metavar="PLAN",
            help="CSV with a_node,a_port,z_node,z_port; CSV of UFM CVT or NetBox; DOT; .topo; or "
            "an ibnetdiscover of a good day.",
        ),
    ],
    *,
    seen: Annotated[
        list[Path] | None,
        typer.Option(
            "--seen",
            metavar="FILE",
            help="An ibnetdiscover of now; repeated, one for each subnet. Default: the wires "
            "between nodes that the master sees.",
        ),
    ] = None,
    output: Annotated[
        WiringOutput,
        typer.Option("--output", "-o", help="table to print; csv has a line for each cable."),
    ] = WiringOutput.TABLE,
    cost: Annotated[
        bool,
        typer.Option(
            "--cost", help="Ask the master for what each costs: groups, GPUs, the jobs across it."
        ),
    ] = False,
    options: MasterOptions,
) -> None:
    """Compare a plan of cables with the cables that are there; exit code 1 where they differ."""
    from topo.cli.client import connection
    from topo.cli.client.decoding import decode
    from topo.cli.options import Output
    from topo.cli.render.safe import escaped
    from topo.cli.wiring import reading, writing
    from topo.cli.wiring.costs import costs_of, fetch_jobs
    from topo.diagnosis.wiring.compare import compare
    from topo.model.rest.topology import TopologyDocument

    planned = reading.plan_in(plan)
    there = reading.seen_in(seen) if seen else None
    costs = None
    if there is None or cost:
        document = decode(TopologyDocument, connection.document(options, "/v1/topology"))
        there = there or reading.seen_by(document)
        if cost:
            jobs = connection.ask(connection.target_to_read(options), fetch_jobs)
            costs = costs_of(document, jobs)
    found = reading.or_error(compare(planned, there), plan)
    if output is WiringOutput.TABLE:
        print(escaped(writing.as_text(found, planned.notes, costs)), end="")
    elif output is WiringOutput.CSV:
        print(escaped(writing.as_csv(found, costs)), end="")
    else:
        made = writing.as_document(found, planned.notes, costs)
        print(connection.serialize(made, Output(output.value)), end="")
    if found.findings:
        raise typer.Exit(Exit.FINDING)
