"""Text that others wrote, without what a terminal obeys in the place of showing it."""

import unicodedata

_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of what moves a cursor, turns or hides its neighbours, or breaks a line."""


def plain(text: str) -> str:
    """`text` with a replacement character for each that a terminal would obey. O(len(text))."""
    if text.isprintable():
        return text
    return "".join("\N{REPLACEMENT CHARACTER}" if is_unsafe(char) else char for char in text)


def is_unsafe(char: str) -> bool:
    """Whether a terminal obeys the character instead of showing it."""
    return unicodedata.category(char) in _UNSAFE
