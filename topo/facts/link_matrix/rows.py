"""The lines of one matrix, collected: its header, its rows, and what stands between them.

Between the header and the last row every line has to be a row. A line that goes on without a
device's name, a second header and a row without a column are what a folded or cut line leaves: they
refuse the text, for what is left of the other lines would be a smaller host. Other lines (a kernel
message on a serial console) are warnings.
"""

import re
from dataclasses import dataclass, field, replace

from topo.facts.link_matrix import codes
from topo.facts.link_matrix.affinity import NO_CELLS
from topo.facts.link_matrix.lines import Grammar, MatrixHeader, MatrixRow
from topo.facts.reading.text import shorten
from topo.model.errors import Refusal

UNFOLD = "give the output from a file or a wider terminal, so that no line is folded"
_NIC_LEGEND = re.compile(r"\s*(NIC[0-9]{1,3})\s*:\s*(\S{1,64})\s*", re.ASCII)
_RULE = frozenset(" \t-=_+|")
_MAX_STRAYS = 16
_UNCUT = "NV?"
"""A code that cannot be separated from the CPU list behind it."""


@dataclass(slots=True)
class MatrixRows:
    """What has been understood of the text so far. Mutable; ends with `close`.

    `trouble` is the first finding that forbids to use the text. `strays` are the lines since the
    header or the last row (`last_line`) that are no rows.
    """

    grammar: Grammar
    head: MatrixHeader | None = None
    rows: dict[str, MatrixRow] = field(default_factory=dict)
    nic_names: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    trouble: Refusal | None = None
    last_line: int = 0
    strays: list[tuple[int, str]] = field(default_factory=list)

    def note(self, number: int, line: str) -> bool:
        """Add one line; False when the matrix is over and the rest need not be read."""
        head = self.grammar.header(number, line)
        if head is not None:
            return self._note_header(head)
        if self.head is not None:
            nic = _NIC_LEGEND.fullmatch(line)
            if nic is not None:
                self.nic_names.setdefault(nic.group(1), nic.group(2))
            else:
                self._note_row(self.head, number, line)
        return True

    def close(self, head: MatrixHeader) -> None:
        """Judge what follows the last row, and settle what was left open."""
        self._judge_what_follows(head)
        self._settle_glued(head)

    def drop_uncertain_cell(self, last_line: int) -> None:
        """Drop a cell that the end of the text may have cut: `NV1` may have been `NV18`."""
        for name, row in self.rows.items():
            if row.line == last_line and row.open and codes.may_grow(row.codes[-1]):
                self.rows[name] = replace(row, codes=row.codes[:-1])

    def _refuse(self, what: str, where: str, fix: str = UNFOLD) -> None:
        self.trouble = self.trouble or Refusal(what, where, fix)

    def _note_header(self, head: MatrixHeader) -> bool:
        if self.rows:
            self.warnings.append(f"line {head.line}: a second matrix follows and was not read")
            return False
        # A second header without rows between is the rest of a folded first one.
        if self.head is not None and self.head.columns != head.columns:
            what = "two headers follow each other without a row between: the lines are folded"
            self._refuse(what, f"lines {self.head.line} and {head.line}")
        self.head, self.last_line = head, head.line
        self.strays.clear()
        return True

    def _note_row(self, head: MatrixHeader, number: int, line: str) -> None:
        named = self.grammar.row(head, number, line)
        if named is None:
            self._note_stray(head, number, line)
            return
        self._judge_what_stands_between(head)
        name, row = named
        self.last_line = number
        # A row that is repeated unchanged, as in a log of two runs, is no contradiction.
        known = self.rows.setdefault(name, row)
        if known.codes != row.codes:
            where = f"lines {known.line} and {row.line}"
            fix = "give the output of one run of the command"
            self._refuse(f"row {name} appears twice and differs", where, fix)

    def _note_stray(self, head: MatrixHeader, number: int, line: str) -> None:
        """Keep a line that is no row; of more than are kept, the last meaningful one."""
        if _RULE.issuperset(line):
            return
        if len(self.strays) < _MAX_STRAYS:
            self.strays.append((number, line))
        elif self.grammar.is_rest(head, line, of_header=True) or self.grammar.stranger(head, line):
            self.strays[-1] = (number, line)

    def _judge_what_stands_between(self, head: MatrixHeader) -> None:
        for number, line in self.strays:
            if self.grammar.is_rest(head, line, of_header=True):
                self._refuse_rest(number)
            elif not self._refuse_stranger(head, number, line):
                quoted = shorten(line, 40)
                self.warnings.append(f"line {number}, among the rows, is no row: {quoted}")
        self.strays.clear()

    def _judge_what_follows(self, head: MatrixHeader) -> None:
        """Judge the lines right below the last row: its rest, or rows without a column.

        A row behind a gap may be that of another output: it is a warning.
        """
        for below, (number, line) in enumerate(self.strays, start=self.last_line + 1):
            if number != below:
                if name := self.grammar.stranger(head, line):
                    self.warnings.append(
                        f"line {number}: row {name} has no column, and was not read"
                    )
            elif self.grammar.is_rest(head, line, of_header=False):
                self._refuse_rest(number)
            else:
                self._refuse_stranger(head, number, line)

    def _refuse_rest(self, number: int) -> None:
        what = "the line goes on where the one above ended, without a device's name"
        self._refuse(f"{what}: lines are folded", f"line {number}")

    def _refuse_stranger(self, head: MatrixHeader, number: int, line: str) -> bool:
        name = self.grammar.stranger(head, line)
        if name:
            what = f"row {name} has no column: the header is cut, or its line is folded"
            self._refuse(what, f"line {number}")
        return bool(name)

    def _settle_glued(self, head: MatrixHeader) -> None:
        """Settle rows that can be cut in several ways by the cell that repeats the link."""
        facing = self.rows.get(tuple(head.columns)[-1])
        for name, row in self.rows.items():
            if row.others:
                at = head.columns[name]
                said = facing.codes[at] if facing and at < len(facing.codes) else ""
                ways = [way for way in (row, *row.others) if way.codes[-1] == said]
                unsaid = replace(row, codes=(*row.codes[:-1], _UNCUT), affinity=NO_CELLS)
                self.rows[name] = replace(ways[0] if ways else unsaid, others=())
