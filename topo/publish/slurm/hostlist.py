"""Slurm's hostlists: many names as one text, `gpu-[01-08,12],login1`, and back.

Format: `scontrol show hostlist` and `hostnames`; slurm.conf(5), "NodeName". A range counts up the
digits at the end of a name and keeps their width: `n[08-10]` is n08, n09, n10. A name without
digits at its end, or with a number above Slurm's own limit, stands for itself. O(n log n).

Example: n9, n10, n08, a-1b are a-1b,n[08,9-10]; that of n10, n09 is n[09-10].
"""

import re
from collections.abc import Iterable, Iterator

from topo.model.errors import Refusal
from topo.model.ids import natural_key

_MAX_DIGITS = 7
"""Slurm counts no further than 2^25 (`MAX_HOST_SUFFIX`) and takes more as a part of the name."""
_NUMBERED = re.compile(rf"(.*?)(\d{{1,{_MAX_DIGITS}}})", re.ASCII | re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9_.][-A-Za-z0-9_.]*", re.ASCII)
_RANGE = re.compile(rf"(\d{{1,{_MAX_DIGITS}}})(?:-(\d{{1,{_MAX_DIGITS}}}))?", re.ASCII)
_PART = re.compile(r"([^\[\],]*)(?:\[([^\[\]]*)\])?(?:,|\Z)")
MAX_NAMES = 1_000_000
"""Names that a text may stand for; ten bytes can stand for more than fit into memory."""


def is_host(name: str) -> bool:
    """Return whether a name can stand in a hostlist: no blank, comma, bracket, quote or `#`."""
    return _NAME.fullmatch(name) is not None


def compress(names: Iterable[str]) -> str:
    """Return the hostlist of the names, each once, in natural order; "" of none."""
    ranges: dict[str, list[str]] = {}
    for name in sorted(set(names), key=natural_key):
        prefix, digits = _split(name)
        ranges.setdefault(prefix if digits else name, []).append(digits)
    return ",".join(
        prefix + (_bracket(found) if found != [""] else "") for prefix, found in _whole(ranges)
    )


def _split(name: str) -> tuple[str, str]:
    """Return the name without the digits at its end, and these; without any if Slurm sees none."""
    match = _NUMBERED.fullmatch(name)
    if match is None or match[1][-1:].isdigit():
        return name, ""
    return match[1], match[2]


def _whole(ranges: dict[str, list[str]]) -> Iterator[tuple[str, list[str]]]:
    """Yield each prefix with its digits; a name that is the prefix of others stands alone."""
    for prefix, found in ranges.items():
        if "" in found and len(found) > 1:
            yield prefix, [""]
            yield prefix, [digits for digits in found if digits]
        else:
            yield prefix, found


def _bracket(found: list[str]) -> str:
    runs: list[list[str]] = []
    for digits in sorted(found, key=lambda each: (int(each), len(each))):
        if runs and digits == f"{int(runs[-1][-1]) + 1:0{len(runs[-1][0])}d}":
            runs[-1].append(digits)
        else:
            runs.append([digits])
    if len(runs) == 1 and len(runs[0]) == 1:
        return runs[0][0]
    shown = (run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"[{','.join(shown)}]"


def expand(text: str) -> tuple[str, ...] | Refusal:
    """Return the names that a hostlist stands for, in its order, or why it is none."""
    names: list[str] = []
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            return Refusal(f"{text[at:][:40]!r} is not a hostlist", "", "write it as n[1-4,7],m2")
        prefix, ranges = match[1].strip(), match[2]
        if ranges is None:
            names += [prefix] if prefix else []
        else:
            for each in ranges.split(","):
                found = _numbers(prefix, each.strip(), MAX_NAMES - len(names))
                if isinstance(found, Refusal):
                    return found
                names += found
        at = match.end()
    return tuple(names)


def _numbers(prefix: str, text: str, most: int) -> list[str] | Refusal:
    match = _RANGE.fullmatch(text)
    if match is None:
        return Refusal(f"{text!r} is not a range", "", "write it as 1-4 or 01-16")
    first, last = match[1], match[2] or match[1]
    count = int(last) - int(first) + 1
    if not 0 < count <= most:
        what = f"{prefix}[{text}] counts down" if count < 1 else f"more than {MAX_NAMES:,} names"
        return Refusal(what, "", "give a range from its smaller number to its larger one")
    return [f"{prefix}{int(first) + step:0{len(first)}d}" for step in range(count)]
