"""A short recording of a terminal: what commands show in it, as one picture that moves by itself.

Commands run on a real terminal of `COLUMNS`, whose output is drawn by rich as SVG. Each screen is
shown for a while and then the next, by keyframes of CSS: no script, and all of it is text. Where
nothing may move, one screen stands still.
"""

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.support.waiting import CEILING_S

COLUMNS = 80
ROWS = 100
FONTS = "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace"
TYPED_S = 1.2
"""While a command is typed."""
LINE_S = 0.2
"""A screen is shown for so long for each of its lines, after the last command."""
PAUSE_S = 1.5
"""Between the output of a command and the next one of the same screen."""
_NAME = "recording"
_LETTER_WIDTH, _LINE_HEIGHT, _MARGIN = 12.2, 24.4, 20
"""Of rich's letters, 20 pixels high, and around them."""
_TEXT = re.compile(
    rf'(<text [^>]*) clip-path="url\(#{_NAME}-line-(\d+)\)">([^\n]*?)</text>', re.DOTALL
)
_OF_A_TERMINAL = {"NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES", "CI"}
"""Variables by which a caller has it otherwise than the terminal is."""
_FORMAT = "{styles}\0{matrix}"


@dataclass(frozen=True, slots=True)
class Said:
    """A command as somebody types it, and what it says, with the colours of a terminal."""

    command: str
    output: str


Screen = Sequence[Said]


@dataclass(frozen=True, slots=True)
class _Part:
    """Lines that come at once and stay until the screen ends; `top` is the screen's first line."""

    screen: int
    top: int
    lines: range
    start_s: float
    end_s: float
    letters: int = 0
    """Of a command, which is typed."""


def said(argv: Sequence[str], environment: Mapping[str, str]) -> str:
    """What a command says on a terminal, whatever its exit code is."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    plain = {name: text for name, text in environment.items() if name not in _OF_A_TERMINAL}
    with subprocess.Popen(
        argv,
        env={**plain, "TERM": "xterm-256color"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        found = bytearray()
        try:
            while piece := _read(ours):
                found += piece
        finally:
            os.close(ours)
        process.wait(CEILING_S)
    return found.decode().replace("\r\n", "\n").rstrip()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # what Linux says where nobody has the other end any more
        return b""


def drawn(screens: Sequence[Screen], still: int) -> str:
    """The picture: each screen in turn, and `still` alone where motion is not wanted."""
    styles, texts = _exported(screens)
    parts = _parts(screens)
    rules = "".join(_rule(number, part, parts[-1].end_s) for number, part in enumerate(parts))
    groups = "".join(
        f'<g class="part{number}{"" if part.screen == still else " other"}" '
        f'transform="translate(0, {-part.top * _LINE_HEIGHT:.1f})">'
        f"{''.join(texts.get(line, '') for line in part.lines)}</g>\n"
        for number, part in enumerate(parts)
    )
    wide = round(COLUMNS * _LETTER_WIDTH + 2 * _MARGIN)
    tall = round(max(p.lines.stop - p.top for p in parts) * _LINE_HEIGHT + 2 * _MARGIN)
    title = escape("; ".join(each.command for screen in screens for each in screen))
    return (
        f'<svg viewBox="0 0 {wide} {tall}" role="img" xmlns="http://www.w3.org/2000/svg">\n'
        f"<title>{title}</title>\n<style>\ntext {{ font: 20px {FONTS} }}\n{styles}\n"
        ".other { visibility: hidden }\n"
        f"@media (prefers-reduced-motion: no-preference) {{\n{rules}}}\n</style>\n"
        f'<rect width="{wide}" height="{tall}" rx="8" fill="{MONOKAI.background_color.hex}"/>\n'
        f'<g transform="translate({_MARGIN}, {_MARGIN})">\n{groups}</g>\n</svg>\n'
    )


def _exported(screens: Sequence[Screen]) -> tuple[str, dict[int, str]]:
    """The classes of the letters, and what draws each line that is not empty."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    for each in (each for screen in screens for each in screen):
        console.print(Text.assemble(("$ ", "green"), (each.command, "bold")), soft_wrap=True)
        console.print(Text.from_ansi(each.output), soft_wrap=True)
    found = console.export_svg(theme=MONOKAI, unique_id=_NAME, code_format=_FORMAT)
    styles, matrix = found.replace("&#160;", "\N{NO-BREAK SPACE}").split("\0")
    texts: dict[int, str] = {}
    for head, line, content in _TEXT.findall(matrix):
        texts[int(line)] = f"{texts.get(int(line), '')}{head}>{content}</text>"
    return styles, texts


def _parts(screens: Sequence[Screen]) -> list[_Part]:
    """A command, what it says, the next command…; a screen ends when it can have been read."""
    parts: list[_Part] = []
    line, now_s = 0, 0.0
    for number, screen in enumerate(screens):
        top, begun = line, []
        for each in screen:
            lines = each.output.count("\n") + 1
            begun.append((range(line, line + 1), now_s, len(each.command) + 2))
            begun.append((range(line + 1, line + 1 + lines), now_s + TYPED_S, 0))
            line, now_s = line + 1 + lines, now_s + TYPED_S + PAUSE_S
        now_s += (line - top) * LINE_S
        parts += (_Part(number, top, of, start_s, now_s, size) for of, start_s, size in begun)
    return parts


def _rule(number: int, part: _Part, all_s: float) -> str:
    """When a part is there, in shares of the whole, which begins anew for ever."""

    def share(at_s: float) -> str:
        return f"{100 * at_s / all_s:.2f}%"

    name = f"part{number}"
    start, end = share(part.start_s), share(part.end_s)
    before = "" if not part.start_s else "0% { visibility: hidden } "
    after = (
        "100% { visibility: visible }"
        if part.end_s == all_s
        else f"{end}, 100% {{ visibility: hidden }}"
    )
    shown = f"@keyframes {name} {{ {before}{start} {{ visibility: visible }} {after} }}\n"
    how = f"{name} {all_s:.1f}s step-end infinite"
    if part.letters:
        typed = share(part.start_s + TYPED_S)
        shown += (
            f"@keyframes {name}-typed {{ 0%, {start} {{ clip-path: inset(0 100% 0 0); "
            f"animation-timing-function: steps({part.letters}) }} "
            f"{typed}, 100% {{ clip-path: inset(0) }} }}\n"
        )
        how += f", {name}-typed {all_s:.1f}s infinite"
    return f"{shown}.{name} {{ animation: {how} }}\n"
