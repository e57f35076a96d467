"""Tables without lines that are never wider than they may be."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.text import Text

from topo.cli.render.safe import plain
from topo.cli.render.shapes.layout import GAP, Hanging

Cell = Text | str | int | None
_LEAST_PROSE = 24
"""A sentence in a narrower column than this is read word by word."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's title; `right` aligns numbers, `prose` may go on in the next line of its cell."""

    title: str
    right: bool = False
    prose: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """A table without lines, which is never wider than it may be.

    Where it does not fit, titles and prose go on in the next line of their cell. Where that is not
    enough, the widest column leaves the rows and stands, with its title, below each; if that is the
    first, which names the row, it stands alone above. Without any title there is no head.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Text]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        drawing = _drawing(self, options.max_width)
        if any(column.title for column in self.columns):
            yield from drawing.head(console)
        for row in self.rows:
            yield from drawing.lines(console, row)

    def __rich_measure__(self, _: Console, options: ConsoleOptions) -> Measurement:
        natural = _total(_widths(self), range(len(self.columns)))
        return Measurement(1, min(options.max_width, max(1, natural)))


def table(*columns: str | Column, rows: Iterable[Iterable[Cell]]) -> Rows:
    """Return the rows of cells under these columns; None is an empty cell."""
    named = [Column(each) if isinstance(each, str) else each for each in columns]
    return Rows(named, [[_cell(value) for value in row] for row in rows])


def _cell(value: Cell) -> Text:
    if isinstance(value, Text):
        return value
    return Text("" if value is None else plain(str(value)))


def _wrapped(cell: Text, console: Console, width: int) -> Sequence[Text]:
    """Return the lines of a cell; wrapping also what fits makes a long table half as slow again."""
    return [cell] if cell.cell_len <= width else list(cell.wrap(console, width))


def _widths(table: Rows) -> list[int]:
    """Return the width of the widest cell of each column, including its title."""
    titles = [[Text(column.title) for column in table.columns]]
    rows = [*titles, *table.rows]
    return [max(row[at].cell_len for row in rows) for at in range(len(table.columns))]


def _least(table: Rows) -> list[int]:
    """Return the least width of each column; titles and prose may be broken between words."""
    found = []
    for at, column in enumerate(table.columns):
        cell = max((row[at].cell_len for row in table.rows), default=0)
        words = max((Text(word).cell_len for word in column.title.split()), default=0)
        found.append(max(words, min(cell, _LEAST_PROSE) if column.prose else cell))
    return found


def _total(widths: Sequence[int], columns: Sequence[int]) -> int:
    return sum(widths[at] for at in columns) + GAP * max(0, len(columns) - 1)


@dataclass(frozen=True, slots=True)
class _Drawing:
    """The columns inside the rows with their widths; the others are written above or below."""

    columns: Sequence[Column]
    widths: Sequence[int]
    inline: Sequence[int]
    width: int

    @property
    def above(self) -> bool:
        return 0 not in self.inline

    def head(self, console: Console) -> Iterator[Text]:
        titles = [Text(column.title, style="dim") for column in self.columns]
        yield from self._named(console, titles)

    def lines(self, console: Console, row: Sequence[Text]) -> Iterator[Text]:
        yield from self._named(console, row)
        for at in range(1, len(row)):
            if at not in self.inline and row[at].plain:
                mark = Text(f"{' ' * GAP}{self.columns[at].title}".rstrip() + " " * GAP, "dim")
                yield from Hanging(mark, row[at]).lines(console, self.width)

    def _named(self, console: Console, row: Sequence[Text]) -> Iterator[Text]:
        """Yield the lines of a row without the columns that are written below it."""
        if self.above:
            yield from _wrapped(row[0], console, self.width)
        cells = [_wrapped(row[at], console, self.widths[at]) for at in self.inline]
        if not self.above or any(row[at].plain for at in self.inline):
            yield from self._row(cells)

    def _row(self, cells: Sequence[Sequence[Text]]) -> Iterator[Text]:
        """Yield the lines of cells that may have several lines each."""
        for number in range(max((len(cell) for cell in cells), default=0)):
            line = Text(" " * GAP if self.above else "")
            for at, cell in zip(self.inline, cells, strict=True):
                part = cell[number].copy() if number < len(cell) else Text()
                part.rstrip()
                room = self.widths[at] - part.cell_len
                padded = Text(" " * room) + part if self.columns[at].right else part
                line.append_text(padded).append(" " * (GAP + self.widths[at] - padded.cell_len))
            line.rstrip()
            yield line


def _drawing(table: Rows, width: int) -> _Drawing:
    """Take out the widest column until the others fit, and distribute the width that is left."""
    natural, widths = _widths(table), _least(table)
    inline = list(range(len(widths)))
    room = width
    while len(inline) > 1 and _total(widths, inline) > room:
        inline.remove(max(inline, key=lambda at: (widths[at], at)))
        room = width if 0 in inline else width - GAP
    rest = room - _total(widths, inline)
    for at in inline:
        more = max(1 - widths[at], min(rest, natural[at] - widths[at]))
        widths[at], rest = widths[at] + more, rest - more
    return _Drawing(table.columns, widths, inline, width)
