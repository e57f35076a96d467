"""One GPU in the words that `nvidia-smi -q` uses in its text and its XML alike."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from topo.facts.nvidia import fabric_health
from topo.facts.reading.identity import gpu_uuid, known, normal_bdf
from topo.facts.reading.text import shorten
from topo.model.machine import Gpu, GpuFabric

_MEBIBYTES = re.compile(r"([0-9]{1,9})\s*MiB", re.ASCII)
_DEAD = frozenset({"gpu is lost", "unknown error", "gpu requires reset", "err!"})
"""What nvidia-smi prints in the place of a value that the GPU does not answer for."""


@dataclass(slots=True)
class GpuWords:
    """What a text states of one GPU; `address` is empty where no line names the GPU.

    Keys of `fabric` and `platform` are lower-case, without blanks and underscores.
    """

    line: int
    address: str = ""
    words: dict[str, str] = field(default_factory=dict)
    fabric: dict[str, str] = field(default_factory=dict)
    platform: dict[str, str] = field(default_factory=dict)


def understood(listed: Sequence[GpuWords]) -> tuple[list[tuple[int, Gpu]], tuple[GpuFabric, ...]]:
    """The GPUs with their lines, and the fabrics of those that have one, both by place."""
    found = [(seen.line, gpu(i, seen.address, seen.words)) for i, seen in enumerate(listed)]
    fabrics = (fabric_health.from_text(i, s.fabric, s.platform) for i, s in enumerate(listed))
    return found, tuple(fabric for fabric in fabrics if fabric is not None)


def gpu(index: int, address: str, words: Mapping[str, str]) -> Gpu:
    """The GPU from its `model`, `uuid`, `memory` and `recovery` words, each of which may lack.

    Unhealthy where a value reads "GPU is lost" or the like, or where the driver wants a recovery
    action; healthy where it wants none; unknown where the action is N/A (virtual and older GPUs).
    """
    memory = _MEBIBYTES.fullmatch(words.get("memory", ""))
    action = words.get("recovery", "")
    dead = next((word for word in words.values() if word.lower() in _DEAD), "")
    trouble = dead or (f"recovery action: {action}" if known(action) else "")
    healthy = True if action.lower() == "none" else None
    return Gpu(
        index=index,
        uuid=gpu_uuid(words.get("uuid")),
        bdf=normal_bdf(address),
        model=known(shorten(words.get("model", ""))),
        memory_bytes=int(memory.group(1)) << 20 if memory else None,
        healthy=False if trouble else healthy,
        trouble=shorten(trouble),
    )
