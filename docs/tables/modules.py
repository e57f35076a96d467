"""The inventory of modules: each Python file of the product with the first sentence of its text."""

import ast
from collections.abc import Iterator
from pathlib import Path

from docs.tables.section import ROOT, table

ROOMS = ("topo", "master", "worker")
"""The folders of the product's code."""


def render() -> str:
    """Return one table per folder: the module, and what its docstring says first."""
    return "\n\n".join(
        f"## `{folder.relative_to(ROOT)}`\n\n{_purpose(folder)}{table(('module', 'content'), rows)}"
        for folder in _folders()
        if (rows := list(_rows(folder)))
    )


def _folders() -> Iterator[Path]:
    for room in ROOMS:
        yield from sorted({path.parent for path in (ROOT / room).rglob("*.py")})


def _purpose(folder: Path) -> str:
    text = _first_sentence(folder / "__init__.py")
    return f"{text}\n\n" if text else ""


def _rows(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.glob("*.py")):
        if path.stem != "__init__":
            yield f"`{path.stem}`", _first_sentence(path)


def _first_sentence(path: Path) -> str:
    """Return the first paragraph of the module's docstring on one line; empty if there is none."""
    if not path.exists():
        return ""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())
