"""Where a watched tree goes: a terminal that is redrawn, or a stream of documents."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import yaml
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from topo.cli import terminal
from topo.cli.client import as_topology
from topo.cli.following import Screen
from topo.cli.options import Output
from topo.cli.render import tree
from topo.cli.safe import plain
from topo.model.errors import Refusal


@contextmanager
def screen(output: Output) -> Iterator[Screen]:
    """The screen for an output format; a terminal is left with the last tree on it."""
    console = terminal.out()
    if output is not Output.TABLE:
        yield _Documents(output)
    elif console.is_terminal:
        with Live(console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:
            yield _Redrawn(live)
    else:
        yield _Printed(console)


def _picture(document: Any, trouble: Refusal | None, console: Console) -> RenderableType:
    picture = tree.topology(as_topology(document), terminal.glyphs(console))
    if trouble is None:
        return picture
    return Group(picture, Text(f"not current: {plain(str(trouble))}", style="bold red"))


class _Redrawn:
    """A terminal: one tree that changes in place."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, document: Any, trouble: Refusal | None) -> None:
        self._live.update(_picture(document, trouble, self._live.console), refresh=True)


class _Changing:
    """Shows only what is new: ages that move are no news to a file or a program."""

    def __init__(self) -> None:
        self._last: object = None

    def show(self, document: Any, trouble: Refusal | None) -> None:
        now = (document["generation"], trouble)
        if now != self._last:
            self._last = now
            self._write(document, trouble)

    def _write(self, document: Any, trouble: Refusal | None) -> None:
        raise NotImplementedError


class _Printed(_Changing):
    """A pipe or a file for people: one tree after the other."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def _write(self, document: Any, trouble: Refusal | None) -> None:
        self._console.print(_picture(document, trouble, self._console), end="\n\n")
        self._console.file.flush()


class _Documents(_Changing):
    """A program: one JSON document per line, or YAML documents divided by `---`."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output

    def _write(self, document: Any, trouble: Refusal | None) -> None:
        if trouble is not None:
            return
        if self._output is Output.JSON:
            print(orjson.dumps(document).decode(), flush=True)
        else:
            text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
            print(f"---\n{text}", end="", flush=True)
