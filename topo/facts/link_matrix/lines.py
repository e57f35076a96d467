"""The lines of a device matrix: which line is its header, which are rows, what a row states.

White space differs over versions, terminals and web pages, so cells are read by the vocabulary of
`codes` and never by position; only the affinity cells behind them, which may be empty, are placed
by tabs or offsets.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from topo.facts.link_matrix import codes
from topo.facts.reading.text import numbered_lines

DEVICES = ("GPU", "NPU", "Phy-ID", "DCU", "MLU")
"""The words with which tools that print such matrices name devices."""
_AFFINITIES = re.compile(
    r"(CPU Affinity)|((?:NUMA|Node) Affinity)|(GPU NUMA ID)|\b(NUMA)[ \t]{0,64}$", re.ASCII
)
_OTHER_NAME = re.compile(r"(?=\D*[0-9])[A-Za-z][\w.:-]{1,63}", re.ASCII)
_WORD = re.compile(r"\S+")
_TAB_STOP = 8


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

    `open`: the line ends with the last link cell.
    """

    line: int
    codes: tuple[str, ...]
    affinity: dict[str, str] = field(default_factory=dict)
    surplus: str = ""
    open: bool = False


class Grammar:
    """What a line is, for matrices whose devices are named by these words and a number."""

    def __init__(self, devices: Sequence[str] = DEVICES) -> None:
        device = rf"(?:{'|'.join(devices)})[0-9]{{1,3}}"
        self._gpu = re.compile(device, re.ASCII)
        self._name = re.compile(rf"{device}|NIC[0-9]{{1,3}}", re.ASCII)
        self._glued_names = re.compile(rf"(?:{device}|NIC[0-9]{{1,3}})+", re.ASCII)
        self._row_start = re.compile(rf"^[ \t]*({device})[ \t]*(\S+)", re.MULTILINE | re.ASCII)

    def first_row(self, text: str) -> tuple[int, str] | None:
        """Line and device name of the first thing that looks like a matrix row. O(len(text))."""
        for match in self._row_start.finditer(text):
            if codes.is_code(match.group(2)[:512]):
                return text.count("\n", 0, match.start()) + 1, match.group(1)
        return None

    def has_matrix(self, text: str) -> bool:
        """Whether `text` has a row of a device matrix, or at least its header. O(len(text))."""
        if self.first_row(text) is not None:
            return True
        lines = numbered_lines(text) if "Affinity" in text else ()
        return any(self.header(n, line) for n, line in lines if "Affinity" in line)

    def header(self, number: int, line: str) -> MatrixHeader | None:
        """The header on this line, or None: every word must be a device name or a heading."""
        if self._gpu.search(line) is None:
            return None
        headings = tuple((_meaning(m), m.start()) for m in _AFFINITIES.finditer(line))
        names: list[str] = []
        for word in _AFFINITIES.sub(" ", line).split():
            if self._glued_names.fullmatch(word):
                names += self._name.findall(word)
            elif _OTHER_NAME.fullmatch(word) and not codes.is_code(word):
                names.append(word)
            else:
                return None
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

    def row(self, head: MatrixHeader, number: int, line: str) -> tuple[str, MatrixRow] | None:
        """The row on this line with its name, or None for prose: one cell must be a known code."""
        start = _WORD.search(line)
        if start is None:
            return None
        name, at = start.group(), start.end()
        if name not in head.columns:
            glued = self._name.match(name)
            if glued is None or glued.group() not in head.columns:
                return None
            name, at = glued.group(), start.start() + glued.end()
        cells, last_cell, at = _cells(line, at, len(head.columns))
        if not any(codes.is_code(cell) for cell in cells):
            return None
        tail = line[at:]
        surplus = next((w for w in tail.split() if codes.is_code(w) and w not in {"N/A", "NA"}), "")
        whole = len(cells) == len(head.columns)
        affinity = _affinity(head, line, last_cell, at) if whole else {}
        return name, MatrixRow(number, tuple(cells), affinity, surplus, at == len(line))


def _cells(line: str, at: int, wanted: int) -> tuple[list[str], int, int]:
    """At most `wanted` link codes from offset `at`, where the last one's word begins, and ends."""
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


def _affinity(head: MatrixHeader, line: str, last_cell: int, at: int) -> dict[str, str]:
    """The affinity cells behind the link cells, by heading; empty cells are left out.

    With tabs the cells are counted. Without, and with fewer cells than headings, a cell under its
    heading is taken as such (mx-smi aligns them), else a gap of two tab stops after the last link
    cell is an empty first cell (nvidia-smi's tabs, expanded by a terminal).
    """
    headings = [meaning for meaning, _ in head.headings]
    tail = line[at:]
    if "\t" in tail:
        cells = [cell.strip() for cell in tail.split("\t")]
        placed = zip(headings, cells if cells[0] else cells[1:], strict=False)
        return {meaning: cell for meaning, cell in placed if cell}
    words = [(m.group(), m.start()) for m in _WORD.finditer(line, at)]
    if 0 < len(words) < len(headings):
        under = {offset: meaning for meaning, offset in head.headings}
        if all(offset in under for _, offset in words):
            return {under[offset]: word for word, offset in words}
        if words[0][1] // _TAB_STOP - last_cell // _TAB_STOP >= 2:
            headings = headings[1:]
    return dict(zip(headings, (word for word, _ in words), strict=False))


def _meaning(heading: re.Match[str]) -> str:
    if heading.group(1):
        return "cpus"
    return "other" if heading.group(3) else "numa"
