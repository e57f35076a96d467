"""The affinity cells behind the link cells of a matrix: which CPUs and which NUMA node are near.

Result: per GPU the NUMA node and the CPU list, or nothing where the text does not tell them apart.
Cells belong to headings, and any cell may be empty. A row with as many cells as there are headings
needs no guess, whatever the white space between them. With fewer, tabs are counted; else a cell
under its heading is taken as such; else a gap of two tab stops is an empty first cell; else their
order places them, for the tools print nothing only where there are no CPUs. What comes out must be
plausible: a NUMA node is below 1024 (Linux: CONFIG_NODES_SHIFT is at most 10), a CPU list ascends,
and a CPU list is no NUMA node.

A list that swallowed the NUMA node behind it (`0-31,64-95` and `0` printed as `0-31,64-950`) is cut
where only one way fits: lists of different GPUs are equal or have no CPU in common, and the ranges
of one list are equally long, for they are cores and their siblings. Where several ways fit, CPUs
and node are unknown, with a warning. That is right because a wrong node moves a job's memory to the
far socket, and an unknown one only loses a hint.

Cost: O(length of the row), and for rows that lack a cell O(GPUs * length of all lists).

Example, with the headings CPU Affinity, NUMA Affinity and GPU NUMA ID:

      GPU3  … 0-31,64-950               N/A
      GPU4  … 32-63,96-127      1       N/A

GPU4 has three cells. GPU3 has two, so its list may have swallowed a node: 0-31,64-950 shares CPUs
with the list of GPU4, 64-9 descends, 0-31,64-95 has ranges of 32 CPUs each: node 0.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from topo.model.machine import MAX_NUMA

_WORD = re.compile(r"\S+")
_TAB_STOP = 8
_TABS = re.compile(r"\t+")
_RANGES = re.compile(r"[0-9]{1,5}(?:-[0-9]{1,5})?(?:,[0-9]{1,5}(?:-[0-9]{1,5})?){0,127}", re.ASCII)
_BEGINS_WITH_RANGE = re.compile(r"[0-9]{1,5}-", re.ASCII)
_MAX_CHARS = 512
"""The bound of `LinkMatrix.cpus`."""
_MOST_CPUS = 8192
"""Linux' largest NR_CPUS (MAXSMP of x86)."""
_WIDEST_NODES = 8
"""A first range of more nodes than this is a CPU list; `0,3-9,11-17` is the node of a GB200."""
_NOTHING = frozenset({"", "N/A", "NA", "-"})

Headings = Sequence[tuple[str, int]]
"""(`cpus` | `numa` | `other`, offset in the line), left to right."""
Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Cells:
    """One row's affinity cells as printed. `short`: fewer than there are headings.

    `unplaced` is what belongs to no heading.
    """

    cpus: str = ""
    numa: str = ""
    short: bool = False
    unplaced: str = ""


NO_CELLS = Cells()


@dataclass(frozen=True, slots=True)
class CpuAffinity:
    """The meaning of the cells; `doubt` is what is unknown or had to be concluded."""

    cpus: str = ""
    numa: int | None = None
    doubt: str = ""


def cells(headings: Headings, line: str, last_cell: int, at: int) -> Cells:
    """Return the cells of `line` behind offset `at`, by heading; `last_cell` is where its word
    begins.
    """
    tail = line[at:]
    if not headings or not tail.strip():
        return Cells(short=bool(headings), unplaced=tail.strip())
    tabs = "\t" in tail
    found = [cell.strip() for cell in tail.split("\t")] if tabs else tail.split()
    filled = [cell for cell in found if cell]
    meanings = [meaning for meaning, _ in headings]
    if len(filled) >= len(meanings):
        placed = dict(zip(meanings, filled, strict=False))
        return _cells(placed, " ".join(filled[len(meanings) :]), short=False)
    placed = _by_tabs(meanings, line, at) if tabs else _by_offset(headings, line, last_cell, at)
    if meanings[-1] == "other":
        placed.setdefault("", filled[-1])  # nvidia-smi puts two tabs before the GPU's own node
    lost = [cell for cell in filled if cell not in placed.values()]
    return _cells(placed, " ".join(lost), short=True)


def _cells(placed: dict[str, str], unplaced: str, *, short: bool) -> Cells:
    return Cells(placed.get("cpus", ""), placed.get("numa", ""), short, unplaced)


def _by_tabs(meanings: Sequence[str], line: str, at: int) -> dict[str, str]:
    """Return cells counted by tabs, as if a page had not doubled every tab of the line."""
    doubled = all(len(run) % 2 == 0 for run in _TABS.findall(line[:at].rstrip()) or ["\t"])
    tail = _TABS.sub(lambda run: run.group()[::2], line[at:]) if doubled else line[at:]
    if "\t\t" not in tail:
        return _by_order(meanings, [cell.strip() for cell in tail.split("\t") if cell.strip()])
    found = [cell.strip() for cell in tail.split("\t")]
    return dict(zip(meanings, found if found[0] else found[1:], strict=False))


def _by_offset(headings: Headings, line: str, last_cell: int, at: int) -> dict[str, str]:
    words = [(match.group(), match.start()) for match in _WORD.finditer(line, at)]
    under = {offset: meaning for meaning, offset in headings}
    if all(offset in under for _, offset in words):
        return {under[offset]: word for word, offset in words}
    gap = words[0][1] // _TAB_STOP - last_cell // _TAB_STOP >= 2
    meanings = [meaning for meaning, _ in headings]
    filled = [word for word, _ in words]
    return dict(zip(meanings[1:], filled, strict=False)) if gap else _by_order(meanings, filled)


def _by_order(meanings: Sequence[str], filled: Sequence[str]) -> dict[str, str]:
    """Return cells that only their order places.

    The tools print N/A for an unknown node, and nothing for no CPUs. So where one cell is missing,
    it is that of the CPUs, unless the first is a list of CPUs, which begins with a range.
    """
    lost = meanings[0] == "cpus" and len(filled) == len(meanings) - 1
    first = 1 if lost and not _BEGINS_WITH_RANGE.match(filled[0]) else 0
    return dict(zip(meanings[first:], filled, strict=False))


def is_cpu_list(cell: str) -> bool:
    """Return whether a cell is a list of CPUs such as `0-31,64-95`."""
    return _ranges(cell) is not None


def affinities(rows: Sequence[Cells]) -> tuple[CpuAffinity, ...]:
    """Return the affinity of each GPU, given the cells of all of them. O(rows²)."""
    certain = {ranges for row in rows if not row.short and (ranges := _ranges(row.cpus))}
    return tuple(_affinity(row, certain) for row in rows)


def _affinity(row: Cells, certain: set[Ranges]) -> CpuAffinity:
    if row.unplaced:
        return CpuAffinity(doubt=f"affinity cells that belong to no heading ({row.unplaced[:40]})")
    listed = _ranges(row.cpus)
    if row.cpus not in _NOTHING and listed is None:
        return CpuAffinity(doubt=f"{row.cpus[:40]} is not a list of CPUs")
    if row.short and listed and row.numa in _NOTHING:
        return _unglued(row.cpus, certain)
    cpus = row.cpus if listed else ""
    if row.numa in _NOTHING:
        return CpuAffinity(cpus)
    node = _node(row.numa)
    if row.short and not listed and _BEGINS_WITH_RANGE.match(row.numa):
        node = None  # without the other cell these may be CPUs
    if node is None:
        return CpuAffinity(cpus, doubt=f"{row.numa[:40]} is not a NUMA node")
    return CpuAffinity(cpus, node)


def _unglued(cell: str, certain: set[Ranges]) -> CpuAffinity:
    """Return the CPUs and the node of a cell that may have swallowed the node behind it."""
    ways = [(cell, None), *_cuts(cell)]
    if len(ways) == 1:
        return CpuAffinity(cell)
    fitting = [(cpus, node) for cpus, node in ways if _fits(_ranges(cpus) or (), certain)]
    if len(fitting) != 1:
        return CpuAffinity(doubt=f"{cell[:40]} may be CPUs alone, or CPUs and a NUMA node")
    cpus, node = fitting[0]
    return CpuAffinity(
        cpus, node, "" if node is None else f"{cell[:40]} was read as {cpus} and {node}"
    )


def _cuts(cell: str) -> Iterator[tuple[str, int]]:
    """Return every way to cut a NUMA node off the end of a CPU list."""
    digits = len(cell) - len(cell.rstrip("0123456789"))
    for width in range(1, digits):
        node = cell[-width:]
        if (node == "0" or node[0] != "0") and _node(node) is not None and _ranges(cell[:-width]):
            yield cell[:-width], int(node)


def _fits(ranges: Ranges, certain: set[Ranges]) -> bool:
    """Return whether this is a list as hosts have them, given the lists of the other GPUs."""
    if any(ranges != other and _overlap(ranges, other) for other in certain):
        return False
    if ranges in certain:
        return True
    sizes = {last - first + 1 for first, last in ranges}
    return len(sizes) == 1 and (sizes == {1} or sizes.pop() % 2 == 0)


def _overlap(one: Ranges, other: Ranges) -> bool:
    """Return whether two ascending lists have a CPU in common. O(their length)."""
    merged = sorted((*one, *other))
    return any(after[0] <= before[1] for before, after in pairwise(merged))


def _ranges(cell: str) -> Ranges | None:
    """Return a list such as `0-31,64-95` as ranges; None where it is none or does not ascend."""
    if len(cell) > _MAX_CHARS or _RANGES.fullmatch(cell) is None:
        return None
    ranges: list[tuple[int, int]] = []
    for part in cell.split(","):
        first, _, last = part.partition("-")
        ranges.append((int(first), int(last or first)))
    ends = [number for pair in ranges for number in pair]
    ascends = all(a <= b for a, b in ranges) and ends == sorted(ends) and ends[-1] < _MOST_CPUS
    return tuple(ranges) if ascends else None


def _node(cell: str) -> int | None:
    """Return the first id of a list such as `0,3-9,11-17`: the CPU node, before the nodes
    of HBM.
    """
    ranges = _ranges(cell)
    if not ranges or ranges[-1][1] > MAX_NUMA or ranges[0][1] - ranges[0][0] >= _WIDEST_NODES:
        return None
    return ranges[0][0]
