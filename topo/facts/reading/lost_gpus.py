"""Lines in an output that say of one GPU that it does not answer its driver any more.

nvidia-smi prints such a line in the place of the GPU, or above everything, and goes on with the
others. What is left is the output of a smaller machine: the line is a warning in whatever format it
stands, and readers that list GPUs list this one as unhealthy.

Source: posted outputs of drivers 470 to 610; the spelling of the address varies with the driver.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from topo.facts.reading.identity import normal_bdf
from topo.facts.reading.text import numbered_lines, shorten, whole
from topo.model.ids import Bdf
from topo.model.machine import MAX_GPUS, Gpu

_WORDS = ("Unable to determine the device handle", "GPU is lost", "has fallen off the bus")
_TOLD = re.compile(
    r"Unable to determine the device handle|^\W{0,16}GPU is lost\b|\bhas fallen off the bus",
    re.IGNORECASE,
)
_HANDLE = re.compile(
    r"Unable to determine the device handle for(?: gpu)?\s{0,4}GPU\s{0,4}"
    r"(?:([0-9]{1,3})\s{0,4}:\s{0,4})?"
    r"(?:([0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7])\s{0,4}:\s{0,4})?(.{0,80})",
    re.IGNORECASE,
)
NO_ANSWERS = frozenset({"gpu is lost", "gpu requires reset"})
"""What nvidia-smi prints in the place of a value that the GPU does not answer for (lower case)."""


@dataclass(frozen=True, slots=True)
class LostGpu:
    """A GPU without a handle, with its index and address where the line has them."""

    line: int
    index: int | None
    bdf: Bdf | None
    why: str


def find(text: str) -> Iterator[LostGpu]:
    """Return the GPUs of which the text says that they have no handle. O(len(text)).

    A GPU of which it says so again, as a tool that asks twice does, is one; lines that name none
    stay as they are.
    """
    told: set[tuple[int | None, Bdf | None]] = set()
    lines = numbered_lines(text) if _WORDS[0] in text else ()
    for number, line in lines:
        lost = on_line(number, line)
        if lost is None:
            continue
        named = (lost.index, lost.bdf)
        if named == (None, None) or named not in told:
            told.add(named)
            yield lost


def on_line(number: int, line: str) -> LostGpu | None:
    """Return the GPU of which this line says that it has no handle."""
    match = _HANDLE.search(line) if _WORDS[0] in line else None
    if match is None:
        return None
    index, address, why = match.groups(default="")
    reason = shorten(why).partition(".")[0] or "no device handle"
    return LostGpu(number, whole(index, 3), normal_bdf(address), reason)


def warnings(text: str) -> list[str]:
    """Return a warning per line that says that a GPU does not answer. O(len(text))."""
    if not any(words in text for words in _WORDS):
        return []
    told = ((number, line) for number, line in numbered_lines(text) if _TOLD.search(line))
    return [f"line {n}: a GPU does not answer its driver ({shorten(line, 90)})" for n, line in told]


def placed(lost: Iterable[LostGpu], listed: Iterable[int]) -> list[tuple[int, Gpu]]:
    """Return (line, GPU) pairs of lost GPUs, each with the index that is left for it.

    Tools number GPUs without gaps. So a GPU whose line has no index has the index that the list
    lacks, or the one behind the last; where more are lacking than are lost, nobody knows it, and
    the GPU is left out.
    """
    taken = set(listed)
    given = [gpu for gpu in lost if gpu.index is None or gpu.index not in taken]
    named = {gpu.index for gpu in given if gpu.index is not None}
    unnamed = [gpu for gpu in given if gpu.index is None]
    gaps = [n for n in range(max(taken | named, default=-1)) if n not in taken | named]
    if len(gaps) > len(unnamed):
        given, gaps = [gpu for gpu in given if gpu.index is not None], []
    after = max(taken | named, default=-1) + 1
    free = iter([*gaps, *range(after, after + len(given))])
    indexes = (gpu.index if gpu.index is not None else next(free) for gpu in given)
    found = zip(given, indexes, strict=True)
    return [(gpu.line, unhealthy(gpu, index)) for gpu, index in found if index < MAX_GPUS]


def unhealthy(lost: LostGpu, index: int) -> Gpu:
    """Return the lost GPU as a fact."""
    return Gpu(index, bdf=lost.bdf, healthy=False, trouble=lost.why)


def without_answer(words: Sequence[str]) -> str:
    """Return the first of these values that says "no answer", without its advice, or nothing."""
    bare = (word.strip("<>[] ").partition(".")[0] for word in words)
    return next((word for word in bare if word.lower() in NO_ANSWERS), "")
