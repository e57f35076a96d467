"""Which GPUs of a node are outside the NVLink domain or super pod that they should be in, and why.

Result: GPU numbers with the reason in words, empty where all is well.

A GPU is outside where its own words say that joining failed (`Completed` with another status than
`Success`), or where other GPUs of its model in the same node are members and it is not, or its
fabric is not stated at all. That is right because a tray is wired as a whole: a GPU that can join
belongs to the domain of its neighbours, and one that states nothing is not thereby well. A GPU
whose fabric is `N/A` beside another model has none to lose.

Cost: O(GPUs).

Example, a GB200 tray of Azure: three GPUs state `Completed`, `Success` and a cluster; GPU 2 states
`Completed`, `Insufficient Resources` and no cluster. Result: {2: "Insufficient Resources"}.
"""

from collections.abc import Mapping
from dataclasses import replace

from topo.discovery.node.health import Subject
from topo.model.conditions.tree import NodeCondition
from topo.model.forest import Reason
from topo.model.machine import FabricKind, GpuFabric, NodeFacts

_UNSUPPORTED = frozenset({"", "n/a", "not supported"})
_NO_FAILURE = _UNSUPPORTED | {"success"}
_MEMBER = "member"


def gpus_outside_domain(facts: NodeFacts) -> Mapping[int, str]:
    """Return the GPUs that are in no domain and should be, each with why."""
    if not facts.fabrics:
        return {}
    stated = {fabric.gpu: fabric for fabric in facts.fabrics}
    found = {gpu: fabric.status for gpu, fabric in stated.items() if _has_failed(fabric)}
    members = {gpu for gpu, fabric in stated.items() if fabric.member_of is not None}
    # No GPU is in a domain, or all are: there is nothing to compare within the tray.
    if not members or len(members) == len(facts.gpus) == len(stated):
        return found
    models = {gpu.index: gpu.model for gpu in facts.gpus}
    joined = {models.get(gpu) for gpu in members}
    for gpu in (stated.keys() | models.keys()) - members - found.keys():
        fabric = stated.get(gpu)
        # A GPU of another model, such as a display card, has no domain to lose.
        if models.get(gpu) in joined or (fabric is not None and not _is_unsupported(fabric)):
            found[gpu] = "its fabric is not stated" if fabric is None else _words(fabric)
    return found


def judge_fabric(facts: NodeFacts) -> dict[Subject, Reason]:
    """Return the bad subjects of one reading: the GPUs outside."""
    return {
        (_MEMBER, f"{gpu:03}"): Reason(
            NodeCondition.FABRIC_LOST, f"GPU {gpu} is in no {_kind(facts)}: {why}"
        )
        for gpu, why in gpus_outside_domain(facts).items()
    }


def _kind(facts: NodeFacts) -> str:
    is_super_pod = any(fabric.kind is FabricKind.SUPER_POD for fabric in facts.fabrics)
    return "super pod" if is_super_pod else "NVLink domain"


def with_failed_gpus(facts: NodeFacts) -> NodeFacts:
    """Return the facts with the GPUs outside failed: what asks a GPU for its health hears of its
    fabric.

    The same object where there are none.
    """
    lost = gpus_outside_domain(facts)
    if not lost:
        return facts
    kind = _kind(facts)
    gpus = tuple(
        replace(gpu, healthy=False, trouble=gpu.trouble or f"in no {kind}: {why}"[:256])
        if (why := lost.get(gpu.index)) is not None
        else gpu
        for gpu in facts.gpus
    )
    return replace(facts, gpus=gpus)


def _has_failed(fabric: GpuFabric) -> bool:
    return fabric.state == "Completed" and fabric.status.casefold() not in _NO_FAILURE


def _is_unsupported(fabric: GpuFabric) -> bool:
    return fabric.state.casefold() in _UNSUPPORTED


def _words(fabric: GpuFabric) -> str:
    if fabric.state == "Completed":
        return "no cluster UUID"
    return ", ".join(dict.fromkeys(w for w in (fabric.state, fabric.status) if w)) or "not said"
