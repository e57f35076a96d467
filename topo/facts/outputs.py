"""A log with several outputs in it, cut into the outputs, each with its place.

Result: one `LogOutput` per output that is recognised, in the order of the text, or one for the
whole text where it holds no more than one. An output that cannot be read is there with its refusal.

How: the text is cut where an output may begin: at the marks that the readers and the formats that
are known and not read give (a title, a matrix header, a `GPU n:` that starts again) and at shell
prompts with a command of a GPU tool. A part that is in no format by itself is the head of the next
one (a prompt, a title), the last one the tail of the one before.

That is right because a mark alone decides nothing: a part counts when it is recognised by itself,
so a header that a narrow console folded in two, or a title without its table, is not cut off from
what belongs to it. A text of one output is given to its reader uncut.

Cost: O(len(text)) for the marks and for recognising each part once; each output is read with as
many line ends before it as it has lines before it, so that every line number is that of the text.
The sum of these line ends, of the outputs and of the parts is bounded; what is beyond is refused.

Example: lines 1-12 are `nvidia-smi nvlink -s` of GPU 0 and 1, lines 13-15 a device matrix, lines
17-30 `nvidia-smi topo -p2p r`: three outputs, the last one a refusal that names it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from topo.facts.reading import lost_gpus, tool_errors, unsupported
from topo.facts.reading.text import WHOLE_TEXT
from topo.facts.registry import (
    READERS,
    UNSUPPORTED,
    parse,
    readable,
    recognise,
    several_sources,
)
from topo.model.errors import Refusal
from topo.model.observation import ParsedProbe

MAX_OUTPUTS = 100
MAX_PARTS = 1000
MAX_LINES_BEFORE = 10_000_000
"""Of all outputs together, about ten seconds: a hundred outputs of 2,000 lines each have it."""
_PROMPT = re.compile(
    r"^(?:\S{0,80}[#$>%][ \t]{1,8}|\+{1,4}[ \t]|[=#*>-]{1,80}[ \t]{0,8})"
    r"(?:sudo[ \t]{1,8})?(?:/[\w./-]{1,80}/)?"
    r"(?:nvidia-smi|mx-smi|ht-smi|npu-smi|ixsmi|hy-smi|rocm-smi|amd-smi|ppu-smi"
    r"|ibstat|ibstatus|ibnetdiscover|lldpcli|lspci|numactl|netq)(?=\s|$)",
    re.MULTILINE,
)
"""A shell's prompt or trace, or a ruled title, with the command that printed what follows."""


@dataclass(frozen=True, slots=True)
class LogOutput:
    """One output in a text, from its first to its last line, and what it states."""

    first_line: int
    last_line: int
    format: str | None
    answer: ParsedProbe | Refusal


@dataclass(slots=True)
class _Span:
    """A part of the text; `format` is None where it is in none by itself."""

    begin: int
    end: int
    format: str | None


def outputs(text: str) -> tuple[LogOutput, ...] | Refusal:
    """Return every output in `text`; what is beyond the bounds is one more, refused.

    Refused as a whole where `cleaned` refuses it. Lines are those of the text without what is
    around it, see `prefixes`.
    """
    plain = readable(text)
    if isinstance(plain, Refusal):
        return plain
    marks = sorted(set(_marks(plain)) | {0})
    edges = [*marks, len(plain)][: MAX_PARTS + 1]
    spans = _spans(plain, edges)
    # One output: its reader gets the text uncut, with the head and tail that belong to it.
    if len(spans) < 2 and edges[-1] == len(plain):
        answer = several_sources(text) or parse(plain)
        return (LogOutput(1, _last_line(plain, len(plain)), recognise(plain), answer),)
    found = tuple(_answered(plain, spans, edges[-1]))
    # Pieces of mixed lines are refused each for a reason of its own, none of which is the true one.
    if all(isinstance(output.answer, Refusal) for output in found):
        why = several_sources(text)
        if why is not None:
            return (LogOutput(1, _last_line(plain, len(plain)), None, why),)
    return found


def _answered(text: str, spans: Sequence[_Span], end: int) -> Iterator[LogOutput]:
    """Return each span with its answer, and a refusal of what is beyond a bound, `end`
    among them.
    """
    why = f"has more than {MAX_PARTS} places where an output may begin"
    lines_before = 0
    for number, span in enumerate(spans):
        begin = _first_character(text, span)
        first_line = text.count("\n", 0, begin) + 1
        lines_before += first_line - 1
        if number == MAX_OUTPUTS:
            end, why = span.begin, f"holds more than {MAX_OUTPUTS} outputs"
            break
        # Each output is read with its lines before it, which bounds the total work.
        if lines_before > MAX_LINES_BEFORE:
            end, why = span.begin, f"has {lines_before} lines before its outputs, added up"
            break
        yield _output(text, replace(span, begin=begin), first_line)
    if end < len(text):
        first, last = text.count("\n", 0, end) + 1, _last_line(text, len(text))
        fix = "give the rest of it as a text of its own"
        yield LogOutput(first, last, None, Refusal(f"the text {why}", f"from line {first} on", fix))


def _spans(text: str, edges: Sequence[int]) -> list[_Span]:
    """Return the outputs as parts of the text: heads before them, the tail behind the last one."""
    found: list[_Span] = []
    begin: int | None = None
    for part in _parts(text, edges):
        begin = part.begin if begin is None else begin
        if part.format is None:
            continue
        last = found[-1] if found else None
        # Parts of one unreadable output make one refusal.
        if last is not None and part.format == last.format and part.format in UNSUPPORTED:
            last.end = part.end
        else:
            found.append(_Span(begin, part.end, part.format))
        begin = None
    if found:
        found[-1].end = edges[-1]
    return found


def _parts(text: str, edges: Sequence[int]) -> Iterator[_Span]:
    """Return the text between the edges; a part that only heads another output has no format."""
    for begin, end in pairwise(edges):
        name = recognise(text[begin:end])
        known = UNSUPPORTED.get(name or "")
        heads = known.heads if known else name == tool_errors.FORMAT and _is_below(text, begin, end)
        yield _Span(begin, end, None if heads and end < len(text) else name)


def _is_below(text: str, begin: int, end: int) -> bool:
    """Return whether a complaint is about one GPU of the output below it, which is no other
    command's.
    """
    return bool(lost_gpus.warnings(text[begin:end])) and _PROMPT.match(text, end) is None


def _marks(text: str) -> Iterator[int]:
    for reader in READERS.values():
        yield from reader.begins(text)
    for known in UNSUPPORTED.values():
        yield from unsupported.begins(known, text)
    for match in _PROMPT.finditer(text):
        yield match.start()


def _first_character(text: str, span: _Span) -> int:
    piece = text[span.begin : span.end]
    return span.begin + len(piece) - len(piece.lstrip("\n"))


def _output(text: str, span: _Span, first: int) -> LogOutput:
    last = _last_line(text, span.end)
    answer = parse("\n" * (first - 1) + text[span.begin : span.end])
    if isinstance(answer, Refusal) and answer.where == WHOLE_TEXT:
        answer = Refusal(answer.what, f"lines {first}-{last}", answer.fix)
    return LogOutput(first, last, span.format, answer)


def _last_line(text: str, end: int) -> int:
    return text.count("\n", 0, len(text[:end].rstrip())) + 1
