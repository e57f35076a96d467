"""Where in a log outputs of a format may begin, by the shape of their lines.

Each function makes a `topo.facts.reader.Begins` of a pattern that starts with `^` and is compiled
with MULTILINE; see `topo/facts/outputs.py`. Both are linear in the length of the text.
"""

import re
from collections.abc import Callable, Iterator

_Begins = Callable[[str], Iterator[int]]


def titles(pattern: re.Pattern[str]) -> _Begins:
    """Return the places of all matches: each is a title, which begins an output."""

    def find_starts(text: str) -> Iterator[int]:
        return (match.start() for match in pattern.finditer(text))

    return find_starts


def repeats(pattern: re.Pattern[str]) -> _Begins:
    """Return the first match, and each match whose name (group 1) the output has already.

    So it is with lines of which an output has one per device: GPU 0 again is another output.
    """

    def find_starts(text: str) -> Iterator[int]:
        seen: set[str] = set()
        for match in pattern.finditer(text):
            name = match.group(1)
            if not seen or name in seen:
                seen.clear()
                yield match.start()
            seen.add(name)

    return find_starts
