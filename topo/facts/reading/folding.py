"""Texts whose long lines a terminal, `fold` or a mail cut: joined again where that helps.

Result: what the reader makes of the text, or of the joined text where it makes more of that. A
folded text by itself reads like a smaller machine, so readers refuse or warn where a line goes on
without its beginning. Only such a text is joined, and the joined one counts only if the reader has
less to warn of and it states other facts and no value less.

How: a folded text has no line beyond the width of its terminal, so the longest line is that width.
Cut hard, every folded line is exactly so long; a line that has this length by itself is known by
the indented one below, unless the cut fell on blanks, which is tried as well. Cut at blanks, a line
ends with the blank and the next word would not have fitted; mails drop that blank. Of the ways that
help, the one with the fewest warnings is taken, the first of equals.

That is right because the readers' own checks decide: a matrix has to be square with its X on the
diagonal, a box has to close. Lines of equal length that were never folded do not pass them joined.

Cost: O(length of the text) and at most four more readings, only for texts that give trouble.

Example, folded at 24 columns (`.` is a blank at the end of a line):

            GPU0    GPU1....
    NIC0
    GPU0     X      NV4.....
    PIX

The second line has names and no row above it: the matrix is refused. The first and the third line
have 24 characters, the longest; joined with what follows them, they are a header of three columns
and its row.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace

from topo.facts.reading.text import WHOLE_TEXT, numbered_lines
from topo.model.errors import Refusal
from topo.model.observation import ParsedProbe

_WIDTHS = range(40, 400)
"""Narrower ones cut words that people could not read any more, wider ones nothing that we read."""
_REST_OF_PATH = re.compile(r"(?!/(?:sys|proc|dev)/|realpath )\S[^=]*")
"""A line that is neither another path nor a `KEY=value` of a uevent."""
_COUNT = re.compile(r"[ \t]{0,64}Attached GPUs\b")
"""The tools' own count stands on a short line; joined with another one it would count no more."""
_ELISION = re.compile(r"[\s.…]{1,80}")
"""Dots that stand for omitted lines."""
_REST = "is cut, or goes on in the next one: the text is folded or incomplete"
_JOINED = "lines that a terminal or a mail folded were joined again"


def nothing(what: str, warnings: Sequence[str], fix: str) -> Refusal:
    """Return the refusal of a text that states nothing, with the first line that is a `rest`, if
    any.
    """
    because = next((warning for warning in warnings if warning.endswith(_REST)), "")
    return Refusal(f"{what}: {because}" if because else what, WHOLE_TEXT, fix)


def rest(line: int) -> str:
    """Return the warning of a reader about a line that lost its beginning or its end."""
    return f"line {line} {_REST}"


def open_paths(text: str, tree: str) -> list[str]:
    """Return warnings about lines `path: content` that are cut or go on below. O(len(text))."""
    found: list[str] = []
    above = ""
    for number, line in numbered_lines(text):
        of_tree = tree in line
        twice = line.count(tree) > 1
        alone = above.rstrip().endswith(":") and line.strip()
        if of_tree:
            cut = twice or ":" not in line.partition(tree)[2]
        else:
            cut = bool(above and (alone or _REST_OF_PATH.fullmatch(line)))
        if cut:
            found.append(rest(number))
        above = line if of_tree else ""
    return found


def is_told(answer: ParsedProbe | Refusal) -> bool:
    """Return whether the answer says that a line is a `rest`."""
    said = (answer.what,) if isinstance(answer, Refusal) else answer.warnings
    return any(words.endswith(_REST) for words in said)


def read_joined(
    read: Callable[[str], ParsedProbe | Refusal], text: str, first: ParsedProbe | Refusal
) -> ParsedProbe | Refusal:
    """Return what `read` makes of the joined text where that gives less trouble than
    `first` has.
    """
    refused = isinstance(first, Refusal)
    answers = (read(joined) for joined in _joined(text, lost_blanks=refused))
    better = [a for a in answers if isinstance(a, ParsedProbe) and _is_better(a, first)]
    if not better:
        return first
    best = min(better, key=lambda answer: len(answer.warnings))
    return replace(best, warnings=(*best.warnings, _JOINED))


def _is_better(again: ParsedProbe, first: ParsedProbe | Refusal) -> bool:
    """Return whether joining helped: a line that only vanished in another one is still cut."""
    # A refused text states nothing, so any reading is better.
    if isinstance(first, Refusal):
        return True
    if again.facts == first.facts:
        return False
    return len(again.warnings) < len(first.warnings) and not _stated(first) - _stated(again)


def _stated(probe: ParsedProbe) -> Counter[str]:
    """Return how many values of each kind a reading has; an unknown one is none."""
    counts: Counter[str] = Counter()
    for fact in probe.facts:
        for item in fact if isinstance(fact, tuple) else (fact,):
            for field in fields(item):
                counts[f"{type(item).__name__}.{field.name}"] += _values(getattr(item, field.name))
    return counts


def _values(value: object) -> int:
    if isinstance(value, tuple):
        return sum(map(_values, value))
    return 0 if value is None or value == "" else 1


def _joined(text: str, *, lost_blanks: bool) -> Iterator[str]:
    """Return the text joined in each way that fits its longest line and changes it.

    `lost_blanks`: also where a blank has to be put between the two lines, which would make two
    words of a number or a UUID that was cut.
    """
    lines = text.split("\n")
    width = max(map(len, lines))
    # A longer line was not folded by a terminal, a shorter one cuts words that no reader needs.
    if width not in _WIDTHS:
        return

    def cut_in_word(line: str, below: str) -> str | None:
        return line if len(line) == width and not below[0].isspace() else None

    def cut_hard(line: str, _below: str) -> str | None:
        return line if len(line) == width else None

    def cut_at_blank(line: str, below: str) -> str | None:
        return line if line.endswith(" ") and _overflows(line, below, width) else None

    def cut_at_lost_blank(line: str, below: str) -> str | None:
        return f"{line} " if _overflows(f"{line} ", below, width) else None

    ways = (cut_in_word, cut_hard, cut_at_blank, *((cut_at_lost_blank,) if lost_blanks else ()))
    for way in ways:
        joined = _join(lines, way)
        if joined != text:
            yield joined


def _overflows(line: str, below: str, width: int) -> bool:
    """Return whether what begins the line below, a word and a blank, or one blank, had no room
    above.
    """
    word = below.split(maxsplit=1)[:1]
    return bool(word) and len(line) + (0 if below[0].isspace() else len(word[0])) >= width


def _join(lines: list[str], begins: Callable[[str, str], str | None]) -> str:
    """Return the lines, each joined with the one below where `begins` gives the
    beginning of both.
    """
    parts: list[str] = []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        # The tools' own count and an elision stand alone; joined they would lose their meaning.
        alone = not below or _COUNT.match(line) or _COUNT.match(below) or _ELISION.fullmatch(below)
        beginning = None if alone else begins(line, below)
        parts += [f"{line}\n"] if beginning is None else [beginning]
    return "".join(parts).removesuffix("\n")
