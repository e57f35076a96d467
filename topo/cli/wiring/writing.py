"""The findings about cables as a sheet to print, and as a line for each cable."""

import csv
import io
from collections.abc import Iterator, Sequence
from textwrap import wrap

from topo.diagnosis.wiring.compare import CableFinding, CableState, CableVerdict
from topo.diagnosis.wiring.cost import CableCost
from topo.diagnosis.wiring.document import Compared
from topo.diagnosis.wiring.report import (
    STEPS,
    CableLine,
    Location,
    lines,
    places,
    say_move,
)
from topo.model.words import counted

WIDTH = 80
_VERDICT_WIDTH = 12
_SHOWN = 5
_COST_COLUMNS = ("groups_not_ready", "gpus_out", "jobs_across", "jobs_waiting")


def as_text(compared: Compared) -> str:
    """Return the findings by place, no line longer than a sheet of paper is wide."""
    comparison, notes, cost_of, _ = compared
    found = compared.counts
    told = [f"{count} {verdict}" for verdict, count in found.items()]
    planned = counted(comparison.planned, "planned cable")
    head = f"{planned}: {comparison.right} connected as planned"
    text = _wrapped(", ".join([head, *told]), "")
    text += [line for note in notes for line in _wrapped(f"note: {note}", "")]
    for place in places(comparison.findings):
        text += ["", *_wrapped(_heading(place), "")]
        for finding in place.findings:
            text += _finding(finding)
            if cost_of is not None and (cost := cost_of(finding)):
                text += _wrapped(_say_cost(cost), f"  {'':<{_VERDICT_WIDTH}}costs ")
    steps = [f"{verdict}: {step}" for verdict in found if (step := STEPS.get(verdict))]
    text += ["" for _ in steps[:1]]
    text += [line for step in steps for line in _wrapped(step, "")]
    return "".join(f"{line}\n" for line in text)


def _heading(place: Location) -> str:
    cables = counted(place.cables, "cable")
    if not place.moves:
        return f"{place.name}: {cables}"
    moves = f"{place.moves} move{'s mend' if place.moves != 1 else ' mends'}"
    return f"{place.name}: {cables}, {moves} {place.mended}"


def _finding(finding: CableFinding) -> Iterator[str]:
    for cable in finding.cables:
        said = _cable(finding, cable)
        said += f" [{cable.plan.label}]" if cable.plan is not None and cable.plan.label else ""
        yield from _wrapped(said, f"  {finding.verdict:<{_VERDICT_WIDTH}}")
    for move in finding.moves:
        yield from _wrapped(say_move(move), f"  {'':<{_VERDICT_WIDTH - 3}}-> ")


def _say_cost(cost: CableCost) -> str:
    told = [f"{_listed(cost.groups)} NotReady"] if cost.groups else []
    told += [f"{cost.gpus} GPUs out"] if cost.gpus else []
    told += [f"jobs across it: {_listed(cost.running)}"] if cost.running else []
    told += [f"jobs that wait for it: {_listed(cost.waiting)}"] if cost.waiting else []
    return "; ".join(told)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _cable(finding: CableFinding, cable: CableState) -> str:
    if finding.moves:
        return f"{cable.end} is connected with {cable.found}, not with {cable.planned}"
    said = f"{cable.end} - {cable.planned or cable.found}"
    return f"{said}: {finding.text}" if finding.verdict is CableVerdict.SLOW else said


def _wrapped(text: str, mark: str) -> list[str]:
    further = " " * max(len(mark), 2)
    return wrap(text, WIDTH, initial_indent=mark, subsequent_indent=further, break_on_hyphens=False)


def as_csv(compared: Compared) -> str:
    """Return a line for each cable that is not as planned (RFC 4180), with what it costs."""
    comparison, _, cost_of, _ = compared
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    more_columns = _COST_COLUMNS if cost_of is not None else ()
    rows.writerow((*CableLine._fields, *more_columns))
    for finding, line in lines(places(comparison.findings)):
        more = _cost_cells(cost_of(finding)) if cost_of is not None else ()
        rows.writerow((*line, *more))
    return text.getvalue()


def _cost_cells(cost: CableCost) -> tuple[str | int, ...]:
    return (" ".join(cost.groups), cost.gpus, " ".join(cost.running), " ".join(cost.waiting))
