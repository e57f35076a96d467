"""What terminals, mails and web pages do to an output: folded lines, other white space, colours."""

import re
from collections.abc import Callable, Iterator

WIDTHS = (60, 72, 80, 100, 120, 132, 160)
"""Columns of serial consoles, mails and terminals."""
_TABS = re.compile(r"\t+")


def folded(text: str, width: int) -> str:
    """As `expand FILE | fold -w WIDTH` and a terminal do: cut after so many characters."""
    return _by_line(text, lambda line: _pieces(line, width, lambda _: width))


def folded_at_blanks(text: str, width: int) -> str:
    """As `expand FILE | fold -s -w WIDTH` does: cut behind the last blank that fits."""

    def cut(line: str) -> int:
        return line.rfind(" ", 0, width) + 1 or width

    return _by_line(text, lambda line: _pieces(line, width, cut))


def wrapped(text: str, width: int) -> str:
    """As a mail does: cut at blanks, and the blanks at the ends of lines dropped."""
    return trimmed(folded_at_blanks(text, width))


def _by_line(text: str, pieces: Callable[[str], Iterator[str]]) -> str:
    lines = text.expandtabs().split("\n")
    return "\n".join(piece for line in lines for piece in pieces(line))


def _pieces(line: str, width: int, cut: Callable[[str], int]) -> Iterator[str]:
    while len(line) > width:
        at = cut(line)
        yield line[:at]
        line = line[at:]
    yield line


def cut_off(text: str, width: int) -> str:
    """As a pager or `cut -c` shows a wide output: every line ends at the edge."""
    return "\n".join(line[:width] for line in text.expandtabs().split("\n"))


def trimmed(text: str) -> str:
    """Without blanks at the ends of lines."""
    return "\n".join(line.rstrip() for line in text.split("\n"))


def padded(text: str) -> str:
    """With blanks at the ends of lines, as a screen has them."""
    return "\n".join(f"{line}   " for line in text.split("\n"))


def tabs_doubled(text: str) -> str:
    """As some editors paste."""
    return text.replace("\t", "\t\t")


def squeezed(text: str) -> str:
    """As a web page shows it: one blank for all white space."""
    return "\n".join(" ".join(line.split()) for line in text.split("\n"))


def tabs_squeezed(text: str) -> str:
    """As a table that is pasted from a page: one tab for several."""
    return _TABS.sub("\t", text)


def coloured(text: str) -> str:
    """Every line in an ANSI colour."""
    return "\n".join(f"\x1b[32m{line}\x1b[0m" for line in text.split("\n"))


def from_windows(text: str) -> str:
    """CRLF line ends."""
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


FOLDS = (folded, folded_at_blanks, wrapped)
SQUEEZES = (squeezed, tabs_squeezed)
"""What may lose an empty cell."""
WHITE_SPACE = (str.expandtabs, trimmed, padded, tabs_doubled, coloured, from_windows)
