# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo wiring`: compares a plan of cables with the actual cables."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from topo.cli.exit_codes import Exit
from topo.cli.options import MasterOptions, takes_options

if TYPE_CHECKING:
    from topo.diagnosis.wiring.document import Compared

app = typer.Typer(no_args_is_help=True, help="Compare a plan of cables with the actual cables.")


@app.callback()
def wiring() -> None:
    """Compare a plan of cables with the actual cables."""


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
        Path | None,
        typer.Argument(
            metavar="[PLAN]",
            help="CSV with a_node,a_port,z_node,z_port; CSV of UFM CVT or NetBox; DOT; .topo; or "
            "an ibnetdiscover or UFM's links of a good day. Default: what the master says of its "
            "--wiring-plan.",
        ),
    ] = None,
    *,
    seen: Annotated[
        list[Path] | None,
        typer.Option(
            "--seen",
            metavar="FILE",
            help="An ibnetdiscover or UFM's links of now; repeated, one for each subnet. Default: "
            "the wires between nodes that the master sees.",
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
    """Compare a plan of cables with the actual cables; exit code 1 where they differ."""
    from topo.cli.client import connection
    from topo.cli.options import Output
    from topo.cli.render.safe import escaped
    from topo.cli.wiring import writing
    from topo.diagnosis.wiring.document import wiring_document

    found = _compared(plan, seen or (), options, cost=cost)
    if output is WiringOutput.TABLE:
        print(escaped(writing.as_text(found)), end="")
    elif output is WiringOutput.CSV:
        print(escaped(writing.as_csv(found)), end="")
    else:
        print(connection.serialize(wiring_document(found), Output(output.value)), end="")
    if found.comparison.findings:
        raise typer.Exit(Exit.FINDING)


def _compared(
    plan: Path | None, seen: Sequence[Path], options: MasterOptions, *, cost: bool
) -> "Compared":
    """Return the comparison with a plan, or the one that the master holds."""
    from topo.cli.client import connection
    from topo.cli.client.decoding import decode
    from topo.cli.exit_codes import CliError
    from topo.cli.wiring import reading
    from topo.cli.wiring.costs import fetch_jobs
    from topo.diagnosis.wiring.compare import compare
    from topo.diagnosis.wiring.document import Compared, compared
    from topo.diagnosis.wiring.tree import costs_of, seen_by
    from topo.model.errors import Refusal
    from topo.model.rest.findings import WiringDocument
    from topo.model.rest.topology import TopologyDocument

    if plan is None:
        if seen:
            fix = "give the file of the plan, too"
            raise CliError(Exit.USAGE, Refusal("dumps without a plan", "--seen", fix))
        held = compared(decode(WiringDocument, connection.document(options, "/v1/wiring")))
        return held if cost else held._replace(cost_of=None)
    planned = reading.plan_in(plan)
    there = reading.seen_in(seen) if seen else None
    costs = None
    if there is None or cost:
        document = decode(TopologyDocument, connection.document(options, "/v1/topology"))
        there = there or seen_by(document, planned)
        if cost:
            jobs = connection.ask(connection.target_to_read(options), fetch_jobs)
            costs = costs_of(document, jobs, there)
    found = reading.or_error(compare(planned, there), plan)
    return Compared(
        found, (*found.unjoined, *planned.notes, *there.notes), None if costs is None else costs.of
    )
