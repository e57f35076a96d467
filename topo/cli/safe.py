"""Text of others, made safe for a terminal."""

_CONTROL = dict.fromkeys((*range(32), *range(0x7F, 0xA0)), "\N{REPLACEMENT CHARACTER}")


def plain(text: str) -> str:
    """`text` without control characters: a name must not move a terminal's cursor."""
    return text.translate(_CONTROL)
