"""How many other GPUs of its node each GPU reaches over a fast link, and which one is cut off.

Result: counts by GPU; and, of one reading alone, the GPUs that reach none while they should.

A fast link is a vendor's own (MetaXLink, NVLink, HCCS), as the link matrix prints it; bonded links
count once. A GPU is cut off if it has none and every other GPU of the node has two or more: boards
whose GPUs are bridged in pairs have one each, so a card without a bridge beside them is no fault.
Neither is a card of another model, such as one for a display.

Cost: O(GPUs²) for a matrix; equal hosts share one, and it is counted once.

Example, a real B200 host: GPU 2 prints NODE and SYS towards all, the other seven NV18 among each
other. They have 6 each, GPU 2 has none: it is cut off.
"""

from topo.discovery.node.health import Subject
from topo.model.forest import Reason
from topo.model.machine import LinkKind, LinkMatrix, NodeFacts

_FAST = frozenset(
    {LinkKind.METAXLINK, LinkKind.NVLINK, LinkKind.HCCS, LinkKind.HCCS_SW, LinkKind.SIO}
)
_ENOUGH = 2
LinkCounts = tuple[tuple[str, int], ...]
"""(GPU as the matrix names it, GPUs that it reaches)."""
_MOST_COUNTED = 256
_COUNTED: dict[int, tuple[LinkMatrix, LinkCounts]] = {}
"""What was counted last, by identity; the object is held, so its identity is not given again."""


def fast_links(matrix: LinkMatrix | None) -> LinkCounts:
    """How many GPUs each GPU reaches; empty without a matrix."""
    if matrix is None:
        return ()
    known = _COUNTED.get(id(matrix))
    if known is not None and known[0] is matrix:
        return known[1]
    size = len(matrix.gpus)
    rows = zip(matrix.gpus, matrix.links, strict=False)
    found = tuple((name, sum(link.kind in _FAST for link in row[:size])) for name, row in rows)
    if len(_COUNTED) >= _MOST_COUNTED:
        _COUNTED.clear()
    _COUNTED[id(matrix)] = matrix, found
    return found


def judge_cut_off(facts: NodeFacts) -> dict[Subject, Reason]:
    """The GPU of one reading that reaches no other, where all others reach several."""
    counts = fast_links(facts.matrix)
    alone = [name for name, count in counts if not count]
    if len(alone) != 1 or any(0 < count < _ENOUGH for _, count in counts) or len(counts) < 2:
        return {}
    if _is_of_another_model(facts, alone[0]):
        return {}
    text = f"{alone[0]} has no fast link to the {len(counts) - 1} other GPUs, which have them"
    return {("cut-off", alone[0]): Reason("gpu-cut-off", text)}


def _is_of_another_model(facts: NodeFacts, name: str) -> bool:
    """Whether the GPU of that row is known to be of a model that no other has."""
    number = _number(name)
    own = {gpu.model for gpu in facts.gpus if gpu.index == number}
    others = {gpu.model for gpu in facts.gpus if gpu.index != number}
    return bool(own) and not own & others


def _number(name: str) -> int:
    digits = name[len(name.rstrip("0123456789")) :]
    return int(digits) if digits else -1
