"""docs/kubernetes.md has every Event, controller and annotation of the code."""

from collections.abc import Iterator
from pathlib import Path

from master.controllers.names import NAMES
from master.controllers.table import ROWS
from topo.publish.gpu_annotations import keys
from topo.publish.node_events import REASONS

PAGE = (Path(__file__).parents[1] / "docs" / "kubernetes.md").read_text(encoding="utf-8")


def rows(first: str) -> Iterator[list[str]]:
    """The rows of the table whose first head this is."""
    lines = PAGE.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"| {first} |"))
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def test_every_event_is_there_with_its_type() -> None:
    told = {cells[0].strip("`"): cells[1] for cells in rows("reason")}
    assert told == REASONS


def test_every_controller_is_there_with_its_field_manager() -> None:
    told = {cells[3].split("`")[1]: cells[2].strip("`") for cells in rows("what")}
    assert told == {name: f"topo-master/{name}" for name in ROWS}


def test_the_annotations_are_there_by_their_keys() -> None:
    assert [cells[0].strip("`") for cells in rows("annotation")] == list(keys("<domain>"))


def test_each_named_controller_has_a_row_in_the_table() -> None:
    assert tuple(ROWS) == NAMES
