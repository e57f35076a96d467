"""The screen of a watched tree: head and foot stay, the body scrolls by keys."""

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Self

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from topo.cli.render import terminal
from topo.cli.watch import viewport
from topo.cli.watch.viewport import Viewport

Lines = Sequence[Sequence[Segment]]
_KEY_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Frame:
    """The parts of the screen: `head` and `foot` always, of the body as much as fits between."""

    head: RenderableType
    body: RenderableType
    foot: RenderableType


class WatchScreen:
    """Draws the newest frame on the terminal's alternate screen until it is closed.

    The last frame then stays on the screen that was there before. Lines are made once for each
    picture and width, so scrolling costs what is seen and not what there is.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, screen=True)
        self._open = ExitStack()
        self._picture: Frame | None = None
        self._parts: list[Lines] = []
        self._made_for = 0
        self._viewport = Viewport()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves the terminal as it was, with the last frame on it."""
        self._open.close()
        if self._picture is not None:
            self._console.print(_Drawn(self._frame()[:-1]))

    def show(self, picture: Frame) -> None:
        """Draw a frame at the present scroll position; called on the loop."""
        if self._picture is None:
            self._start()
        self._picture, self._made_for = picture, 0
        self.draw()

    def draw(self) -> None:
        """Draw the present frame at the present size of the terminal."""
        self._live.update(_Drawn(self._frame()), refresh=True)

    def press(self, text: str) -> None:
        """Scroll as the keys say; `q` ends the watch as Ctrl-C does."""
        for key in viewport.keys(text):
            if key == viewport.QUIT:
                signal.raise_signal(signal.SIGINT)
            self._viewport = self._viewport.moved(key)
        self.draw()

    def _start(self) -> None:
        loop = asyncio.get_running_loop()
        if sys.stdin is not None and sys.stdin.isatty():
            keyboard = sys.stdin.fileno()
            self._open.enter_context(_unbuffered(keyboard))
            loop.add_reader(keyboard, self._read, keyboard)
            self._open.callback(loop.remove_reader, keyboard)
        for redrawn in (signal.SIGWINCH, signal.SIGCONT):
            loop.add_signal_handler(redrawn, self.draw)
            self._open.callback(loop.remove_signal_handler, redrawn)
        self._open.enter_context(self._live)

    def _read(self, keyboard: int) -> None:
        """Read the keys that wait; stop reading where the terminal is gone."""
        try:
            pressed = os.read(keyboard, _KEY_BYTES)
        except OSError:
            pressed = b""
        if pressed:
            self.press(pressed.decode(errors="ignore"))
        else:
            asyncio.get_running_loop().remove_reader(keyboard)

    def _frame(self) -> Lines:
        width, height = self._console.size
        if self._made_for != width:
            self._made_for, self._parts = width, [*self._lines(width)]
        head, body, foot = self._parts
        room = height - len(head) - len(foot) - 1
        if room < 1:  # a terminal of a few lines: what matters most, from the top
            return [*head, *body, *foot, []][:height]
        self._viewport = self._viewport.of(len(body), room)
        return [*head, *body[self._viewport.seen], *foot, *self._position()]

    def _lines(self, width: int) -> Iterator[Lines]:
        picture = self._picture
        options = self._console.options.update(width=width, height=None)
        for part in (picture.head, picture.body, picture.foot) if picture else ():
            yield self._console.render_lines(part, options, pad=False)

    def _position(self) -> Lines:
        """Return the line that says which lines are visible, and the keys."""
        marks, seen = terminal.glyphs(self._console), self._viewport
        first, last = seen.top + 1, seen.seen.stop
        where = f"lines {first} to {last} of {seen.total} {marks.dot} "
        words = ("" if seen.is_all else f"{where}arrows, PgUp, PgDn, Home, End {marks.dot} ") + "q"
        return self._console.render_lines(Text(f"{words} ends", style="dim"), pad=False)[:1]


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Lines that are rendered already."""

    lines: Lines

    def __rich_console__(self, _: Console, __: ConsoleOptions) -> RenderResult:
        for line in self.lines:
            yield from line
            yield Segment.line()


@contextmanager
def _unbuffered(keyboard: int) -> Iterator[None]:
    """Switch the terminal to unbuffered keys without echo; Ctrl-C stays a signal."""
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)
    try:
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
