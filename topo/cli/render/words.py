"""Pieces that renderers share: marks, styles, reasons, bars, plurals, ages, paths."""

import math
from collections.abc import Iterable, Iterator

from rich.text import Text

from topo.cli.render.safe import plain
from topo.cli.render.shapes.layout import Hanging
from topo.cli.render.terminal import Glyphs
from topo.model.durations import age
from topo.model.forest import Reason
from topo.model.rest.topology import AmountDocument, NodeDocument, NodeReasonDocument
from topo.model.words import counted

READY = "Ready"
BAR_CELLS = 12


def status_style(status: str) -> str:
    """Return green for Ready, red for anything else; the glyph says the same without colour."""
    return "green" if status == READY else "red"


def status_mark(status: str, glyphs: Glyphs) -> Text:
    """Return the coloured glyph of a status."""
    return Text(glyphs.ready if status == READY else glyphs.not_ready, style=status_style(status))


def reason_lines(reasons: Iterable[Reason], glyphs: Glyphs) -> Iterator[Hanging]:
    """Yield one dim entry per reason, each on a line of its own, with its age where it has one."""
    for reason in reasons:
        words = Text(plain(reason.text or reason.code), style="dim")
        if isinstance(reason, NodeReasonDocument) and reason.since_s is not None:
            words.append(f" {glyphs.dot} for {age(reason.since_s)}")
        yield Hanging(Text(f"  {glyphs.arrow} ", style="dim"), words)


def node_line(node: NodeDocument) -> Text:
    """Return a node behind its mark: name, status where it is not Ready, GPUs."""
    line = Text().append(plain(node["name"]), style=status_style(node["status"]))
    if node["status"] != READY:
        line.append(f"  {plain(node['status'])}", style=status_style(node["status"]))
    if count := node["gpus"]:
        line.append(f"  {count} GPU{plural(count)}", style="dim")
    return line


def plural(count: int) -> str:
    """Return the English plural ending for a count."""
    return "" if count == 1 else "s"


def remaining_time(seconds: float) -> str:
    """Return the time that is left as `10 min`, `9 min 30 s`, `1 h 5 min`.

    A second that has begun counts, so a hold of ten minutes is held for ten.
    """
    rest = math.ceil(seconds)
    parts: list[tuple[int, str]] = []
    for unit_s, name in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        number, rest = divmod(rest, unit_s)
        if number or parts:
            parts.append((number, name))
    return " ".join(f"{number} {name}" for number, name in parts[:2] if number) or "0 s"


def path_text(path: Iterable[str]) -> str:
    """Return a group's path: names joined with `/`."""
    return "/".join(plain(name) for name in path)


def room_bar(gpus: int, free: int, taken: int, glyphs: Glyphs) -> Text:
    """Return a bar over `gpus` GPUs of which `free` were free before `taken` of them were taken.

    What is taken comes first, then what stays free, then what was in use; a part that is there is
    never rounded away, for as long as there are cells.
    """
    parts = (min(taken, gpus), max(min(free, gpus) - taken, 0))
    first, second = (_cells(part, gpus) for part in parts)
    second = min(second, BAR_CELLS - first)
    bar = Text().append(glyphs.taken * first, style="bold cyan")
    bar.append(glyphs.free * second, style="green")
    return bar.append(glyphs.used * (BAR_CELLS - first - second), style="bright_black")


def share_bar(part: float, whole: float, glyphs: Glyphs) -> Text:
    """Return a bar of which `part` in `whole` is filled."""
    filled = _cells(part, whole)
    bar = Text().append(glyphs.taken * filled, style="green")
    return bar.append(glyphs.used * (BAR_CELLS - filled), style="bright_black")


def bar_legend(glyphs: Glyphs) -> Text:
    """Return the legend of the cells of `room_bar`."""
    line = Text().append(glyphs.taken, style="bold cyan").append(" this job  ", style="dim")
    line.append(glyphs.free, style="green").append(" free after it  ", style="dim")
    line.append(glyphs.used, style="bright_black").append(" in use or closed, in GPUs", style="dim")
    return line


def _cells(part: float, whole: float) -> int:
    if part <= 0 or whole <= 0:
        return 0
    return min(BAR_CELLS, max(1, round(BAR_CELLS * part / whole)))


def amount_text(family: str, amount: AmountDocument) -> str:
    """Return an amount of shared cards in the units of its family: `9 shares, 60 %, 24576 MiB`."""
    cores, memory = ("/100 cores", " x 256 MiB") if family == "gpu-manager" else (" %", " MiB")
    shares = [counted(amount["shares"], "share")] if family != "gpu-manager" else []
    return ", ".join((*shares, f"{amount['cores']}{cores}", f"{amount['memory']}{memory}"))
