"""Patterns in texts of megabytes, searched for in windows: other threads run in between.

A search is one call of C code, and no other thread of the process runs during it: 64 MiB take more
than a second also where the pattern is linear. A window of `WINDOW` characters takes some
milliseconds.

Result: the matches of `re.finditer`, as long as no match looks at more than `OVERLAP` characters,
which formats of lines never do: a match that begins in the last `OVERLAP` characters of a window is
left to the next one. Cost: O(len(text)).

Example: windows of 10 with an overlap of 4 on 16 characters: matches that begin in 0..5, 6..15.
"""

import re
from collections.abc import Iterator

WINDOW = 256 << 10
OVERLAP = 32 << 10


def find_all(
    pattern: re.Pattern[str], text: str, begin: int = 0, end: int | None = None
) -> Iterator[re.Match[str]]:
    """Yield the matches in the text from `begin` to `end`, which do not overlap, in their order."""
    end = len(text) if end is None else end
    while begin < end:
        until = min(begin + WINDOW, end)
        limit = until if until == end else until - OVERLAP
        after = limit
        for match in pattern.finditer(text, begin, until):
            if match.start() >= limit and until < end:
                break
            yield match
            after = max(after, match.end())
        begin = after


def find_first(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the first match; None without one."""
    return next(find_all(pattern, text), None)
