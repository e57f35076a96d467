"""The frame: a section of a page between two markers, and the text that belongs there.

A page marks the place of a section by two lines:

    <!-- generated: NAME -->
    <!-- end of NAME -->

To add one: a module here with a function that returns Markdown, a `Section` in `registry.py`, the
two lines in the page, `make docs`. A test fails when a page and the code differ.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SECTION = re.compile(
    r"^<!-- generated: (?P<name>[\w-]+) -->\n.*?^<!-- end of (?P=name) -->$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page that is made from the code; `page` is a path from the repository's root."""

    page: str
    name: str
    render: Callable[[], str]


def pages(sections: Iterable[Section]) -> dict[Path, str]:
    """Return the text that each page of these sections should have.

    Raises `ValueError` where a page lacks the markers of a section, or has those of an unknown
    one.
    """
    by_page: dict[str, list[Section]] = {}
    for section in sections:
        by_page.setdefault(section.page, []).append(section)
    return {
        ROOT / page: rewritten((ROOT / page).read_text(encoding="utf-8"), group)
        for page, group in by_page.items()
    }


def rewritten(text: str, sections: Iterable[Section]) -> str:
    """Return the text of a page with the content of each section in its place."""
    content = {section.name: section.render().strip("\n") for section in sections}
    missing = content.keys() - set(_names(text))
    if missing:
        raise ValueError(f"the page has no markers of {', '.join(sorted(missing))}")
    return _SECTION.sub(lambda match: _between_markers(match["name"], content), text)


def _names(text: str) -> list[str]:
    return [match["name"] for match in _SECTION.finditer(text)]


def _between_markers(name: str, content: Mapping[str, str]) -> str:
    if name not in content:
        raise ValueError(f"no section is called {name}: add it to docs/tables/registry.py")
    return f"<!-- generated: {name} -->\n{content[name]}\n<!-- end of {name} -->"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; a `|` inside a cell is escaped."""
    lines = [head, ["---"] * len(head), *([_escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |".replace("| --- ", "|---") for line in lines)


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")
