"""Small bars: how much of a group is taken by a job, free, or in use."""

from rich.text import Text

from topo.cli.render.terminal import Glyphs

WIDTH = 12


def room(gpus: int, free: int, taken: int, glyphs: Glyphs) -> Text:
    """A bar over `gpus` GPUs of which `free` were free before `taken` of them were taken.

    What is taken comes first, then what stays free, then what was in use; a part that is there is
    never rounded away, for as long as there are cells.
    """
    parts = (min(taken, gpus), max(min(free, gpus) - taken, 0))
    first, second = (_cells(part, gpus) for part in parts)
    second = min(second, WIDTH - first)
    bar = Text().append(glyphs.taken * first, style="bold cyan")
    bar.append(glyphs.free * second, style="green")
    return bar.append(glyphs.used * (WIDTH - first - second), style="bright_black")


def share(part: float, whole: float, glyphs: Glyphs) -> Text:
    """A bar of which `part` in `whole` is filled."""
    filled = _cells(part, whole)
    bar = Text().append(glyphs.taken * filled, style="green")
    return bar.append(glyphs.used * (WIDTH - filled), style="bright_black")


def legend(glyphs: Glyphs) -> Text:
    """What the cells of `room` mean."""
    line = Text().append(glyphs.taken, style="bold cyan").append(" this job  ", style="dim")
    line.append(glyphs.free, style="green").append(" free after it  ", style="dim")
    line.append(glyphs.used, style="bright_black").append(" in use or closed", style="dim")
    return line


def _cells(part: float, whole: float) -> int:
    if part <= 0 or whole <= 0:
        return 0
    return min(WIDTH, max(1, round(WIDTH * part / whole)))
