"""One GPU in the words that `nvidia-smi -q` uses in its text and its XML alike."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from topo.facts.nvidia import fabric_health
from topo.facts.reading.identity import gpu_uuid, known, normal_bdf
from topo.facts.reading.lost_gpus import NO_ANSWERS, LostGpu
from topo.facts.reading.text import shorten
from topo.model.errors import Refusal
from topo.model.machine import Gpu, GpuFabric

_MEBIBYTES = re.compile(r"([0-9]{1,9})\s*MiB", re.ASCII)
_WHOLE_UUID = re.compile(r"-[0-9a-f]{12}$", re.IGNORECASE)
_DEAD = frozenset({"unknown error", "err!", *NO_ANSWERS})
"""What nvidia-smi prints in the place of a name or a UUID that the GPU does not answer for."""


@dataclass(slots=True)
class GpuWords:
    """What a text states of one GPU; `address` is empty where no line names the GPU.

    Keys of `fabric` and `platform` are lower-case, without blanks and underscores. `lost` is what
    the tool says in the place of the GPU, or of any of its values, where it does not answer.
    """

    line: int
    address: str = ""
    words: dict[str, str] = field(default_factory=dict)
    fabric: dict[str, str] = field(default_factory=dict)
    platform: dict[str, str] = field(default_factory=dict)
    lost: str = ""


def with_lost(listed: Sequence[GpuWords], lost: Iterable[LostGpu]) -> list[GpuWords]:
    """Return the GPUs of a text with those that it calls lost, each at its place.

    NVML numbers GPUs by address, and the line of a lost one may stand above all others. Where the
    text has them in another order, or one without an address, they stay as their lines come. A line
    that has the number of its GPU decides by itself.
    """
    found = list(listed)
    by_address = {normal_bdf(seen.address): seen for seen in found}
    addresses = [normal_bdf(seen.address) or "" for seen in found]
    numbered: list[tuple[int, GpuWords]] = []
    for gpu in lost:
        same = by_address.get(gpu.bdf) if gpu.bdf else None
        words = GpuWords(gpu.line, gpu.bdf or "", lost=gpu.why)
        if same is not None:
            same.lost = gpu.why
        elif gpu.index is not None:
            numbered.append((gpu.index, words))
        else:
            found.append(words)
    found.sort(key=lambda seen: seen.line)
    if addresses == sorted(addresses) and all(normal_bdf(seen.address) for seen in found):
        found.sort(key=lambda seen: normal_bdf(seen.address) or "")
    for index, words in sorted(numbered, key=lambda pair: pair[0]):
        found.insert(index, words)
    return found


def counted(attached: int | None, listed: Sequence[GpuWords]) -> int | None:
    """Return how many GPUs the tool counts; a lost one may not be among them any more."""
    lost = sum(bool(seen.lost) for seen in listed)
    return len(listed) if attached is not None and attached + lost == len(listed) else attached


def understood(listed: Sequence[GpuWords]) -> tuple[list[tuple[int, Gpu]], tuple[GpuFabric, ...]]:
    """Return the GPUs with their lines, and the fabrics of those that have one, both by place."""
    found = [(seen.line, _gpu(i, seen)) for i, seen in enumerate(listed)]
    fabrics = (fabric_health.from_text(i, s.fabric, s.platform) for i, s in enumerate(listed))
    return found, tuple(fabric for fabric in fabrics if fabric is not None)


def listed_twice(found: Sequence[tuple[int, Gpu]], fix: str) -> Refusal | None:
    """Return why (line, GPU) pairs are not one host's GPUs: two of them at one address."""
    seen: dict[str, tuple[int, Gpu]] = {}
    for line, gpu in found:
        if gpu.bdf is None:
            continue
        above, first = seen.setdefault(gpu.bdf, (line, gpu))
        if first is not gpu:
            what = f"GPU {first.index} and GPU {gpu.index} are both at {gpu.bdf}, as in two outputs"
            return Refusal(what, f"lines {above} and {line}", fix)
    return None


def doubts(found: Sequence[tuple[int, Gpu]], fabrics: Sequence[GpuFabric]) -> list[str]:
    """Return warnings about GPUs that are not distinct, or that state less than the others."""
    return [*_shared_uuids(found), *_without_fabric(found, fabrics)]


def _shared_uuids(found: Sequence[tuple[int, Gpu]]) -> list[str]:
    """Return a warning about each UUID that several GPUs have: they count as several."""
    owners: dict[str, list[str]] = {}
    for _, gpu in found:
        if gpu.uuid is not None and _WHOLE_UUID.search(gpu.uuid):
            owners.setdefault(gpu.uuid.lower(), []).append(str(gpu.index))
    return [
        f"GPUs {', '.join(gpus)} have one UUID, {uuid}: it joins none of them with other outputs"
        for uuid, gpus in owners.items()
        if len(gpus) > 1
    ]


def _without_fabric(found: Sequence[tuple[int, Gpu]], fabrics: Sequence[GpuFabric]) -> list[str]:
    """Return a warning about GPUs that state no fabric where others of their model do: a text that
    is cut, or a GPU that has lost it.
    """
    stated = {fabric.gpu for fabric in fabrics}
    models = {gpu.model for _, gpu in found if gpu.index in stated}
    lacking = [gpu for _, gpu in found if gpu.index not in stated and gpu.model in models]
    if not lacking:
        return []
    which = ", ".join(str(gpu.index) for gpu in lacking[:8]) + (", …" if len(lacking) > 8 else "")
    return [f"no Fabric section of GPU {which}, where {len(stated)} others have one"]


def _gpu(index: int, seen: GpuWords) -> Gpu:
    """Return the GPU from its `model`, `uuid`, `memory` and `recovery` words, each of which may
    lack.

    Unhealthy where it is lost, where a value reads "GPU is lost" or the like, or where the driver
    wants a recovery action; healthy where it wants none; unknown where the action is N/A (virtual
    and older GPUs).
    """
    words = seen.words
    memory = _MEBIBYTES.fullmatch(words.get("memory", ""))
    action = words.get("recovery", "")
    dead = seen.lost or next((word for word in words.values() if word.lower() in _DEAD), "")
    trouble = dead or (f"recovery action: {action}" if known(action) else "")
    healthy = True if action.lower() == "none" else None
    model = words.get("model", "")
    return Gpu(
        index=index,
        uuid=gpu_uuid(words.get("uuid")),
        bdf=normal_bdf(seen.address),
        model=None if model.lower() in _DEAD else known(shorten(model)),
        memory_bytes=int(memory.group(1)) << 20 if memory else None,
        healthy=False if trouble else healthy,
        trouble=shorten(trouble),
    )
