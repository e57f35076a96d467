"""`nvidia-smi nvlink -e`: what the driver has counted on each link.

A counter that the text does not have whole is no fact: a text that was cut shows no errors behind
the cut, and that is not the same as none.

Source: posted outputs of V100 and H100 hosts; the names of Blackwell from a B300 host with driver
595.91. There a healthy link counts corrected codewords (`FEC Errors - 0`) and raw errors of its
lanes by the billion, so these are passed over with packets, bytes and error rates.
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from topo.facts.nvidia import nvlink_sections
from topo.facts.nvidia.nvlink_sections import MAX_LINKS, Block
from topo.facts.reading import gpu_list
from topo.facts.reading.text import shorten, stated
from topo.model.errors import Refusal
from topo.model.machine import LinkErrorKind, LinkErrors
from topo.model.observation import ParsedProbe

FORMAT = "nvlink-errors"
_RECOGNISED = re.compile(
    r"^[ \t]*Links?[ \t]+[0-9][0-9, -]{0,80}:.{0,60}\b(?:errors?|events|discards)\b",
    re.MULTILINE | re.IGNORECASE,
)
_LINE = re.compile(r"Links? ([0-9][0-9, -]{0,80}?) ?: ?(.{1,120})")
_BEGUN = re.compile(r"(?:L|Li|Lin|Links?)(?: [0-9, -]{0,80}:?)?")
_COUNTER = re.compile(r"(.{1,60}?) ?: ?([0-9]{1,20}|N/A)", re.IGNORECASE)
_SPAN = re.compile(r" ?([0-9]{1,4})(?: ?- ?([0-9]{1,4}))? ?")
_NONE = "no errors"
_OLD = (LinkErrorKind.REPLAY, LinkErrorKind.RECOVERY, LinkErrorKind.CRC)
"""What `No errors` stands for: the counters of NVLink up to Hopper."""
_KINDS: Mapping[str, tuple[LinkErrorKind, ...]] = MappingProxyType(
    {
        "replay errors": (LinkErrorKind.REPLAY,),
        "recovery errors": (LinkErrorKind.RECOVERY,),
        "crc errors": (LinkErrorKind.CRC,),
        "replay/recovery/crc errors": _OLD,
        "malformed packet errors": (LinkErrorKind.MALFORMED_PACKET,),
        "buffer overrun errors": (LinkErrorKind.BUFFER_OVERRUN,),
        "rx errors": (LinkErrorKind.RECEIVE,),
        "rx remote errors": (LinkErrorKind.RECEIVE_REMOTE,),
        "rx general errors": (LinkErrorKind.RECEIVE_GENERAL,),
        "local link integrity errors": (LinkErrorKind.LINK_INTEGRITY,),
        "tx discards": (LinkErrorKind.TRANSMIT_DISCARD,),
        "total link recovery events": (LinkErrorKind.RECOVERY,),
        "link recovery failed events": (LinkErrorKind.RECOVERY_FAILED,),
        "effective errors": (LinkErrorKind.EFFECTIVE,),
        "symbol errors": (LinkErrorKind.SYMBOL,),
    }
)
_PASSED_OVER = re.compile(r"\bBER\b|^FEC |^Raw |\b(?:packets|bytes)$|successful", re.IGNORECASE)


def recognises(text: str) -> bool:
    """Return whether `text` lists error counters per GPU. O(len(text))."""
    if "Link" not in text or nvlink_sections.GPU_LINE.search(text) is None:
        return False
    return _RECOGNISED.search(text) is not None


def read(text: str) -> ParsedProbe | Refusal:
    """Return the counters of every link, and no GPUs: they would outlive those that fell off the
    bus.

    Links whose line is missing, cut or without a number have no counter. O(len(text)).
    """
    found = list(nvlink_sections.blocks(text))
    fix = "run `nvidia-smi nvlink -e` again and give its whole output"
    listed = [(block.line, block.gpu) for block in found]
    refused = gpu_list.contradiction(listed, fix)
    if refused is not None:
        return refused
    warnings = [*nvlink_sections.elisions(text), *gpu_list.missing(listed, None)]
    open_line = text.count("\n") + 1 if text and not text.endswith("\n") else None
    counted = tuple(each for block in found for each in _counted(block, open_line, warnings))
    return stated(FORMAT, (counted,), warnings)


def _counted(block: Block, open_line: int | None, warnings: list[str]) -> Iterator[LinkErrors]:
    """Return the counters of one GPU; `open_line` is the last one, where nothing ends it."""
    seen: set[tuple[int, LinkErrorKind]] = set()
    for number, bare in block.lines:
        if bare and number == open_line:
            warnings.append(f"line {number}: {shorten(bare, 40)!r} is not a whole line")
            return
        stated = _stated(bare)
        if stated is None:
            warnings.append(f"line {number}: {shorten(bare, 60)!r} is not understood")
            continue
        links, kinds, count = stated
        keys = {(link, kind) for link in links for kind in kinds}
        if keys & seen:
            gpu = f"GPU {block.gpu.index}"
            warnings.append(
                f"line {number}: links of {gpu} begin again: the line of a GPU is missing"
            )
            return
        seen |= keys
        for link, kind in sorted(keys):
            yield LinkErrors(block.gpu.index, link, kind, count)


def _stated(bare: str) -> tuple[list[int], tuple[LinkErrorKind, ...], int] | None:
    """Return links, kinds and their count; none of them where the line has none, None where it is
    odd.
    """
    line = _LINE.fullmatch(bare)
    if line is None:
        return None if _BEGUN.fullmatch(bare) else ([], (), 0)
    links, counter = _links(line.group(1)), _counter(line.group(2))
    return None if links is None or counter is None else (links, *counter)


def _links(words: str) -> list[int] | None:
    """Return the links that `0-2, 4` names; None where that is no list of links."""
    spans = [_SPAN.fullmatch(word) for word in words.split(",")]
    named: list[int] = []
    for span in spans:
        if span is None:
            return None
        first, last = int(span.group(1)), int(span.group(2) or span.group(1))
        if not first <= last <= MAX_LINKS:
            return None
        named += range(first, last + 1)
    return named


def _counter(words: str) -> tuple[tuple[LinkErrorKind, ...], int] | None:
    """Return the kinds that are counted and the number; no kinds where it is none of ours or
    unknown.
    """
    if words.lower() == _NONE:
        return _OLD, 0
    counter = _COUNTER.fullmatch(words)
    name, number = counter.groups() if counter else (words.partition(":")[0], "")
    if _PASSED_OVER.search(name):
        return (), 0
    kinds = _KINDS.get(name.lower())
    if kinds is None or counter is None:
        return None
    return (kinds, int(number)) if number.isdigit() else ((), 0)
