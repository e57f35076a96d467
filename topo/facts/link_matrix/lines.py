"""The lines of a device matrix: which line is its header, which are rows, what a row states.

White space differs over versions, terminals and web pages, so cells are read by the vocabulary of
`codes` and never by position; the affinity cells behind them, which may be empty, are placed by
`affinity`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from topo.facts.link_matrix import affinity, codes
from topo.facts.link_matrix.affinity import NO_CELLS, Cells
from topo.facts.reading.text import numbered_lines
from topo.model.machine import MAX_DEVICES

DEVICES = ("GPU", "NPU", "Phy-ID", "DCU", "MLU")
"""The words with which tools that print such matrices name devices."""
_AFFINITIES = re.compile(
    r"(CPU\s{1,8}Affinity)|((?:NUMA|Node)\s{1,8}Affinity)|(GPU\s{1,8}NUMA(?:\s{1,8}ID)?)"
    r"|\b(NUMA)(?=\s|$)",
    re.ASCII,
)
_HEADING_END = re.compile(r"^(?:CPU|NUMA|Node|GPU|ID|[Afinty]{1,8})$", re.ASCII)
_OTHER_NAME = re.compile(r"(?=\D*[0-9])[A-Za-z][\w.:-]{1,63}", re.ASCII)
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class MatrixHeader:
    """The names over the columns. `columns` maps each to its index; `twice` is a doubled one."""

    line: int
    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    columns: dict[str, int]
    headings: tuple[tuple[str, int], ...]
    """(`cpus` | `numa` | `other`, offset in the line) of each affinity heading, left to right."""
    twice: str = ""


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One device's cells. `surplus` is a link code behind the last column, if there is one.

    `open`: the line ends with the last link cell. `others`: the same row with its last code cut
    elsewhere, where that code is glued to the CPU list behind it.
    """

    line: int
    codes: tuple[str, ...]
    affinity: Cells = NO_CELLS
    surplus: str = ""
    open: bool = False
    others: tuple["MatrixRow", ...] = ()


class Grammar:
    """What a line is, for matrices whose devices are named by these words and a number."""

    def __init__(self, devices: Sequence[str] = DEVICES) -> None:
        device = rf"(?:{'|'.join(devices)})[0-9]{{1,3}}"
        self._gpu = re.compile(device, re.ASCII)
        self._name = re.compile(rf"{device}|NIC[0-9]{{1,3}}", re.ASCII)
        self._glued_names = re.compile(
            rf"((?:{device}|NIC[0-9]{{1,3}})+)([A-Za-z][\w.:-]{{1,63}})?", re.ASCII
        )
        self._row_start = re.compile(rf"^[ \t]*({device})[ \t]*(\S+)", re.MULTILINE | re.ASCII)

    def first_row(self, text: str) -> tuple[int, str] | None:
        """Return line and device name of the first text that looks like a row. O(len(text))."""
        for match in self._row_start.finditer(text):
            if codes.is_code(match.group(2)[:512]):
                return text.count("\n", 0, match.start()) + 1, match.group(1)
        return None

    def has_matrix(self, text: str) -> bool:
        """Return whether `text` has a row of a device matrix, or at least its header.
        O(len(text)).
        """
        if self.first_row(text) is not None:
            return True
        lines = numbered_lines(text) if "Affinity" in text else ()
        return any(self.header(n, line) for n, line in lines if "Affinity" in line)

    def header(self, number: int, line: str) -> MatrixHeader | None:
        """Return the header on this line, or None: every word must be a device name or
        a heading.
        """
        if self._gpu.search(line) is None:
            return None
        headings = tuple((_meaning(m), m.start()) for m in _AFFINITIES.finditer(line))
        names: list[str] = []
        for word in _AFFINITIES.sub(" ", line).split():
            parts = self._names(word)
            if not parts:
                return None
            names += parts
        # A row of a matrix of one column looks the same; a header is indented or has headings.
        if len(names) == 1 and not headings and not line[:1].isspace():
            return None
        columns: dict[str, int] = {}
        twice = ""
        for name in names:
            twice = twice or (name if name in columns else "")
            columns.setdefault(name, len(columns))
        gpus = tuple(name for name in columns if self._gpu.fullmatch(name))
        nics = tuple(name for name in columns if not self._gpu.fullmatch(name))
        return MatrixHeader(number, gpus, nics, columns, headings, twice) if gpus else None

    def begins_header(self, line: str) -> bool:
        """Return whether a header is or begins on this line: two names lead it."""
        words = line.split(maxsplit=2)[:2]
        led = len(words) == 2 and self._gpu.match(words[0]) and all(map(self._names, words))
        return bool(led) or self.header(0, line) is not None

    def row(self, head: MatrixHeader, number: int, line: str) -> tuple[str, MatrixRow] | None:
        """Return the row on this line with its name, or None for prose: one cell must be a known
        code.
        """
        start = _WORD.search(line)
        if start is None:
            return None
        name, at = start.group(), start.end()
        if name not in head.columns:
            glued = self._name.match(name)
            if glued is None or glued.group() not in head.columns:
                return None
            name, at = glued.group(), start.start() + glued.end()
        cells, begin, at = _cells(line, at, len(head.columns))
        if not any(codes.is_code(cell) for cell in cells):
            return None
        tail = line[at:]
        surplus = next((w for w in tail.split() if codes.is_code(w) and w not in {"N/A", "NA"}), "")
        row = MatrixRow(number, tuple(cells), surplus=surplus, open=at == len(line))
        # A short row is cut: where its last code ends cannot be settled by a CPU list.
        if len(cells) < len(head.columns):
            return name, row
        first, *others = _endings(head, row, line, (begin, at))
        return name, replace(first, others=tuple(others))

    def is_rest(self, head: MatrixHeader, line: str, *, of_header: bool) -> bool:
        """Return whether a line without a row's name holds nothing but cells: the rest of a folded
        line.

        With `of_header` the names and headings of columns count as well.
        """
        words = line.split()
        if not words or len(words) > MAX_DEVICES or words[0] in head.columns:
            return False
        return all(
            codes.is_rest(word)
            or affinity.is_cpu_list(word.strip(",-"))
            or (of_header and (bool(self._names(word)) or _HEADING_END.search(word) is not None))
            for word in words
        )

    def stranger(self, head: MatrixHeader, line: str) -> str:
        """Return the device of a row that has no column, or nothing."""
        row = self._row_start.match(line)
        name, code = row.groups() if row else [*line.split(maxsplit=2), "", ""][:2]
        named = row is not None or self._names(name) == [name]
        return name if named and name not in head.columns and codes.is_code(code[:512]) else ""

    def _names(self, word: str) -> list[str]:
        """Return the devices that a word of the header names, several where the tool glued them."""
        glued = self._glued_names.fullmatch(word)
        last = glued.group(2) if glued else word
        if last and (_OTHER_NAME.fullmatch(last) is None or codes.is_code(last)):
            return []
        return [*(self._name.findall(glued.group(1)) if glued else ()), *([last] if last else ())]


def _endings(
    head: MatrixHeader, row: MatrixRow, line: str, last: tuple[int, int]
) -> list[MatrixRow]:
    """Return the row for each place where its last code may end; `last` is where that word begins,
    ends.

    Ways that leave no CPU list behind are left out, unless none does.
    """
    begin, at = last
    code = row.codes[-1]
    ways = []
    for way in codes.endings(code, line[at:]):
        cells = affinity.cells(head.headings, line, begin, at - len(code) + len(way))
        ways.append(replace(row, codes=(*row.codes[:-1], way), affinity=cells))
    return [way for way in ways if affinity.is_cpu_list(way.affinity.cpus)] or ways[:1]


def _cells(line: str, at: int, wanted: int) -> tuple[list[str], int, int]:
    """Return at most `wanted` link codes from offset `at`, with begin and end of the last one."""
    cells: list[str] = []
    begin = at
    for match in _WORD.finditer(line, at):
        parts = codes.cut(match.group(), wanted - len(cells))
        if parts is None:
            break
        cells += parts[0]
        begin, at = match.start(), match.start() + parts[1]
        if len(cells) == wanted:
            break
    return cells, begin, at


def _meaning(heading: re.Match[str]) -> str:
    if heading.group(1):
        return "cpus"
    return "other" if heading.group(3) else "numa"
