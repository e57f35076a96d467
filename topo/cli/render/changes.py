"""Changes between generations: one line each, for a list and for a running log."""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from topo.cli.render.safe import plain
from topo.cli.render.terminal import Glyphs
from topo.cli.render.words import READY, style
from topo.model.rest.changes import ChangeDocument

_GOOD = {"node-added", "group-added", "conflict-removed"}
_BAD = {"node-removed", "group-removed", "conflict-added"}


def listed(changes: Iterable[ChangeDocument], glyphs: Glyphs) -> Table:
    """One row per change, in the order given, with the generation it made."""
    rows = Table.grid(padding=(0, 2, 0, 0))
    rows.add_column(justify="right", style="dim")
    rows.add_column(overflow="fold")
    for change in changes:
        rows.add_row(str(change.generation), line(change, glyphs))
    return rows


def line(change: ChangeDocument, glyphs: Glyphs) -> Text:
    """A change as a sentence: mark, subject, what became of it, why."""
    text = _mark(change, glyphs)
    text.append(f" {plain(change.subject)}  ", style="bold default")
    before, after = change.before, change.after
    if change.what.endswith(("-status", "-moved")):
        text.append_text(_value(before or "nowhere")).append(f" {glyphs.arrow} ", style="default")
        text.append_text(_value(after or "nowhere"))
    else:
        text.append(plain(change.what).replace("-", " "), style="default")
        if after or before:
            text.append(": ", style="default").append_text(_value(after or before))
    if why := change.why:
        text.append(f"  {plain(why)}", style="dim default")
    return text


def _mark(change: ChangeDocument, glyphs: Glyphs) -> Text:
    what, after = change.what, change.after
    if what in _GOOD or (what.endswith("-status") and after == READY):
        return Text(glyphs.ready, style="green")
    if what in _BAD or what.endswith("-status"):
        return Text(glyphs.not_ready, style="red")
    return Text(glyphs.attention, style="yellow")


def _value(word: str) -> Text:
    """A status in its colour, a path as it is."""
    known = word in {READY, "NotReady"}
    return Text(plain(word), style=style(word) if known else "default")
