# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo sim replay`: what a master recorded about bookings, gone through again."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from topo.cli.exit_codes import CliError, Exit, usage
from topo.model.errors import Refusal

if TYPE_CHECKING:
    from topo.cli.render.shapes.rows import Rows
    from topo.placement.booking.log import Replay

_SHOWN = 10
"""Holds that are named for which the engine would choose other groups."""


class ReplayOutput(StrEnum):
    """How the resulting bookings are written."""

    TABLE = "table"
    JSON = "json"


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Written with --booking-log.")],
    *,
    output: Annotated[
        ReplayOutput, typer.Option("--output", "-o", help="json: all that is known of bookings.")
    ] = ReplayOutput.TABLE,
) -> None:
    """Go through a master's booking log; exit code 1 at the first step that differs."""
    from topo.cli.render import terminal
    from topo.cli.render.safe import plain
    from topo.placement.booking.log import replay as replayed
    from topo.placement.booking.log import state_json

    try:
        with file.open("rb") as lines:
            found = replayed(lines)
    except OSError as error:
        raise usage(error.strerror or str(error), str(file), "name a booking log") from None
    if isinstance(found, Refusal):
        raise usage(found.what, f"{file}, {found.where}", found.fix)
    if output is ReplayOutput.JSON:
        print(state_json(found.bookings.state()).decode())
    else:
        console = terminal.out()
        console.print(_table(found))
        console.print(_summary(found), style="dim")
    for choice in found.other_choices[:_SHOWN]:
        terminal.err().print(f"the engine would choose otherwise: {plain(choice)}")
    if found.difference:
        fix = "look at that line: this version decides otherwise, or something was lost"
        refusal = Refusal("the replay differs from the record", found.difference, fix)
        raise CliError(Exit.FINDING, refusal)


def _summary(found: "Replay") -> str:
    others = len(found.other_choices)
    return f"{found.steps} steps replayed; {others} holds would get other groups today"


def _table(found: "Replay") -> "Rows":
    """A row for each hold and each pod: what it takes and where."""
    from topo.cli.render.shapes.rows import Column, table

    state, bookings = found.bookings.state(), found.bookings
    rows: list[tuple[str | int | None, ...]] = []
    for hold in state.holds:
        gpus, waits = sum(hold.gpus.values()), sum(bookings.awaited(hold.id).values())
        nodes = f"{len(hold.gpus)} nodes" if len(hold.gpus) > 1 else "".join(hold.gpus)
        rows.append((hold.id, str(hold.state), gpus, waits, nodes))
    for seen in state.pods:
        pod = seen.pod
        rows.append((f"{pod.namespace}/{pod.name}", str(seen.phase), pod.gpus, None, pod.node))
    numbers = Column("GPUs", right=True), Column("waits for", right=True)
    return table("hold or pod", "state", *numbers, "on", rows=rows)
