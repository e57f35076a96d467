"""The device matrix that several vendors print alike, read into a `LinkMatrix`.

Result: how every GPU reaches every other GPU and NIC. `mx-smi topo -m|-n`, `nvidia-smi topo -m` and
`npu-smi info -t topo` share one grammar: a header of device names and affinity headings, one row
per device, a legend, a legend of NICs.

A text that is cut is read as far as it is certain:

- One GPU row that is missing or short is completed from its column. That is right because the tools
  print symmetric matrices: the cell (a, b) is printed again as (b, a).
- Of two such rows a and b the cells (a, b) and (b, a) are missing. The text is refused, for
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from topo.facts.link_matrix import affinity, codes
from topo.facts.link_matrix.affinity import NO_CELLS, CpuAffinity
from topo.facts.link_matrix.lines import DEVICES, Grammar, MatrixHeader, MatrixRow
from topo.facts.link_matrix.rows import UNFOLD, MatrixRows
from topo.facts.reader import Mark, Reader
from topo.facts.reading import gpu_list
from topo.facts.reading.text import MAX_LINE, WHOLE_TEXT, bounded, numbered_lines, shorten
from topo.model.errors import Refusal
from topo.model.machine import MAX_GPUS, MAX_NICS, Link, LinkKind, LinkMatrix
from topo.model.observation import ParsedProbe

_PARED_ESCAPE = re.compile(r"\[(?:[0-9]{1,3}(?:;[0-9]{1,3}){0,4})?m(?=\s|[A-Z]|$)", re.ASCII)
"""What a web page leaves of an ANSI colour: the escape character is gone, `[4m` stays."""
_ANYTHING = re.compile("")
_TELLING_DEVICES = DEVICES[:3]
"""A text without any of these words holds no matrix; others are too common in prose."""
_COUNTED = "GPU"
"""These are numbered from 0 without gaps; the numbers of Ascend's `Phy-ID` are the host's."""


def reader(
    name: str,
    command: str,
    mark: Mark,
    pattern: re.Pattern[str] = _ANYTHING,
    *,
    devices: Sequence[str] = (),
) -> Reader:
    """Return the reader of a matrix that `command` prints, recognised by its shape and `pattern`.

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
        return _offsets(text, grammar.begins_header)

    return Reader(name, mark, recognises, read, command=command, gives=("matrix",), begins=begins)


def header_begin(text: str) -> int:
    """Return the offset of the header of the first matrix in `text`, or 0. O(len(text))."""
    grammar = Grammar()
    return next(_offsets(text, lambda line: grammar.header(0, line) is not None), 0)


def _offsets(text: str, is_wanted: Callable[[str], bool]) -> Iterator[int]:
    """Return the offsets of the lines that are wanted, each judged without colours."""
    at = 0
    for line in text.split("\n"):
        if len(line) <= MAX_LINE and is_wanted(_PARED_ESCAPE.sub("", line)):
            yield at
        at += len(line) + 1


def _read(grammar: Grammar, text: str, name: str, command: str) -> ParsedProbe | Refusal:
    """Return the first matrix in `text` as one `LinkMatrix`; `command` is what printed it.
    O(len(text)).

    Refused: no header, two GPU rows missing or short, one shifted or doubled, folded lines, more
    devices than `MAX_GPUS` and `MAX_NICS`, fewer GPUs than are attached.
    """
    fix = f"run `{command}` again and give its whole output"
    found = MatrixRows(grammar)
    for number, line in numbered_lines(text):
        plain = _PARED_ESCAPE.sub("", line) if "[" in line else line
        if not found.note(number, plain):
            break
    head = found.head
    if head is None:
        return _no_header(grammar, text, fix)
    if not text.endswith("\n"):
        found.drop_uncertain_cell(text.count("\n") + 1)
    found.close(head)
    refusal = (
        found.trouble
        or _unusable(head, found, fix)
        or _miscounted(head, found, gpu_list.attached(text))
        or _complete_one_row(head, found, fix)
    )
    if refusal is not None:
        return refusal
    return ParsedProbe(name, (_matrix(head, found),), bounded(found.warnings))


def _no_header(grammar: Grammar, text: str, fix: str) -> Refusal:
    first = grammar.first_row(text)
    if first is None:
        return Refusal("no device matrix in the text", WHOLE_TEXT, fix)
    line, name = first
    what = f"the header row that names the columns is missing above row {name}"
    return Refusal(what, f"line {line}", fix)


def _unusable(head: MatrixHeader, found: MatrixRows, fix: str) -> Refusal | None:
    """Return what forbids to use a header or a row at all, the first finding in reading order."""
    where = f"line {head.line}"
    if len(head.gpus) > MAX_GPUS or len(head.nics) > MAX_NICS:
        named = f"{len(head.gpus)} GPUs and {len(head.nics)} NICs"
        return Refusal(f"{named} are more than {MAX_GPUS} and {MAX_NICS}", where, fix)
    if head.twice:
        return Refusal(f"column {head.twice} appears twice", where, fix)
    for name in head.gpus:
        row = found.rows.get(name)
        wrong = _shifted(head, name, row) if row else ""
        if row and wrong:
            return Refusal(f"row {name} {wrong}", f"line {row.line}", fix)
    return None


def _shifted(head: MatrixHeader, name: str, row: MatrixRow) -> str:
    """Return why the cells of a row cannot belong to its columns, or nothing."""
    if row.surplus:
        return f"has more link cells than the header has columns ({shorten(row.surplus, 16)})"
    at = head.columns[name]
    if "X" in row.codes and (at >= len(row.codes) or row.codes[at] != "X"):
        column = tuple(head.columns)[row.codes.index("X")]
        return f"has its X in column {column}: cells are shifted"
    if at < len(row.codes) and row.codes[at] != "X":
        return f"has {shorten(row.codes[at], 16)} in its own column, where X belongs"
    return ""


def _miscounted(head: MatrixHeader, found: MatrixRows, attached: int | None) -> Refusal | None:
    """Return why the header cannot be whole; what is odd and possible is a warning."""
    if attached is not None and attached > len(head.gpus):
        what = f"{attached} GPUs are attached and the header names {len(head.gpus)}"
        return Refusal(what, f"line {head.line}", UNFOLD)
    if attached is not None and attached < len(head.gpus):
        found.warnings.append(f"the header names {len(head.gpus)} GPUs and {attached} are attached")
    numbers = [int(name[len(_COUNTED) :]) for name in head.gpus if name.startswith(_COUNTED)]
    gaps = [f"{_COUNTED}{n}" for n in range(max(numbers, default=0)) if n not in numbers]
    if gaps:
        named = ", ".join(gaps[:8]) + (", …" if len(gaps) > 8 else "")
        found.warnings.append(f"the header has {len(head.gpus)} GPUs and not {named}")
    return None


def _whole(head: MatrixHeader, found: MatrixRows, name: str) -> bool:
    row = found.rows.get(name)
    return row is not None and len(row.codes) == len(head.columns) and not _shifted(head, name, row)


def _complete_one_row(head: MatrixHeader, found: MatrixRows, fix: str) -> Refusal | None:
    """Fill the one GPU row that is missing or cut from its column; refuse two."""
    cut = [name for name in head.gpus if not _whole(head, found, name)]
    if not cut:
        return None
    name, total = cut[0], len(head.columns)
    short = found.rows.get(name)
    state = f"has {len(short.codes)} of {total} link cells" if short else "is missing"
    others = [other for other in head.columns if other != name]
    if len(cut) > 1 or not all(_whole(head, found, other) for other in others) or not others:
        whole = len(head.gpus) - len(cut)
        line = short.line if short else max((r.line for r in found.rows.values()), default=1)
        what = f"row {name} {state}: {whole} of {len(head.gpus)} GPU rows are whole"
        return Refusal(what, f"line {line}" if short else f"after line {line}", fix)
    at = head.columns[name]
    cells = ("X" if c == name else found.rows[c].codes[at] for c in head.columns)
    found.rows[name] = replace(short or MatrixRow(0, ()), codes=tuple(cells), affinity=NO_CELLS)
    found.warnings.append(f"row {name} {state}: completed from column {name}")
    return None


def _matrix(head: MatrixHeader, found: MatrixRows) -> LinkMatrix:
    """Return the matrix with GPUs first, and NIC rows only when all of them are whole."""
    cut = [name for name in head.nics if not _whole(head, found, name)]
    if cut:
        found.warnings.append(
            f"rows of {len(cut)} of {len(head.nics)} NICs are missing or cut ({cut[0]} is the "
            "first): NIC rows are left out"
        )
    unnamed = [nic for nic in head.nics if found.nic_names and nic not in found.nic_names]
    if unnamed:
        many = f"{len(unnamed)} of {len(head.nics)} NICs"
        found.warnings.append(f"the NIC legend lacks {many} ({unnamed[0]} is the first)")
    order = [head.columns[name] for name in head.gpus + head.nics]
    shown = head.gpus + (() if cut else head.nics)
    links = tuple(tuple(codes.link(found.rows[n].codes[i]) for i in order) for n in shown)
    unknown = [cell.code for row in links for cell in row if cell.kind is LinkKind.UNKNOWN]
    if unknown:
        named = ", ".join(sorted(set(unknown))[:8])
        found.warnings.append(f"link codes in no legend known to this version: {named}")
    found.warnings.extend(_asymmetries(shown, links))
    places = affinity.affinities([found.rows[name].affinity for name in head.gpus])
    found.warnings.extend(_doubts(head.gpus, places))
    return LinkMatrix(
        gpus=head.gpus,
        nics=tuple(found.nic_names.get(name, name) for name in head.nics),
        links=links,
        numa=tuple(place.numa for place in places),
        cpus=tuple(place.cpus for place in places),
        unknown_codes=len(unknown),
    )


def _asymmetries(names: Sequence[str], links: tuple[tuple[Link, ...], ...]) -> Iterator[str]:
    """Return a warning per pair of rows, of GPUs and NICs alike, that contradict each other."""
    for i, one in enumerate(names):
        for j in range(i):
            there, back = links[i][j].code, links[j][i].code
            if there != back:
                yield f"{one} calls its link to {names[j]} {there}, {names[j]} calls it {back}"


def _doubts(gpus: tuple[str, ...], places: Sequence[CpuAffinity]) -> Iterator[str]:
    """Return a warning per doubt, with the GPUs that share it."""
    shared: dict[str, list[str]] = {}
    for name, place in zip(gpus, places, strict=True):
        if place.doubt:
            shared.setdefault(place.doubt, []).append(name)
    for doubt, names in shared.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"{names[0]}{more}: {doubt}"
