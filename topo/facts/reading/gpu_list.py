"""Checks that every list of GPUs has to pass, whichever tool printed it.

The rows of a list stand for themselves, so a list that is cut is read as far as it goes, with a
warning that names what is missing; only a list that contradicts itself is refused.
"""

import re
from collections.abc import Iterable

from topo.facts.reading import folding
from topo.facts.reading.text import WHOLE_TEXT, stated
from topo.model.errors import Refusal
from topo.model.machine import MAX_GPUS, Gpu
from topo.model.observation import ParsedProbe, ProbeFact

_ATTACHED = re.compile(r"^[ \t]*Attached GPUs[ \t]*:[ \t]*([0-9]{1,4})[ \t]*$", re.MULTILINE)


def attached(text: str) -> int | None:
    """Return how many GPUs the tool says are attached, where its head line says so."""
    match = _ATTACHED.search(text)
    return int(match.group(1)) if match else None


def listed(
    name: str,
    found: list[tuple[int, Gpu]],
    others: Iterable[ProbeFact] = (),
    *,
    warnings: Iterable[str] = (),
    declared: int | None,
    fix: str,
) -> ParsedProbe | Refusal:
    """Return the observation of a list of (line, GPU) pairs, with what else the text states.

    Refused where the list contradicts itself; a warning where it lacks GPUs, see `missing`.
    """
    told = [*warnings, *missing(found, declared)]
    if not found:
        return folding.nothing("no GPU is listed", told, fix)
    return contradiction(found, fix) or stated(name, (ordered(found), *others), told)


def contradiction(found: list[tuple[int, Gpu]], fix: str) -> Refusal | None:
    """Return why (line, GPU) pairs are no list of one host's GPUs: none, too many, one
    index twice.
    """
    if not found:
        return Refusal("no GPU is listed", WHOLE_TEXT, fix)
    seen: dict[int, int] = {}
    for line, gpu in found:
        if gpu.index in seen:
            where = f"lines {seen[gpu.index]} and {line}"
            return Refusal(f"GPU {gpu.index} is listed twice", where, fix)
        if gpu.index >= MAX_GPUS or len(seen) >= MAX_GPUS:
            what = f"GPU {gpu.index} is beyond the {MAX_GPUS} that a host can have"
            return Refusal(what, f"line {line}", fix)
        seen[gpu.index] = line
    return None


def ordered(found: list[tuple[int, Gpu]]) -> tuple[Gpu, ...]:
    """Return the GPUs by index, whatever order the tool printed them in."""
    return tuple(sorted((gpu for _, gpu in found), key=lambda gpu: gpu.index))


def missing(found: list[tuple[int, Gpu]], declared: int | None) -> list[str]:
    """Return warnings about GPUs that the tool counts, or skips in numbering, and does not list.

    Also where more are listed than counted: the text may consist of two outputs.
    """
    have = {gpu.index for _, gpu in found}
    if declared is not None and len(have) > declared:
        return [f"{len(have)} GPUs are listed and {declared} attached: are these two outputs?"]
    total = max(declared or 0, max(have, default=-1) + 1)
    missing = [str(index) for index in range(min(total, MAX_GPUS)) if index not in have]
    if not missing:
        return []
    named = ", ".join(missing[:8]) + (", …" if len(missing) > 8 else "")
    return [f"{len(have)} of {total} GPUs are listed: the text is cut before or at GPU {named}"]
