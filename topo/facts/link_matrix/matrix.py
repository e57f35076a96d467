"""The device matrix that several vendors print alike, read into a `LinkMatrix`.

Result: how every GPU reaches every other GPU and NIC. `mx-smi topo -m|-n`, `nvidia-smi topo -m` and
`npu-smi info -t topo` share one grammar: a header of device names and affinity headings, one row
per device, a legend, a legend of NICs.

A text that is cut is read as far as it is certain:

- One GPU row that is missing or short is completed from its column. That is right because the tools
  print symmetric matrices: the cell (a, b) is printed again as (b, a).
- Of two such rows a and b nobody has printed the cells (a, b) and (b, a). The text is refused, for
  a node with seven of its eight GPUs would be a false statement.
- NIC rows that are missing or short are left out with a warning. The GPU rows still state how GPUs
  reach NICs.
- A header that does not end where its rows do, and rows that go on without a device's name, are
  lines that a terminal or a mail folded. Such a text is refused: what is left of each line would be
  a smaller host. So is one that names fewer GPUs than its "Attached GPUs" counts.
- The last cell of a text without a final line break may be the beginning of a longer code: `NV1` of
  `NV18`. It is dropped, which makes its row short.

Cost: O(length of the text).

Example: the text ends in the middle of the row of GPU2.

            GPU0  GPU1  GPU2
      GPU0   X    NV4   SYS
      GPU1  NV4    X    PHB
      GPU2  SY

`SY` is in no legend, so the last line is no row. The row of GPU2 is missing and is completed from
the column of GPU2: SYS, PHB, and X for itself. The answer has a warning.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from topo.facts.link_matrix import affinity, codes
from topo.facts.link_matrix.affinity import NO_CELLS, Place
from topo.facts.link_matrix.lines import DEVICES, Grammar, MatrixHeader, MatrixRow
from topo.facts.reader import Mark, Reader
from topo.facts.reading import gpu_list
from topo.facts.reading.text import MAX_LINE, WHOLE_TEXT, bounded, numbered_lines, shorten
from topo.model.errors import Refusal
from topo.model.machine import MAX_GPUS, MAX_NICS, Link, LinkKind, LinkMatrix
from topo.model.observation import ParsedProbe

_PARED_ESCAPE = re.compile(r"\[(?:[0-9]{1,3}(?:;[0-9]{1,3}){0,4})?m(?=\s|[A-Z]|$)", re.ASCII)
"""What a web page leaves of an ANSI colour: the escape character is gone, `[4m` stays."""
_NIC_LEGEND = re.compile(r"\s*(NIC[0-9]{1,3})\s*:\s*(\S{1,64})\s*", re.ASCII)
_ANYTHING = re.compile("")
_TELLING_DEVICES = DEVICES[:3]
"""A text without any of these words holds no matrix; others are too common in prose."""
_COUNTED = "GPU"
"""These are numbered from 0 without gaps; the numbers of Ascend's `Phy-ID` are the host's."""
_UNCUT = "NV?"
_UNFOLD = "give the output from a file or a wider terminal, so that no line is folded"
_RULE = frozenset(" \t-=_+|")
_MAX_STRAYS = 16


@dataclass(slots=True)
class _Reading:
    """What has been understood of the text so far."""

    grammar: Grammar
    fix: str
    head: MatrixHeader | None = None
    rows: dict[str, MatrixRow] = field(default_factory=dict)
    nic_names: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    trouble: Refusal | None = None
    last_line: int = 0
    """That of the header, then of the last row."""
    strays: list[tuple[int, str]] = field(default_factory=list)
    """The lines since then that are no rows."""

    def refuse(self, what: str, where: str, fix: str) -> None:
        """The first finding counts."""
        self.trouble = self.trouble or Refusal(what, where, fix)


def reader(
    name: str,
    command: str,
    mark: Mark,
    pattern: re.Pattern[str] = _ANYTHING,
    *,
    devices: Sequence[str] = (),
) -> Reader:
    """The reader of a matrix that `command` prints, recognised by its shape and `pattern`.

    `devices` are words for devices that are not among `DEVICES`.
    """
    grammar = Grammar((*DEVICES, *devices))
    words = (*_TELLING_DEVICES, *devices)

    def recognises(text: str) -> bool:
        likely = any(word in text for word in words)
        return likely and grammar.has_matrix(text) and pattern.search(text) is not None

    def read(text: str) -> ParsedProbe | Refusal:
        return _read(grammar, text, name, command)

    def begins(text: str) -> Iterator[int]:
        at = 0
        for line in text.split("\n"):
            if len(line) <= MAX_LINE and grammar.begins_header(_PARED_ESCAPE.sub("", line)):
                yield at
            at += len(line) + 1

    return Reader(name, mark, recognises, read, command=command, gives=("matrix",), begins=begins)


def _read(grammar: Grammar, text: str, name: str, command: str) -> ParsedProbe | Refusal:
    """The first matrix in `text` as one `LinkMatrix`; `command` is what printed it. O(len(text)).

    Refused: no header, two GPU rows missing or short, one shifted or doubled, more devices than
    `MAX_GPUS` and `MAX_NICS`.
    """
    reading = _Reading(grammar, f"run `{command}` again and give its whole output")
    for number, line in numbered_lines(text):
        plain = _PARED_ESCAPE.sub("", line) if "[" in line else line
        if not _note_line(reading, number, plain):
            break
    if reading.head is None:
        return _no_header(reading, text)
    if not text.endswith("\n"):
        _drop_uncertain_cell(reading, text.count("\n") + 1)
    _judge_what_follows(reading.head, reading)
    _settle_glued(reading.head, reading)
    refusal = (
        reading.trouble
        or _unusable(reading.head, reading)
        or _miscounted(reading.head, reading, gpu_list.attached(text))
        or _complete_one_row(reading.head, reading)
    )
    if refusal is not None:
        return refusal
    matrix = _matrix(reading.head, reading)
    return ParsedProbe(name, (matrix,), bounded(reading.warnings))


def _note_line(reading: _Reading, number: int, line: str) -> bool:
    """Adds one line; False when the matrix is over and the rest need not be read."""
    head = reading.grammar.header(number, line)
    if head is not None:
        if reading.rows:
            reading.warnings.append(f"line {number}: a second matrix follows and was not read")
            return False
        if reading.head is not None and reading.head.columns != head.columns:
            what = "two headers follow each other without a row between: the lines are folded"
            reading.refuse(what, f"lines {reading.head.line} and {number}", _UNFOLD)
        reading.head, reading.last_line = head, number
        reading.strays.clear()
    elif reading.head is not None:
        nic = _NIC_LEGEND.fullmatch(line)
        if nic is not None:
            reading.nic_names.setdefault(nic.group(1), nic.group(2))
        else:
            _note_row(reading.head, reading, number, line)
    return True


def _note_row(head: MatrixHeader, reading: _Reading, number: int, line: str) -> None:
    named = reading.grammar.row(head, number, line)
    if named is None:
        if not _RULE.issuperset(line) and len(reading.strays) < _MAX_STRAYS:
            reading.strays.append((number, line))
        return
    _judge_what_stands_between(head, reading)
    name, row = named
    reading.last_line = number
    known = reading.rows.setdefault(name, row)
    if known.codes != row.codes:
        reading.refuse(
            f"row {name} appears twice and differs",
            f"lines {known.line} and {row.line}",
            "give the output of one run of the command",
        )


def _judge_what_stands_between(head: MatrixHeader, reading: _Reading) -> None:
    """Lines between the header and the last row have to be rows; others are refused or told."""
    for number, line in reading.strays:
        if reading.grammar.is_rest(head, line, of_header=True):
            _refuse_folded(reading, number)
        elif not _refuse_stranger(head, reading, number, line):
            quoted = shorten(line, 40)
            reading.warnings.append(f"line {number}, among the rows, is no row: {quoted}")
    reading.strays.clear()


def _judge_what_follows(head: MatrixHeader, reading: _Reading) -> None:
    """The lines right below the last row may be its rest, or rows of GPUs without a column."""
    for below, (number, line) in enumerate(reading.strays, start=reading.last_line + 1):
        if number != below:
            break
        if reading.grammar.is_rest(head, line, of_header=False):
            _refuse_folded(reading, number)
        else:
            _refuse_stranger(head, reading, number, line)


def _refuse_folded(reading: _Reading, number: int) -> None:
    what = "the line goes on where the one above ended, without a device's name: lines are folded"
    reading.refuse(what, f"line {number}", _UNFOLD)


def _refuse_stranger(head: MatrixHeader, reading: _Reading, number: int, line: str) -> bool:
    name = reading.grammar.stranger(head, line)
    if name:
        what = f"row {name} has no column: the header is cut, or its line is folded"
        reading.refuse(what, f"line {number}", _UNFOLD)
    return bool(name)


def _settle_glued(head: MatrixHeader, reading: _Reading) -> None:
    """Decides rows that can be cut in several ways by the cell that states the same link again."""
    facing = reading.rows.get(tuple(head.columns)[-1])
    for name, row in reading.rows.items():
        if row.others:
            at = head.columns[name]
            said = facing.codes[at] if facing and at < len(facing.codes) else ""
            ways = [way for way in (row, *row.others) if way.codes[-1] == said]
            unsaid = replace(row, codes=(*row.codes[:-1], _UNCUT), affinity=NO_CELLS)
            reading.rows[name] = replace(ways[0] if ways else unsaid, others=())


def _drop_uncertain_cell(reading: _Reading, last_line: int) -> None:
    """Drops a cell that the end of the text may have cut: `NV1` may have been `NV18`."""
    for name, row in reading.rows.items():
        if row.line == last_line and row.open and codes.may_grow(row.codes[-1]):
            reading.rows[name] = replace(row, codes=row.codes[:-1])


def _no_header(reading: _Reading, text: str) -> Refusal:
    fix = reading.fix
    first = reading.grammar.first_row(text)
    if first is None:
        return Refusal("no device matrix in the text", WHOLE_TEXT, fix)
    line, name = first
    what = f"the header row that names the columns is missing above row {name}"
    return Refusal(what, f"line {line}", fix)


def _unusable(head: MatrixHeader, reading: _Reading) -> Refusal | None:
    """What forbids to use a header or a row at all, the first finding in reading order."""
    where = f"line {head.line}"
    if len(head.gpus) > MAX_GPUS or len(head.nics) > MAX_NICS:
        found = f"{len(head.gpus)} GPUs and {len(head.nics)} NICs"
        return Refusal(f"{found} are more than {MAX_GPUS} and {MAX_NICS}", where, reading.fix)
    if head.twice:
        return Refusal(f"column {head.twice} appears twice", where, reading.fix)
    for name in head.gpus:
        row = reading.rows.get(name)
        wrong = _shifted(head, name, row) if row else ""
        if row and wrong:
            return Refusal(f"row {name} {wrong}", f"line {row.line}", reading.fix)
    return None


def _shifted(head: MatrixHeader, name: str, row: MatrixRow) -> str:
    """Why the cells of a row cannot belong to its columns, or nothing."""
    if row.surplus:
        return f"has more link cells than the header has columns ({shorten(row.surplus, 16)})"
    at = head.columns[name]
    if "X" in row.codes and (at >= len(row.codes) or row.codes[at] != "X"):
        column = tuple(head.columns)[row.codes.index("X")]
        return f"has its X in column {column}: cells are shifted"
    if at < len(row.codes) and row.codes[at] != "X":
        return f"has {shorten(row.codes[at], 16)} in its own column, where X belongs"
    return ""


def _miscounted(head: MatrixHeader, reading: _Reading, attached: int | None) -> Refusal | None:
    """Why the header cannot be whole; what is odd and possible is a warning."""
    if attached is not None and attached > len(head.gpus):
        what = f"{attached} GPUs are attached and the header names {len(head.gpus)}"
        return Refusal(what, f"line {head.line}", _UNFOLD)
    numbers = [int(name[len(_COUNTED) :]) for name in head.gpus if name.startswith(_COUNTED)]
    gaps = [f"{_COUNTED}{n}" for n in range(max(numbers, default=0)) if n not in numbers]
    if gaps:
        named = ", ".join(gaps[:8]) + (", …" if len(gaps) > 8 else "")
        reading.warnings.append(f"the header has {len(head.gpus)} GPUs and not {named}")
    return None


def _whole(head: MatrixHeader, reading: _Reading, name: str) -> bool:
    row = reading.rows.get(name)
    return row is not None and len(row.codes) == len(head.columns) and not _shifted(head, name, row)


def _complete_one_row(head: MatrixHeader, reading: _Reading) -> Refusal | None:
    """Fills in the one GPU row that is missing or cut from its column; refuses for two."""
    cut = [name for name in head.gpus if not _whole(head, reading, name)]
    if not cut:
        return None
    name, total = cut[0], len(head.columns)
    short = reading.rows.get(name)
    state = f"has {len(short.codes)} of {total} link cells" if short else "is missing"
    others = [other for other in head.columns if other != name]
    if len(cut) > 1 or not all(_whole(head, reading, other) for other in others) or not others:
        whole = len(head.gpus) - len(cut)
        line = short.line if short else max((r.line for r in reading.rows.values()), default=1)
        what = f"row {name} {state}: {whole} of {len(head.gpus)} GPU rows are whole"
        return Refusal(what, f"line {line}" if short else f"after line {line}", reading.fix)
    at = head.columns[name]
    cells = ("X" if c == name else reading.rows[c].codes[at] for c in head.columns)
    reading.rows[name] = replace(short or MatrixRow(0, ()), codes=tuple(cells), affinity=NO_CELLS)
    reading.warnings.append(f"row {name} {state}: completed from column {name}")
    return None


def _matrix(head: MatrixHeader, reading: _Reading) -> LinkMatrix:
    """The matrix with GPUs first, and NIC rows only when all of them are whole."""
    cut = [name for name in head.nics if not _whole(head, reading, name)]
    if cut:
        reading.warnings.append(
            f"rows of {len(cut)} of {len(head.nics)} NICs are missing or cut ({cut[0]} is the "
            "first): NIC rows are left out"
        )
    unnamed = [nic for nic in head.nics if reading.nic_names and nic not in reading.nic_names]
    if unnamed:
        many = f"{len(unnamed)} of {len(head.nics)} NICs"
        reading.warnings.append(f"the NIC legend lacks {many} ({unnamed[0]} is the first)")
    order = [head.columns[name] for name in head.gpus + head.nics]
    shown = head.gpus + (() if cut else head.nics)
    links = tuple(tuple(codes.link(reading.rows[n].codes[i]) for i in order) for n in shown)
    unknown = [cell.code for row in links for cell in row if cell.kind is LinkKind.UNKNOWN]
    if unknown:
        named = ", ".join(sorted(set(unknown))[:8])
        reading.warnings.append(f"link codes in no legend known to this version: {named}")
    reading.warnings.extend(_asymmetries(head.gpus, links))
    places = affinity.places([reading.rows[name].affinity for name in head.gpus])
    reading.warnings.extend(_doubts(head.gpus, places))
    return LinkMatrix(
        gpus=head.gpus,
        nics=tuple(reading.nic_names.get(name, name) for name in head.nics),
        links=links,
        numa=tuple(place.numa for place in places),
        cpus=tuple(place.cpus for place in places),
        unknown_codes=len(unknown),
    )


def _asymmetries(gpus: tuple[str, ...], links: tuple[tuple[Link, ...], ...]) -> Iterator[str]:
    for i, one in enumerate(gpus):
        for j in range(i):
            there, back = links[i][j].code, links[j][i].code
            if there != back:
                yield f"{one} calls its link to {gpus[j]} {there}, {gpus[j]} calls it {back}"


def _doubts(gpus: tuple[str, ...], places: Sequence[Place]) -> Iterator[str]:
    """A warning per doubt, with the GPUs that share it."""
    shared: dict[str, list[str]] = {}
    for name, place in zip(gpus, places, strict=True):
        if place.doubt:
            shared.setdefault(place.doubt, []).append(name)
    for doubt, names in shared.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"{names[0]}{more}: {doubt}"
