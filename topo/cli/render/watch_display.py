"""How a watched tree is shown: a terminal that is redrawn, or one document after the other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from topo.cli.client.connection import dumped
from topo.cli.client.following import Display
from topo.cli.client.reading import read
from topo.cli.options import Output
from topo.cli.render import terminal, tree
from topo.cli.render.safe import plain
from topo.model.errors import Refusal
from topo.model.rest.topology import TopologyDocument


@contextmanager
def display(output: Output) -> Iterator[Display]:
    """The display for an output format; a terminal is left with the last tree on it."""
    console = terminal.out()
    if output is not Output.TABLE:
        yield _when_changed(_generation, lambda document, _: _write(document, output))
    elif console.is_terminal:
        with Live(console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:
            yield lambda document, trouble: live.update(
                _picture(document, trouble, console), refresh=True
            )
    else:
        yield _when_changed(_generation_and_trouble, partial(_print, console))


def _when_changed(version: Callable[[Any, Refusal | None], object], write: Display) -> Display:
    """Writes a document whose `version` differs: ages that move are no news to a program."""
    last: object = None

    def show(document: Any, trouble: Refusal | None) -> None:
        nonlocal last
        if (now := version(document, trouble)) != last:
            last = now
            write(document, trouble)

    return show


def _generation(document: Any, _: Refusal | None) -> object:
    return document["generation"], document.get("run")


def _generation_and_trouble(document: Any, trouble: Refusal | None) -> object:
    return _generation(document, trouble), trouble


def _picture(document: Any, trouble: Refusal | None, console: Console) -> RenderableType:
    picture = tree.topology(read(TopologyDocument, document), terminal.glyphs(console))
    if trouble is None:
        return picture
    return Group(picture, Text(f"not current: {plain(str(trouble))}", style="bold red"))


def _print(console: Console, document: Any, trouble: Refusal | None) -> None:
    """One tree after the other, for a pipe that a person reads."""
    console.print(_picture(document, trouble, console), end="\n\n")
    console.file.flush()


def _write(document: Any, output: Output) -> None:
    """One JSON document per line, or YAML documents divided by `---`."""
    divider = "---\n" if output is Output.YAML else ""
    print(divider + dumped(document, output, layout=0), end="", flush=True)
