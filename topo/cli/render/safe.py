"""Text from outside, without control characters of a terminal."""

from topo.model.plain_text import is_unsafe, plain

__all__ = ["escaped", "is_safe", "plain"]


def escaped(document: str) -> str:
    """Return the JSON text with the same meaning and without characters that a terminal obeys.

    JSON may hold anything but the first 32 characters as it is (RFC 8259 7); its own line ends
    stay.
    """
    return "\n".join(
        line if line.isprintable() else "".join(map(_escaped, line))
        for line in document.split("\n")
    )


def is_safe(text: str) -> bool:
    """Return whether a terminal shows every character of every line."""
    return all(line == plain(line) for line in text.split("\n"))


def _escaped(char: str) -> str:
    if not is_unsafe(char):
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
