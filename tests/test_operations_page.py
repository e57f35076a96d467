"""docs/operations.md names metrics and Events that there are."""

import re
from collections.abc import Iterator
from pathlib import Path

from master.object_errors import ObjectKind
from topo.publish.node_events import REASONS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
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


def test_every_event_that_warns_of_a_node_is_there_and_every_one_there_is_reported() -> None:
    """The table of the states of gangs has those of gangs: `docs/tables/gang_states.py`."""
    assert table("event").keys() == {e for e, of in REASONS.items() if of == "Warning"}


def test_every_kind_of_object_that_can_be_set_aside_is_there_with_what_follows_for_it() -> None:
    listed = {kind: cells[-1] for kind, cells in table("kind").items()}
    assert listed == {kind.value: kind.effect for kind in ObjectKind}
