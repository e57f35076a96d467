"""Commands of the chart that the documentation prints, as users type them."""

import shlex
from collections.abc import Collection, Iterator
from pathlib import Path

from tests.helm.chart import ROOT

PAGES = (
    *(ROOT / "README.md", ROOT / "examples" / "README.md"),
    ROOT / "helm" / "supernode-topology" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
)
RELEASE = "topo"
"""Its name on every page; the vendor's own chart is another release."""
TYPED = ("sh", "console", "")
"""The languages of blocks in which commands stand; a page that is typed whole has `sh` alone."""


def commands(text: str, languages: Collection[str] = ("sh",)) -> Iterator[str]:
    """The commands of the blocks in these languages, each in one piece."""
    language, command = None, ""
    for line in text.splitlines(keepends=True):
        if line.startswith("```"):
            language, command = (line[3:].strip() if language is None else None), ""
        elif language is not None and language in languages:
            command += line
            if not line.endswith("\\\n") and _is_whole(command):
                yield command.strip()
                command = ""


def _is_whole(command: str) -> bool:
    try:
        shlex.split(command, comments=True)
    except ValueError:  # a quotation goes on in the next line
        return False
    return True


def installs(page: Path) -> Iterator[tuple[str, ...]]:
    """The words of each `helm install` and `helm upgrade` of a page that is of our chart."""
    for command in commands(page.read_text(), TYPED):
        words = tuple(shlex.split(command.replace("\\\n", " "), comments=True))
        is_ours = RELEASE in words[2:3] or "…" in words[2:3]
        if words[:1] == ("helm",) and words[1:2] in {("install",), ("upgrade",)} and is_ours:
            yield words
