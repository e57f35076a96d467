"""What every reader does first: bytes to text, escapes removed, bounds on everything."""

import re
from collections.abc import Iterable, Iterator

from topo.model.errors import Refusal
from topo.model.observation import ParsedProbe, ProbeFact

MAX_BYTES = 10 * 2**20
"""No tool that we read prints a tenth of this; a 10,000-node `nodegroup.yaml` is about 1 MB."""
MAX_LINE = 16_384
"""A matrix of 128 GPUs and 256 NICs is 3 kB wide; longer lines are noise to the line readers."""
MAX_WARNINGS = 20
WHOLE_TEXT = "the whole text"
"""Where a refusal is that no single line explains; of an output in a log its lines are."""

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_ESCAPES = re.compile(
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor (ECMA-48 section 5.4)
    r"|\x1b\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)"  # OSC: window titles
    r"|\x1b[ -/]{0,8}[0-Z\\^-~]"  # two-character escapes
)


def decode(raw: bytes) -> str | Refusal:
    """Return the text of `raw`; bytes that are no UTF-8 become U+FFFD, so a reader can point at
    them.

    Text that a Windows shell redirected is UTF-16 with a byte-order mark and is read as such.
    Refused: more than `MAX_BYTES`.
    """
    if len(raw) > MAX_BYTES:
        return _too_long(f"{len(raw)} bytes")
    if raw.startswith(_UTF16_MARKS):
        return raw.decode("utf-16", errors="replace")
    return raw.decode("utf-8", errors="replace")


def cleaned(text: str) -> str | Refusal:
    """Return `text` without byte-order mark, ANSI escapes, NULs, CR line ends, no-break spaces.

    Refused: more than `MAX_BYTES` characters, or nothing but white space. O(len(text)).
    """
    if len(text) > MAX_BYTES:
        return _too_long(f"{len(text)} characters")
    text = text.removeprefix("\ufeff")
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = text.replace("\x00", "").replace("\xa0", " ")
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()  # lone surrogates, which no codec writes
    if not text.strip():
        return Refusal("the text is empty", "line 1", "give the output of the command itself")
    return text


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """Return the lines of `text` with their numbers from 1; lines over `MAX_LINE` are
    passed over.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) <= MAX_LINE:
            yield number, line


def shorten(text: str, limit: int = 256) -> str:
    """Return `text` on one line within `limit` characters, the bound of `machine.Text`."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def stated(name: str, facts: Iterable[ProbeFact | None], warnings: list[str]) -> ParsedProbe:
    """Return the observation of a format: the facts that are not empty, the warnings bounded."""
    return ParsedProbe(name, tuple(fact for fact in facts if fact), bounded(warnings))


def bounded(warnings: list[str]) -> tuple[str, ...]:
    """Return at most `MAX_WARNINGS` warnings; the last one says how many were left out."""
    if len(warnings) <= MAX_WARNINGS:
        return tuple(warnings)
    kept = MAX_WARNINGS - 1
    return (*warnings[:kept], f"{len(warnings) - kept} more warnings of this kind")


def whole(word: str, digits: int) -> int | None:
    """Return the number that a word of at most so many ASCII digits writes, or None."""
    return int(word) if word.isascii() and word.isdigit() and len(word) <= digits else None


def in_range(number: int | None, most: int) -> int | None:
    """Return the number if it is one from 0 to `most`; None for what no device can have."""
    return number if number is not None and 0 <= number <= most else None


def _too_long(size: str) -> Refusal:
    return Refusal(
        f"the text has {size}, more than the {MAX_BYTES} that are read",
        WHOLE_TEXT,
        "give the output of one command, not a log of many",
    )
