"""One GPU in the words that `nvidia-smi -q` uses in its text and its XML alike."""

import re
from collections.abc import Mapping

from topo.facts.reading.identity import gpu_uuid, known, normal_bdf
from topo.facts.reading.text import shorten
from topo.model.machine import Gpu

_MEBIBYTES = re.compile(r"([0-9]{1,9})\s*MiB", re.ASCII)
_DEAD = frozenset({"gpu is lost", "unknown error", "gpu requires reset", "err!"})
"""What nvidia-smi prints in the place of a value that the GPU does not answer for."""


def gpu(index: int, address: str, words: Mapping[str, str]) -> Gpu:
    """The GPU from its `model`, `uuid`, `memory` and `recovery` words, each of which may lack.

    Unhealthy where a value reads "GPU is lost" or the like, or where the driver wants a recovery
    action; healthy where it wants none; unsaid where the action is N/A (virtual and older GPUs).
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
