"""The small pieces that trees and tables share: marks, styles, tables, plurals, ages, paths."""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from topo.cli.render.safe import plain
from topo.cli.render.terminal import Glyphs
from topo.model.forest import Reason
from topo.model.rest.topology import NodeDocument

READY = "Ready"


def style(status: str) -> str:
    """Green for Ready, red for anything else; the glyph says the same without colour."""
    return "green" if status == READY else "red"


def mark(status: str, glyphs: Glyphs) -> Text:
    """The coloured glyph of a status."""
    return Text(glyphs.ready if status == READY else glyphs.not_ready, style=style(status))


def reason_lines(reasons: Iterable[Reason], glyphs: Glyphs) -> Text:
    """One dim line per reason, each on a line of its own below what it explains."""
    lines = Text()
    for reason in reasons:
        words = f"{glyphs.arrow} {plain(reason.text or reason.code)}"
        lines.append(f"\n  {words}", style="dim")
    return lines


def leaf(node: NodeDocument, glyphs: Glyphs) -> Text:
    """A node on one line: mark, name, status where it is not Ready, GPUs."""
    line = mark(node.status, glyphs) + Text(f" {plain(node.name)}")
    if node.status != READY:
        line.append(f"  {plain(node.status)}", style=style(node.status))
    if count := node.gpus:
        line.append(f"  {count} GPU{plural(count)}", style="dim")
    return line


def table(*columns: str, rows: Iterable[Iterable[Text | str | int | None]]) -> Table:
    """A table without lines; a cell that is too long goes on in the next line, None is empty."""
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        drawn.add_column(column, overflow="fold")
    for row in rows:
        drawn.add_row(*map(_cell, row))
    return drawn


def _cell(value: Text | str | int | None) -> Text | str:
    if isinstance(value, Text):
        return value
    return "" if value is None else plain(str(value))


def plural(count: int) -> str:
    """The English plural ending for a count."""
    return "" if count == 1 else "s"


def age(seconds: float | None) -> str:
    """An age people can read: `0.4 s`, `12 s`, `3 min`, `2 h`, `4 d`; `never` for None."""
    if seconds is None:
        return "never"
    if seconds < 10:
        return f"{seconds:.1f} s"
    for unit_s, name in ((86400, "d"), (3600, "h"), (120, "min")):
        if seconds >= unit_s:
            return f"{seconds // (60 if name == 'min' else unit_s):.0f} {name}"
    return f"{seconds:.0f} s"


def joined(path: Iterable[str]) -> str:
    """A group's path as people write it: names joined with `/`."""
    return "/".join(plain(name) for name in path)
