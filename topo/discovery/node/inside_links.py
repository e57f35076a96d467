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

from typing import NamedTuple

from topo.discovery.node.health import Subject
from topo.discovery.node.per_object import once_per_object
from topo.model.conditions.tree import NodeCondition
from topo.model.forest import Reason
from topo.model.machine import LinkKind, LinkMatrix, NodeFacts

_FAST = frozenset(
    {LinkKind.METAXLINK, LinkKind.NVLINK, LinkKind.HCCS, LinkKind.HCCS_SW, LinkKind.SIO}
)
_ENOUGH = 2
LinkCounts = tuple[tuple[str, int], ...]
"""(GPU as the matrix names it, GPUs that it reaches)."""


class _Counted(NamedTuple):
    """What each GPU reaches, and the GPU that alone reaches none; "" where none is so."""

    links: LinkCounts
    alone: str


def fast_links(matrix: LinkMatrix | None) -> LinkCounts:
    """Return how many GPUs each GPU reaches; empty without a matrix."""
    return () if matrix is None else _counted(matrix).links


def judge_cut_off(facts: NodeFacts) -> dict[Subject, Reason]:
    """Return the GPU of one reading that reaches no other, where all others reach several."""
    if facts.matrix is None:
        return {}
    links, alone = _counted(facts.matrix)
    if not alone or _is_of_another_model(facts, alone):
        return {}
    text = f"{alone} has no fast link to the {len(links) - 1} other GPUs, which have them"
    return {("cut-off", alone): Reason(NodeCondition.GPU_CUT_OFF, text)}


@once_per_object
def _counted(matrix: LinkMatrix) -> _Counted:
    size = len(matrix.gpus)
    rows = zip(matrix.gpus, matrix.links, strict=False)
    links = tuple((name, sum(link.kind in _FAST for link in row[:size])) for name, row in rows)
    return _Counted(links, _alone(links))


def _alone(links: LinkCounts) -> str:
    without = [name for name, count in links if not count]
    others = [count for _, count in links if count]
    return without[0] if len(without) == 1 and others and min(others) >= _ENOUGH else ""


def _is_of_another_model(facts: NodeFacts, name: str) -> bool:
    """Return whether the GPU of that row is known to be of a model that no other has."""
    number = _number(name)
    own = {gpu.model for gpu in facts.gpus if gpu.index == number}
    others = {gpu.model for gpu in facts.gpus if gpu.index != number}
    return bool(own) and not own & others


def _number(name: str) -> int:
    digits = name[len(name.rstrip("0123456789")) :]
    return int(digits) if digits else -1
