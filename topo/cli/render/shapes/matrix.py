"""A matrix with named rows and columns, in as many blocks of columns as the width asks for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

_PAD = 2
"""Cells that the table adds to each column: a blank behind it and one between two."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of cells with a name each, under the columns' names; `right` columns align right.

    Where the columns do not fit beside each other, the rest follow below, with the rows' names
    again. O(cells).
    """

    columns: Sequence[Text]
    rows: Sequence[tuple[Text, Sequence[Text]]]
    right: frozenset[int] = frozenset()

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        for number, block in enumerate(self._blocks(options.max_width)):
            if number:
                yield Text()
            yield self._table(block)

    def __rich_measure__(self, _: Console, options: ConsoleOptions) -> Measurement:
        natural = self._names() + sum(map(self._width, range(len(self.columns))))
        return Measurement(1, min(options.max_width, max(1, natural)))

    def _blocks(self, width: int) -> Iterator[Sequence[int]]:
        """Yield the columns of each block, at least one."""
        block: list[int] = []
        used = self._names()
        for at in range(len(self.columns)):
            if block and used + self._width(at) > width:
                yield block
                block, used = [], self._names()
            block.append(at)
            used += self._width(at)
        yield block

    def _names(self) -> int:
        return max((name.cell_len for name, _ in self.rows), default=0) + _PAD

    def _width(self, at: int) -> int:
        cells = (row[at].cell_len for _, row in self.rows)
        return max((self.columns[at].cell_len, *cells)) + _PAD

    def _table(self, block: Sequence[int]) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
        table.add_column("")
        for at in block:
            table.add_column(
                self.columns[at],
                justify="right" if at in self.right else "center",
                no_wrap=True,
            )
        for name, cells in self.rows:
            table.add_row(name, *(cells[at] for at in block))
        return table
