"""docs/operations.md says what the code does: every metric is one, every condition is there."""

import re
from collections.abc import Iterator
from pathlib import Path

from topo.diagnosis.steps import FILES, GANGS, STEPS
from topo.publish.node_events import REASONS, EventType

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
_CONDITION = re.compile(r"\b(?:Conflict|JoinFailure|Reason)\(\s*\"([a-z-]+)\"")
_CODE = re.compile(r"^[A-Z_]+ = \"([a-z]+(?:-[a-z]+)+)\"$", re.MULTILINE)
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


def sources(*folders: str) -> str:
    """The text of all modules in these folders."""
    files = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def test_every_code_that_discovery_gives_is_there_and_every_conflict_is_one() -> None:
    """They are written where they are made, or as a constant of the module."""
    discovery = sources("topo/discovery", "topo/model")
    given = set(_CONDITION.findall(discovery)) | set(_CODE.findall(discovery))
    given |= set(_CODE.findall(sources("master/sources/workers")))
    assert len(given) > 40
    unlisted = {"machine-unjoined"}  # a machine without a worker yet, and no conflict
    assert {code for code in given - unlisted if f"`{code}`" not in PAGE} == set()
    assert table("conflict").keys() <= given


def test_every_warning_of_the_master_is_there_and_every_one_there_is_given() -> None:
    """Their codes are written where they are made: in `code=`, as a constant, or in a table."""
    master = sources("master")
    coded = set(re.findall(r"\bcode=\"([a-z-]+)\"", master))
    in_clear = set(
        re.findall(
            r"\"([a-z-]+-in-clear)\"", (ROOT / "master/authentication/cleartext.py").read_text()
        )
    )
    of_resources = {f"kubernetes-{plural}" for plural in ("nodes", "pods")}
    assert len(in_clear) == 3
    assert 'code=f"kubernetes-{' in master
    listed = table("warning").keys()
    assert listed >= coded | in_clear | FILES | GANGS | of_resources
    assert listed <= coded | in_clear | FILES | GANGS | of_resources | set(_CODE.findall(master))


def test_every_event_that_warns_of_a_node_is_there_and_every_one_there_is_reported() -> None:
    """The table of the states of gangs has those of gangs: `docs/tables/gang_states.py`."""
    assert table("event").keys() == {e for e, of in REASONS.items() if of is EventType.WARNING}
