"""What other programs put around an output, taken off: a prefix on every line, or JSON.

Result: the text as its tool printed it, or the text itself where nothing is around it. A prefix
comes off only where every line that is not blank has one of the same kind. Times may differ;
whoever else a prefix names (a host, a task, a pod, a service) must be the same on all lines, for
the lines of two hosts are two outputs. What is left is what the reader would have got, so a text
with prefixes is read as the plain one or refused, and never otherwise.

Cost: O(length of the text) for each kind that fits its first two lines, at most four kinds deep.
Few texts have a prefix, and for the others two lines decide.

Example: `kubectl logs --prefix --timestamps` prints both of its prefixes:

    [pod/probe/smi] 2026-05-06T07:08:09.123456789Z GPU 0: NVIDIA H100 (UUID: GPU-1182579c)
    [pod/probe/smi] 2026-05-06T07:08:09.123461234Z <tab> Link 0: 26.562 GB/s
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

MOST_DEEP = 4
MOST_SOURCES = 64
"""Of so many sources the texts are told apart; the first ones show whether they are outputs."""
_TIME = (
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"  # RFC 3339, and what loggers make of it
    r"(?:Z|[+-]\d\d:?\d\d)?"
)
_SYSLOG_TIME = r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d"
_PROGRAM = r"[\w.-]{1,80} [\w./@-]{1,80}(?:\[\d{1,10}\])?"


@dataclass(frozen=True, slots=True)
class LinePrefix:
    """One kind of prefix, with one of its kind as documentation shows it.

    Group `who` of the pattern is what all lines have to share.
    """

    name: str
    example: str
    pattern: re.Pattern[str]


def _kind(name: str, example: str, pattern: str) -> LinePrefix:
    # Whoever drops blanks at the ends of lines drops the blank of a prefix before nothing.
    return LinePrefix(name, example, re.compile(rf"(?:{pattern})(?: |\Z)", re.ASCII))


KINDS = (
    # A part of a line (tag P) is none of its lines: blanks at its end may be gone.
    _kind("CRI log", "2026-05-06T07:08:09.1Z stdout F", rf"{_TIME} std(?:out|err) F"),
    _kind(
        "syslog, RFC 5424",
        "<14>1 2026-05-06T07:08:09Z node-1 smi 47 - -",
        rf"<\d{{1,3}}>1 {_TIME} (?P<who>\S+ \S+ \S+ \S+) -",
    ),
    _kind(
        "syslog with ISO times",
        "2026-05-06T07:08:09Z node-1 smi[47]:",
        rf"{_TIME} (?P<who>{_PROGRAM}):",
    ),
    _kind("timestamps of `kubectl logs`, `docker logs`", "2026-05-06T07:08:09.1Z", _TIME),
    _kind(
        "timestamps in brackets",
        "[2026-05-06T07:08:09.1Z]",
        rf"\[(?:{_TIME}| {{0,8}}\d{{1,9}}\.\d{{6}})\]",
    ),
    _kind(
        "syslog, journalctl",
        "May  6 07:08:09 node-1 smi[47]:",
        rf"(?:<\d{{1,3}}>)?{_SYSLOG_TIME} (?P<who>{_PROGRAM}):",
    ),
    _kind("timestamps of `ts`", "May 06 07:08:09", _SYSLOG_TIME),
    _kind("`kubectl logs --prefix`", "[pod/probe/smi]", r"\[(?P<who>[a-z]+/[\w.-]+/[\w.-]+)\]"),
    _kind("`docker compose`", "worker-1  |", r"(?P<who>[A-Za-z0-9][\w.-]{0,80}) *\|"),
    _kind("`pdsh`, `clush`", "node-1:", r"(?P<who>[A-Za-z][\w.-]{0,80}):"),
    _kind("`srun -l`", "0:", r" {0,8}(?P<who>\d{1,6}):"),
    LinePrefix("`cat -n`", "     1\t", re.compile(r" {0,8}\d{1,6}(?:\t|\Z)", re.ASCII)),
    LinePrefix("quotation", "> ", re.compile(r"> ?")),
)
"""In order: of two that fit, the one that takes more."""
_FILLED = re.compile(r"^[^\S\n]*\S.*", re.MULTILINE)
_BARE_QUOTE = re.compile(r'(?<!\\)"')
_DOCKER = frozenset({"log", "stream", "time", "attrs"})
_LOG_ENTRY = '{"log":'
_CAPTURED = ("stdout", "output")


def without(text: str) -> str:
    """Return the text without what is around it, or the same object where nothing is."""
    return layers(text)[-1]


def layers(text: str) -> list[str]:
    """Return the text, and the text inside each thing that is around it, from the outside in."""
    found = [text]
    while len(found) <= MOST_DEEP:
        bare = _from_json(found[-1]) or _from_lines(found[-1])
        if bare is None:
            break
        found.append(bare)
    return found


def sources(text: str) -> Mapping[str, str]:
    """Return the text of each host, task, pod or service where all lines name one, and several
    do; of the first `MOST_SOURCES` where there are more. O(len(text)).
    """
    for kind in _fitting(text):
        if "who" in kind.pattern.groupindex:
            parts = _by_source(kind, text.split("\n"))
            if len(parts) > 1:
                return parts
    return {}


def _by_source(kind: LinePrefix, lines: Iterable[str]) -> dict[str, str]:
    """Return the text of each source; nothing where a line has no prefix of this kind."""
    parts: defaultdict[str, list[str]] = defaultdict(list)
    for line in lines:
        match = kind.pattern.match(line)
        if match is None and line.strip():
            return {}
        who = match.group("who") if match else ""
        if match and (who in parts or len(parts) < MOST_SOURCES):
            parts[who].append(line[match.end() :])
    return {who: "\n".join([*part, ""]) for who, part in parts.items()}


def _from_lines(text: str) -> str | None:
    for kind in _fitting(text):
        lines = text.split("\n")
        found = _matches(kind, lines)
        if found is not None and _one_source(kind, found):
            return _stripped(lines, found)
    return None


def _fitting(text: str) -> Iterable[LinePrefix]:
    """Return the kinds that the first two lines have; one alone says nothing about every line."""
    first = [match.group() for match in islice(_FILLED.finditer(text), 2)]
    if len(first) < 2:
        return []
    return [kind for kind in KINDS if all(map(kind.pattern.match, first))]


def _matches(kind: LinePrefix, lines: list[str]) -> list[re.Match[str] | None] | None:
    """Return the prefix of each line, None for blank ones; None where a line has no prefix."""
    found: list[re.Match[str] | None] = []
    for line in lines:
        match = kind.pattern.match(line)
        if match is None and line.strip():
            return None
        found.append(match)
    return found


def _one_source(kind: LinePrefix, found: Iterable[re.Match[str] | None]) -> bool:
    if "who" not in kind.pattern.groupindex:
        return True
    return len({match.group("who") for match in found if match is not None}) == 1


def _stripped(lines: list[str], found: list[re.Match[str] | None]) -> str:
    pairs = zip(lines, found, strict=True)
    return "\n".join(line[match.end() :] if match else line for line, match in pairs)


def _from_json(text: str) -> str | None:
    """Return the text in a JSON string, in the lines of Docker's log driver, or in the output that
    a tool captured; None where there is none with several lines.
    """
    bare = text.strip()
    if bare.startswith('"') and bare.endswith('"'):
        found = _loaded(bare)
    elif bare.startswith(_LOG_ENTRY):
        found = _logged(bare.split("\n"))
    elif bare.startswith("{"):
        found = _captured(bare)
    elif "\n" not in bare and "\\n" in bare:
        # What a JSON string holds has no quotes of its own; a label of a metric has.
        found = None if _BARE_QUOTE.search(bare) else _loaded(f'"{bare}"')
    else:
        found = None
    return found if isinstance(found, str) and "\n" in found else None


def _loaded(text: str) -> object:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _logged(lines: Iterable[str]) -> str | None:
    """Return what the lines `{"log": …, "stream": "stdout", "time": …}` of a log file say."""
    parts: list[str] = []
    for line in filter(str.strip, lines):
        entry = _loaded(line) if line.startswith("{") else None
        if not isinstance(entry, dict) or not isinstance(entry.get("log"), str):
            return None
        if not entry.keys() <= _DOCKER:
            return None
        parts.append(entry["log"])
    return "".join(parts)


def _captured(text: str) -> str | None:
    """Return the one output with several lines that an object holds, as Ansible's results do."""
    entry = _loaded(text) if any(f'"{key}"' in text for key in _CAPTURED) else None
    words = [entry.get(key) for key in _CAPTURED] if isinstance(entry, dict) else []
    found = [word for word in words if isinstance(word, str) and "\n" in word]
    return found[0] if len(found) == 1 else None
