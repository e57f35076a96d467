"""The consoles of standard output and standard error, and the marks that they can show."""

import os
import sys
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console

_PIPE_COLUMNS = 4096
"""Width where nobody told us one: a line of a pipe is never folded, so `topo tree | grep` sees
whole ones."""


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The marks of a status, readable without colour, and other signs.

    `taken`, `free` and `used` are the cells of a bar; `badges` tell groups of pods apart.
    """

    ready: str
    not_ready: str
    attention: str
    arrow: str
    dot: str
    rule: str
    ellipsis: str
    proven: str
    taken: str
    free: str
    used: str
    badges: str


UNICODE = Glyphs(
    ready="●",
    not_ready="✗",
    attention="▲",
    arrow="→",
    dot="·",
    rule="─",
    ellipsis="…",
    proven="✓",
    taken="█",
    free="░",
    used="·",
    badges="■▲◆▼★",
)
ASCII = Glyphs(
    ready="+",
    not_ready="x",
    attention="!",
    arrow="->",
    dot="-",
    rule="-",
    ellipsis="...",
    proven="ok",
    taken="#",
    free="_",
    used=".",
    badges="%@$&=",
)


def out() -> Console:
    """Return the console of standard output."""
    return _console(sys.stdout)


def err() -> Console:
    """Return the console of standard error, for everything that is not the answer itself."""
    return _console(sys.stderr)


def glyphs(console: Console) -> Glyphs:
    """Return the marks that this console can encode."""
    return UNICODE if console.encoding.lower().startswith("utf") else ASCII


def _console(stream: TextIO) -> Console:
    if not (stream.encoding or "").lower().startswith("utf") and hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")  # a name that the terminal cannot show is no crash
    width = None if stream.isatty() or "COLUMNS" in os.environ else _PIPE_COLUMNS
    return Console(
        file=stream, width=width, highlight=False, markup=False, emoji=False, soft_wrap=False
    )
