"""How a watched tree is shown: on a screen of its own, or one document after the other."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.text import Text

from topo.cli.client.connection import serialize
from topo.cli.client.decoding import decode
from topo.cli.client.watch import Display
from topo.cli.options import Output
from topo.cli.render import terminal, tree
from topo.cli.render.safe import plain
from topo.cli.render.shapes.layout import Hanging
from topo.cli.watch.problems import worst_first
from topo.cli.watch.screen import Frame, WatchScreen
from topo.model.durations import age
from topo.model.errors import Refusal
from topo.model.rest.topology import TopologyDocument

View = Callable[[Any], tuple[Mapping[str, Any], Text]]
"""The part of a document that is wanted, and what is said where its tree is empty.

Raises `CliError` where the document is none.
"""


@contextmanager
def display(output: Output, view: View) -> Iterator[Display]:
    """Return the display for an output format, of a part of each document. Needs a running loop."""
    console = terminal.out()
    if output is not Output.TABLE:
        yield _when_changed(_generation, lambda document, *_: _write(view(document)[0], output))
    elif console.is_terminal and not console.is_dumb_terminal:
        with WatchScreen(console) as screen:
            yield lambda document, trouble, age_s: screen.show(
                _picture(view(document), trouble, age_s, console)
            )
    else:
        yield _when_changed(
            _generation_and_trouble,
            lambda document, trouble, age_s: _print(
                _picture(view(document), trouble, age_s, console), console
            ),
        )


def _when_changed(version: Callable[[Any, Refusal | None], object], write: Display) -> Display:
    """Return a display that writes a document only when its `version` differs."""
    last: object = None

    def show(document: Any, trouble: Refusal | None, age_s: float) -> None:
        nonlocal last
        if (now := version(document, trouble)) != last:
            last = now
            write(document, trouble, age_s)

    return show


def _generation(document: Any, _: Refusal | None) -> object:
    return document["generation"], document.get("run")


def _generation_and_trouble(document: Any, trouble: Refusal | None) -> object:
    return _generation(document, trouble), trouble


def _picture(
    part: tuple[Mapping[str, Any], Text], trouble: Refusal | None, age_s: float, console: Console
) -> Frame:
    """Return the frame of a document; what is wrong comes first, where every screen shows it."""
    raw, empty = part
    marks = terminal.glyphs(console)
    document = decode(TopologyDocument, worst_first(raw))
    head = [tree.render_head(document, marks)]
    if trouble is not None:
        words = Text(plain(f"{trouble.what} (at {trouble.where})"), style="bold red")
        head.append(Hanging(Text(f"{age(age_s)} old: ", style="bold red"), words))
    foot = tree.render_sources(document, marks)
    return Frame(Group(*head), tree.render_body(document, marks, empty), foot)


def _print(picture: Frame, console: Console) -> None:
    """Print one tree after the other, for a pipe that a person reads."""
    console.print(Group(picture.head, picture.body, Text(), picture.foot), end="\n\n")
    console.file.flush()


def _write(document: Any, output: Output) -> None:
    """Write one JSON document per line, or YAML documents divided by `---`."""
    divider = "---\n" if output is Output.YAML else ""
    print(divider + serialize(document, output, layout=0), end="", flush=True)
