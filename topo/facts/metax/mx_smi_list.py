"""`mx-smi -L`: one line per card with model, PCI address, availability and UUID.

Source: mx-smi 2.2.9 output; the line of a broken card (`bus Not Available(reason)`, no address, no
UUID) from the same tool's test data.
"""

import re

from topo.facts.reading import folding, gpu_list
from topo.facts.reading.identity import gpu_uuid, normal_bdf
from topo.facts.reading.text import numbered_lines, shorten
from topo.model.errors import Refusal
from topo.model.ids import Bdf
from topo.model.machine import Gpu
from topo.model.observation import ParsedProbe

FORMAT = "mx-smi-list"
_FIX = "run `mx-smi -L` again and give its whole output"
_CARD = re.compile(
    r"GPU#([0-9]{1,4}) (?:(.{1,200}?) )??((?:Not ?|Un)?Available) ?(?:\((.{0,300})\)?)?",
    re.IGNORECASE | re.ASCII,
)
_REST = re.compile(r"(?!GPU#)(?:\(.{0,300}|[^(]{1,300}\))|GPU#[0-9]{1,4}\b.{0,60}", re.ASCII)
"""What is left of a card's line that was folded: its remark, or its beginning alone."""
_BEGINS = re.compile(r"GPU#[0-9]", re.ASCII)
_UUID = re.compile(r"UUID:\s*([^\s)]+)", re.IGNORECASE)
_RECOGNISED = re.compile(
    r"^[ \t]*GPU#[0-9]{1,4}[ \t].{0,200}(?:\b|Not|Un)Available\b", re.MULTILINE | re.IGNORECASE
)


def recognises(text: str) -> bool:
    """Return whether `text` has a card's line. O(len(text))."""
    return "GPU#" in text and _RECOGNISED.search(text) is not None


def read(text: str) -> ParsedProbe | Refusal:
    """Return the cards as GPUs, healthy where Available. Refused: no card, or one index twice."""
    found: list[tuple[int, Gpu]] = []
    warnings: list[str] = []
    for number, line in numbered_lines(text):
        flat = " ".join(line.split())
        match = _CARD.fullmatch(flat) if "GPU#" in flat else None
        if match is not None:
            found.append((number, _gpu(match)))
        elif _REST.fullmatch(flat):
            warnings.append(folding.rest(number))
        elif _BEGINS.match(flat):
            warnings.append(
                f"line {number} has no known state and was left out: {shorten(flat, 60)}"
            )
        if match is not None and (flat.count("(") > flat.count(")") or flat.count("GPU#") > 1):
            warnings.append(folding.rest(number))
    declared = gpu_list.attached(text)
    return gpu_list.listed(FORMAT, found, warnings=warnings, declared=declared, fix=_FIX)


def _gpu(match: re.Match[str]) -> Gpu:
    index, device, state, remark = match.groups(default="")
    model, address = _split(device)
    uuid = _UUID.search(remark)
    available = state.lower() == "available"
    return Gpu(
        index=int(index),
        uuid=gpu_uuid(uuid.group(1)) if uuid else None,
        bdf=address,
        model=shorten(model) or None,
        healthy=available,
        trouble="" if available else shorten(f"Not Available: {remark.rstrip(')')}".rstrip(": ")),
    )


def _split(device: str) -> tuple[str, Bdf | None]:
    """Return model and address; a broken card has the word `bus` or nothing as its address."""
    words = device.split()
    address = normal_bdf(words[-1]) if words else None
    if address is not None or (words and words[-1].lower() in {"bus", "n/a", "na"}):
        words.pop()
    return " ".join(words), address
