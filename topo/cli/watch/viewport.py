"""The visible part of something longer than the screen, and how keys move it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_KEY = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Za-z])|.", re.DOTALL)
_LINES = {"j": 1, "\x1b[B": 1, "\x1bOB": 1, "\r": 1, "\n": 1, "k": -1, "\x1b[A": -1, "\x1bOA": -1}
_PAGES = {" ": 1, "f": 1, "\x1b[6~": 1, "b": -1, "\x1b[5~": -1}
_ENDS = {
    **dict.fromkeys(("g", "\x1b[H", "\x1bOH", "\x1b[1~"), 0),
    **dict.fromkeys(("G", "\x1b[F", "\x1bOF", "\x1b[4~"), 1),
}
"""As `less` has them, and as terminals send the arrows, Page Up and Down, Home and End."""
QUIT = "q"


def keys(text: str) -> Iterator[str]:
    """Split input into keys: a character each, or the sequence that a terminal sends."""
    return (found[0] for found in _KEY.finditer(text))


@dataclass(frozen=True, slots=True)
class Viewport:
    """Lines from `top` on, of which `height` are seen of `total`; it never looks past the end."""

    total: int = 0
    height: int = 1
    top: int = 0

    def of(self, total: int, height: int) -> "Viewport":
        """Return the same position in a content of another length or height."""
        return Viewport(total, max(1, height), min(self.top, max(0, total - max(1, height))))

    def moved(self, key: str) -> "Viewport":
        """Return the position after a key; the same for one without a meaning."""
        last = max(0, self.total - self.height)
        if key in _ENDS:
            return Viewport(self.total, self.height, last * _ENDS[key])
        step = _LINES.get(key, 0) + _PAGES.get(key, 0) * max(1, self.height - 1)
        return Viewport(self.total, self.height, min(last, max(0, self.top + step)))

    @property
    def is_all(self) -> bool:
        """Whether all lines are visible."""
        return self.total <= self.height

    @property
    def seen(self) -> slice:
        """The visible lines."""
        return slice(self.top, min(self.total, self.top + self.height))
