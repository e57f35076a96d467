"""Lines for any width: nothing is cut, and continued lines are indented."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.text import Text

GAP = 2
"""Cells between two columns, and of an indent."""
_GUIDE = "bright_black"
_GUIDES = ("    ", "│   ", "├── ", "└── ")
_ASCII_GUIDES = ("    ", "|   ", "+-- ", "`-- ")
"""Before the lines of what hangs below: nothing follows there, something does; before a child, and
before the last one."""


@dataclass(frozen=True, slots=True)
class Hanging:
    """A text whose further lines begin below its first word, not below the mark before it.

    A mark of less than two cells indents them by two, so that they are no entries of their own.
    """

    mark: Text
    text: Text

    def lines(self, console: Console, width: int) -> Iterator[Text]:
        """Yield the lines at that width."""
        indent = max(GAP, self.mark.cell_len)
        if self.mark.cell_len + self.text.cell_len <= width and "\n" not in self.text.plain:
            yield _joined(self.mark, self.text)
            return
        wrapped = self.text.wrap(console, max(1, width - indent)) or [Text()]
        for line in wrapped:
            line.rstrip()
        first, *others = wrapped
        yield _joined(self.mark, first)
        for line in others:
            yield _joined(Text(" " * indent), line)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield from self.lines(console, options.max_width)

    def __rich_measure__(self, _: Console, options: ConsoleOptions) -> Measurement:
        natural = self.mark.cell_len + self.text.cell_len
        return Measurement(1, min(options.max_width, max(1, natural)))


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A command on one line however long, so that what is copied from the terminal is it."""

    command: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Segment(self.command)
        yield Segment.line()


@dataclass(frozen=True, slots=True)
class Indented:
    """Something that begins two cells to the right, without blanks behind its lines."""

    content: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        narrower = options.update(width=max(1, options.max_width - GAP))
        for line in console.render_lines(self.content, narrower, pad=False):
            yield Segment(" " * GAP)
            yield from line
            yield Segment.line()


@dataclass(frozen=True, slots=True)
class Outline:
    """A tree of entries: each with what is said of it on lines of its own, and what is below it."""

    entry: Hanging
    remarks: Sequence[Hanging] = ()
    children: "Sequence[Outline]" = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        """Yield lines that fit. rich would wrap each again: half the time of 10,000 nodes."""
        guides = _ASCII_GUIDES if options.ascii_only else _GUIDES
        is_plain = console.color_system is None
        for first, others, entry in _guided(self, guides, "", ""):
            before = first
            for line in entry.lines(console, options.max_width - len(first)):
                if is_plain:
                    yield Segment(f"{before}{line.plain}\n")
                else:
                    yield from _joined(Text(before, style=_GUIDE), line).render(console, end="\n")
                before = others


def _guided(
    outline: Outline, guides: tuple[str, ...], first: str, others: str
) -> Iterator[tuple[str, str, Hanging]]:
    """Yield every entry and remark, with what is drawn before its first line and the others."""
    nothing, passing, middle, last = guides
    yield first, others, outline.entry
    for remark in outline.remarks:
        yield others, others, remark
    for child in outline.children:
        guide, below = (last, nothing) if child is outline.children[-1] else (middle, passing)
        yield from _guided(child, guides, others + guide, others + below)


def _joined(before: Text, text: Text) -> Text:
    """Return both on one line, each in its own style."""
    return Text().append_text(before).append_text(text)
