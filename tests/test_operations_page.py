"""docs/operations.md says what the code does: every metric is one, every condition is there."""

import re
from collections.abc import Iterator
from pathlib import Path

from topo.diagnosis.steps import FILES, STEPS

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "operations.md").read_text(encoding="utf-8")


def table(first: str) -> dict[str, list[str]]:
    """The rows of the table whose first head this is, by their first cell."""
    lines = PAGE.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"| {first} |"))
    return {cells[0].strip("`"): cells[1:] for cells in _rows(lines[start + 2 :])}


def _rows(lines: list[str]) -> Iterator[list[str]]:
    for line in lines:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def test_every_metric_that_it_names_is_one() -> None:
    """docs/metrics.md is held against the running programs elsewhere."""
    named = set(re.findall(r"topo_(?:master|worker)_[a-z_]+", PAGE))
    known = set(re.findall(r"topo_(?:master|worker)_[a-z_]+", (DOCS / "metrics.md").read_text()))
    assert len(named) > 15
    assert named <= known


def test_every_condition_of_the_doctor_is_there_with_its_next_step() -> None:
    assert {code: cells[-1] for code, cells in table("condition").items()} == dict(STEPS)


def test_every_warning_of_the_master_is_there() -> None:
    """Their codes are written where they are made: in `code=`, or in a table of the file."""
    master = DOCS.parent / "master"
    texts = [path.read_text(encoding="utf-8") for path in master.rglob("*.py")]
    coded = {code for text in texts for code in re.findall(r"\bcode=\"([a-z-]+)\"", text)}
    in_clear = set(re.findall(r"\"([a-z-]+-in-clear)\"", (master / "clear_text.py").read_text()))
    assert len(in_clear) == 3
    assert table("warning").keys() >= coded | in_clear | FILES
