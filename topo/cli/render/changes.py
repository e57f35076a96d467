"""Changes between generations: one line each, for a list and for a running log."""

from collections.abc import Iterable, Iterator

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from topo.cli.render.safe import plain
from topo.cli.render.shapes.layout import Hanging
from topo.cli.render.shapes.rows import Column, table
from topo.cli.render.terminal import Glyphs
from topo.cli.render.words import READY, status_style
from topo.model.rest.changes import ChangeDocument, DiffDocument
from topo.model.rest.history import HistoryDocument, MomentDocument

_GOOD = {"node-added", "group-added", "fabric-group-added", "conflict-removed"}
_BAD = {"node-removed", "group-removed", "fabric-group-removed", "conflict-added"}


def render_title(diff: DiffDocument) -> Text:
    """Return the two moments that are compared."""
    ends = [
        f"{plain(at)} (generation {number})" if at else str(number)
        for at, number in ((diff["from_at"], diff["from"]), (diff["to_at"], diff["to"]))
    ]
    word = "" if diff["from_at"] else "generation "
    return Text(f"{word}{ends[0]} to {ends[1]}", style="bold")


_COUNTED = ("node-added", "node-removed", "node-moved", "node-status")


def render_moments(history: HistoryDocument, _: Glyphs) -> RenderableType:
    """Render a row per moment: how many nodes came, went, moved or changed status, and the rest."""
    if not history["moments"]:
        return Text("no moment is kept yet", style="dim")
    names = ("came", "went", "moved", "status", "other")
    counts = (Column(name, right=True) for name in names)
    return table("at", "generation", *counts, rows=map(_moment, history["moments"]))


def _moment(moment: MomentDocument) -> Iterator[str | int]:
    yield moment["at"]
    yield f"{moment['generation']}.{moment['run']}"
    for what in _COUNTED:
        yield moment["changes"].get(what, 0) or ""
    yield sum(n for what, n in moment["changes"].items() if what not in _COUNTED) or ""


def render_changes(changes: Iterable[ChangeDocument], glyphs: Glyphs) -> Stack:
    """Render one entry per change, in the order given, behind the generation it made."""
    moved = list(changes)
    width = max((len(str(change["generation"])) for change in moved), default=0)
    return Stack(
        *(
            render_change(
                change, glyphs, before=Text(f"{change['generation']:{width}}  ", style="dim")
            )
            for change in moved
        )
    )


def render_change(change: ChangeDocument, glyphs: Glyphs, before: Text | None = None) -> Hanging:
    """Render a change as a sentence: mark, subject, change, reason; `before` is put before it."""
    text = Text().append(plain(change["subject"]), style="bold").append("  ")
    old, new = change["before"], change["after"]
    if change["what"].endswith(("-status", "-moved")):
        text.append_text(_value(old or "nowhere")).append(f" {glyphs.arrow} ")
        text.append_text(_value(new or "nowhere"))
    else:
        text.append(plain(change["what"]).removeprefix("fabric-").replace("-", " "))
        if new or old:
            text.append(": ").append_text(_value(new or old))
    if fabric := change["fabric"]:
        text.append(f" in {plain(fabric)}")
    if why := change["why"]:
        text.append(f"  {plain(why)}", style="dim")
    mark = Text().append_text(before or Text()).append_text(_mark(change, glyphs)).append(" ")
    return Hanging(mark, text)


def _mark(change: ChangeDocument, glyphs: Glyphs) -> Text:
    what, after = change["what"], change["after"]
    if what in _GOOD or (what.endswith("-status") and after == READY):
        return Text(glyphs.ready, style="green")
    if what in _BAD or what.endswith("-status"):
        return Text(glyphs.not_ready, style="red")
    return Text(glyphs.attention, style="yellow")


def _value(word: str) -> Text:
    """Return a status in its colour, a path as it is."""
    known = word in {READY, "NotReady"}
    return Text(plain(word), style=status_style(word) if known else "default")
