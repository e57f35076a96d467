"""Text of outside sources without control characters, which a terminal would obey."""

import unicodedata

_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of what moves a cursor, turns or hides its neighbours, or breaks a line."""


def plain(text: str) -> str:
    """Return `text` with a replacement for each character that a terminal obeys. O(len(text))."""
    if text.isprintable():
        return text
    return "".join("\N{REPLACEMENT CHARACTER}" if is_unsafe(char) else char for char in text)


def is_unsafe(char: str) -> bool:
    """Return whether a terminal obeys the character instead of showing it."""
    return unicodedata.category(char) in _UNSAFE
