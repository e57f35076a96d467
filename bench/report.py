"""What comes out: a table for people, and bench/results.json for comparison."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.figure import Figure

RESULTS = Path(__file__).parent / "results.json"
_BUSY_LOAD = 0.7
_WIDTH = 132
"""Of a table that goes to a file."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a benchmark gave; `trouble` is set where it could not run to its end."""

    benchmark: str
    figures: tuple[Figure, ...]
    seconds: float
    trouble: str = ""


def table(outcomes: Sequence[Outcome]) -> Table:
    """The figures beside their budgets; a miss is called one."""
    shown = Table(title="Benchmarks", title_justify="left")
    shown.add_column("figure", min_width=44, overflow="fold")
    for column in ("value", "spread", "budget"):
        shown.add_column(column, justify="right", no_wrap=True)
    shown.add_column("verdict", no_wrap=True)
    for outcome in outcomes:
        shown.add_row(f"[bold]{outcome.benchmark}[/bold] [dim]({outcome.seconds:.0f} s)[/dim]")
        for figure in outcome.figures:
            shown.add_row(*_cells(figure))
        if outcome.trouble:
            told = f"could not run: {escape(outcome.trouble)}"
            shown.add_row(told, "", "", "", "[bold red]no figure[/bold red]")
        shown.add_section()
    return shown


def _cells(figure: Figure) -> tuple[str, ...]:
    measured, budget, unit = figure.measured, figure.budget, figure.unit
    note = f"\n  [dim]{escape(figure.note)}[/dim]" if figure.note else ""
    spread = ""
    if measured.spread != "exact":
        spread = f"{measured.spread}: {number(measured.low)} - {number(measured.high)}"
    return (
        escape(figure.name) + note,
        f"{number(measured.value)} {unit}",
        spread,
        "" if budget is None else f"{budget.sense} {number(budget.limit)} {unit}",
        verdict(figure, "[green]met[/green]", "[bold red]MISSED[/bold red]"),
    )


def verdict(figure: Figure, met: str, missed: str) -> str:
    """The word for it; empty where there is no budget."""
    return "" if figure.met is None else met if figure.met else missed


def number(value: float) -> str:
    """A number with three significant digits, in full where it is larger."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def summary(outcomes: Sequence[Outcome], load_before: float) -> str:
    """A closing line: how many budgets were kept, and whether the machine was quiet."""
    judged = [figure for outcome in outcomes for figure in outcome.figures if figure.budget]
    missed = [figure for figure in judged if not figure.met]
    told = f"{len(judged) - len(missed)} of {len(judged)} budgets met"
    if load_before > _BUSY_LOAD:
        told += f"; the machine was busy before (load average {load_before}): run it on an idle one"
    return told


def write(path: Path, outcomes: Sequence[Outcome], environment: dict[str, Any]) -> None:
    """Puts the outcomes into the results file; benchmarks that did not run now keep their entry.

    Every entry carries the environment it was measured in.
    """
    benchmarks: dict[str, Any] = {}
    if path.exists():
        benchmarks = orjson.loads(path.read_bytes())["benchmarks"]
    for outcome in outcomes:
        benchmarks[outcome.benchmark] = {
            **environment,
            "seconds": round(outcome.seconds, 1),
            "trouble": outcome.trouble,
            "figures": [_document(figure) for figure in outcome.figures],
        }
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    path.write_bytes(orjson.dumps({"benchmarks": benchmarks}, option=options))


def _document(figure: Figure) -> dict[str, Any]:
    measured, budget = figure.measured, figure.budget
    return {
        "name": figure.name,
        "value": _rounded(measured.value),
        "low": _rounded(measured.low),
        "high": _rounded(measured.high),
        "spread": measured.spread,
        "samples": measured.samples,
        "unit": figure.unit,
        "budget": None if budget is None else f"{budget.sense} {budget.limit:g}",
        "verdict": verdict(figure, "met", "missed") or None,
        "note": figure.note,
    }


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


def shown(outcomes: Sequence[Outcome], load_before: float) -> None:
    """Prints table and summary."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    console.print(table(outcomes))
    console.print(summary(outcomes, load_before))
