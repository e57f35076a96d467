"""docs/promises.md is true: the code of each promise exists, and so does the test that holds it."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
_QUOTED = re.compile(r"`([^`]+)`")
_JS_NAME = re.compile(r"^(?:export )?(?:async )?(?:function|class|const) (\w+)", re.MULTILINE)
_LINES = [line[2:-2].split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
ROWS = [cells for cells in _LINES if cells[0] != "promise"]


@cache
def names_in(path: Path) -> frozenset[str]:
    """Return the functions, classes and assigned names of a file; of members also `Class.name`."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if path.suffix != ".py":
        return frozenset(_JS_NAME.findall(text))
    found: set[str] = set()

    def collect(body: list[ast.stmt], owner: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names = [node.name]
            else:
                targets = getattr(node, "targets", [getattr(node, "target", None)])
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            found.update([*names, *(owner + name for name in names)])
            if isinstance(node, ast.ClassDef):
                collect(node.body, node.name + ".")

    collect(ast.parse(text).body, "")
    return frozenset(found)


def broken_references(kept_in: str, held_by: str) -> list[str]:
    """Return the names that the file beside them does not define; each file needs a name."""
    places = [_QUOTED.findall(place) for place in kept_in.split("; ")]
    tests = [("tests/" + test).split("::") for test in _QUOTED.findall(held_by) or ["none"]]
    named = [(path, name) for path, *names in (*places, *tests) for name in names or ["a name"]]
    return [f"{path}: {name}" for path, name in named if name not in names_in(ROOT / path)]


def test_the_code_and_the_test_of_each_promise_exist() -> None:
    assert len(ROWS) > 100
    assert [
        flaw for _, kept_in, held_by in ROWS for flaw in broken_references(kept_in, held_by)
    ] == []
    assert len({promise for promise, _, _ in ROWS}) == len(ROWS), "a promise stands twice"


def test_a_row_with_a_place_or_a_test_that_does_not_exist_is_found() -> None:
    place, test = "`topo/model/nearest.py`, `nearest`", "`docs/test_promises.py::names_in`"
    assert broken_references(place, test) == []
    assert broken_references(place.replace("nearest", "no"), test) == ["topo/model/no.py: no"]
    assert broken_references(place, test.replace("in`", "no`")) != []
    assert broken_references(place, "none") == ["tests/none: a name"]
