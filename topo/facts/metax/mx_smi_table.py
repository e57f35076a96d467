"""The table that plain `mx-smi` prints: per card a box of two lines under two header lines.

The layout moved over versions, so cells are found by their headings: 2.1.6 has `GPU NAME`, 2.1.12
`Pwr:Usage/Cap`, 2.2.4 adds `GPU-State`, 2.2.6 and 2.2.8 have `GPU NAME Persistence-M` in one cell,
2.2.9 splits `Board Name` from `GPU Persist-M`. An OEM prints the same under `HT-SMI`.
Source: outputs of those six versions, and of ht-smi 2.2.4 and 2.2.9.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from topo.facts.reading import folding, gpu_list
from topo.facts.reading.identity import known, normal_bdf
from topo.facts.reading.text import WHOLE_TEXT, numbered_lines, shorten
from topo.model.errors import Refusal
from topo.model.machine import Gpu
from topo.model.observation import ParsedProbe

FORMAT = "mx-smi-table"
_FIX = "run `mx-smi` again and give its whole output"
_TITLE = re.compile(r"\|\s*(?:MX|HT)-SMI\s+[0-9]")
_RULED = frozenset("|+-= ")
_INDEXED = re.compile(r"([0-9]{1,4})(?:\s+(.*))?", re.ASCII)
_MEMORY = re.compile(r"[0-9]{1,9}\s*/\s*([0-9]{1,9})\s*(MiB|GiB)", re.ASCII)
_PERSISTENCE = frozenset({"on", "off", "n/a", "na", "enabled", "disabled"})
"""What stands under `Persistence-M`; right-aligned, so it is the last word of its cell."""
_BRAND = re.compile(r"^MetaX\s+")
"""The table prints `MetaX C500` where the library, `mx-smi -L` and node labels have `MXC500`."""
PROCESSES = re.compile(r"^[ \t]*\|[ \t]*Process.*\Z", re.DOTALL | re.MULTILINE)
"""The table of processes with their command lines. It comes last; nothing in it is read."""
_UNIT_BYTES = {"MiB": 2**20, "GiB": 2**30}


@dataclass(frozen=True, slots=True)
class _Layout:
    """Which cell of a box holds what; `state` is None before 2.2.4.

    `shared`: the name's cell ends with the persistence mode.
    """

    index: int
    name: int
    bus: int
    state: int | None
    shared: bool


def recognises(text: str) -> bool:
    """Return whether `text` has the table's title and its bus column. O(len(text))."""
    return "-SMI" in text and "Bus-id" in text and _TITLE.search(text) is not None


def read(text: str) -> ParsedProbe | Refusal:
    """Return the cards as GPUs, healthy where the table has a state. Refused: no card, no
    header.
    """
    layout: _Layout | None = None
    header: list[list[str]] = []
    found: list[tuple[int, Gpu]] = []
    warnings = _open_line(text)
    for number, box in _boxes(text):
        if layout is None:
            header = [*header, *box] if header or _has_bus(box) else []
            layout = _layout(header)
            continue
        gpu = _gpu(layout, box, board=found[-1][1].model if found else None)
        if gpu is not None:
            found.append((number, gpu))
        if gpu is None and len(box) < 2:
            warnings.append(f"line {number}: a box is cut and was left out")
        elif _has_address(layout, box if gpu is None else box[1:]):
            warnings.append(f"line {number}: a card of this box is not understood and was left out")
    if layout is None:
        return _no_header(header)
    attached = gpu_list.attached(text)
    return gpu_list.listed(FORMAT, found, warnings=warnings, declared=attached, fix=_FIX)


def _open_line(text: str) -> list[str]:
    """Return a warning about the first line of the boxes that does not close, where
    there is one.
    """
    inside = False
    for number, line in numbered_lines(text):
        bare = line.strip()
        if bare.startswith("| Process"):
            break
        inside = inside or _TITLE.match(bare) is not None
        closed = _is_rule(bare) or (len(bare) > 1 and bare[0] == bare[-1] == "|")
        if inside and bare and not closed:
            return [folding.rest(number)]
    return []


def _boxes(text: str) -> Iterator[tuple[int, list[list[str]]]]:
    """Run of `|` lines between rules, as cells, with the number of the first line.

    Ends where the table of processes begins.
    """
    box: list[list[str]] = []
    first = 0
    for number, line in numbered_lines(text):
        bare = line.strip()
        if bare.startswith("|") and not _is_rule(bare):
            if bare.startswith("| Process"):
                break
            first = first if box else number
            box.append([cell.strip() for cell in bare.strip("|").split("|")])
        elif box:
            yield first, box
            box = []
    if box:
        yield first, box


def _is_rule(line: str) -> bool:
    """Return whether this is a rule, also a broken one (`|      +-----+`) between two GPUs of a
    board.
    """
    return ("--" in line or "==" in line) and _RULED.issuperset(line)


def _has_bus(box: list[list[str]]) -> bool:
    return any(cell == "Bus-id" for line in box for cell in line)


def _has_address(layout: _Layout, box: list[list[str]]) -> bool:
    """Return whether a line has a PCI address where those of cards stand."""
    return any(normal_bdf(line[layout.bus]) for line in box if len(line) > layout.bus)


def _no_header(header: list[list[str]]) -> Refusal:
    """Return which heading was not found: true of the text at hand, whatever its version."""
    if not header:
        return Refusal("the table has no Bus-id column", WHOLE_TEXT, _FIX)
    shown = shorten(" | ".join(header[0]), 80)
    what = f"no headings GPU and NAME beside Bus-id: {shown}"
    return Refusal(what, "the table's header", _FIX)


def _layout(header: list[list[str]]) -> _Layout | None:
    """Return where things stand below this header, or None when it is none."""
    for above, below in itertools.pairwise(header):
        if "Bus-id" not in above:
            continue
        words = [cell.lower().split() for cell in above]
        names = [i for i, heading in enumerate(words) if "name" in heading]
        indexes = [i for i, cell in enumerate(above) if cell.split()[:1] == ["GPU"]]
        if names and indexes:
            state = below.index("GPU-State") if "GPU-State" in below else None
            shared = words[names[0]][-1] != "name"
            return _Layout(indexes[0], names[0], above.index("Bus-id"), state, shared)
    return None


def _gpu(layout: _Layout, box: list[list[str]], board: str | None) -> Gpu | None:
    """Return the card in a box, or None for a box of something else or one that is cut.

    `board` is the model of the box above, for the second GPU of one board has no name of its own.
    """
    if len(box) < 2 or len(box[0]) <= max(layout.index, layout.name, layout.bus):
        return None
    above, below = box[0], box[1]
    index = _INDEXED.fullmatch(above[layout.index])
    named = _INDEXED.fullmatch(above[layout.name])
    if index is None or (named is None and above[layout.name]):
        return None
    memory = _MEMORY.search(" ".join(below))
    state = None
    if layout.state is not None and layout.state < len(below):
        state = known(below[layout.state])
    healthy = None if state is None else state.lower() == "available"
    return Gpu(
        index=int(index.group(1)),
        bdf=normal_bdf(above[layout.bus]),
        model=_model(named.group(2) or "", layout) if named else board,
        memory_bytes=int(memory.group(1)) * _UNIT_BYTES[memory.group(2)] if memory else None,
        healthy=healthy,
        trouble=shorten(state or "") if healthy is False else "",
    )


def _model(named: str, layout: _Layout) -> str | None:
    """Return the card's name as the library spells it, without the persistence mode behind it."""
    name, _, last = named.rpartition(" ")
    if layout.shared and last.lower() in _PERSISTENCE:
        named = name
    return known(shorten(_BRAND.sub("MX", named)))
