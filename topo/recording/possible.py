"""Which faults a recorded host can have: only what it has can break.

Example: an NVL72 tray has four GPUs with 18 links each and no remotes, so `link 17 of gpu 3 of
node-1 goes down` can happen there, and neither `gpu 4 of node-1 fails` nor `remote 1 of node-1
vanishes` can.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from topo.facts import registry
from topo.facts.assemble import assemble
from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.model.machine import NodeFacts, PortState
from topo.recording.bundle import Bundle
from topo.recording.timeline import (
    OF_SUPER_POD,
    Fault,
    FaultKind,
    Sentence,
    apply,
    has_nvlink,
    has_super_pod,
)

_BY_INDEX = frozenset({FaultKind.REMOTE_GONE, *OF_SUPER_POD})
_OF_LINKS = frozenset({FaultKind.LINK_DOWN, FaultKind.LINK_SLOW, FaultKind.LINK_ERRORS})


@dataclass(frozen=True, slots=True)
class _Parts:
    """What of one kind somebody has, by number; `one`, `many` and `noun` are what it is called."""

    owner: str
    one: str
    many: str
    noun: str
    numbers: Sequence[int]


def facts_of(recording: Bundle) -> NodeFacts:
    """What the recorded texts say of the host while nothing is wrong; a bad text adds nothing."""
    parsed = [(p.format, registry.parse(p.text, p.format)) for p in recording.probes if p.text]
    return assemble(recording.identity, parsed, ())


def impossible(fault: Fault, facts: NodeFacts) -> Refusal | None:
    """Return why the host cannot have this fault, and what it can have; None where it can."""
    wanted, parts = _wanted(fault, facts)
    if wanted in parts.numbers and _is_stated(fault, facts):
        what = f"{parts.owner} states that while nothing is wrong"
        return Refusal(what, "SENTENCE", "give another number")
    if wanted in parts.numbers:
        return None
    if parts.numbers:
        fix = f"it has {parts.many if len(parts.numbers) > 1 else parts.one}"
        what = f"{parts.owner} has no {parts.one} {wanted}"
        return Refusal(what, "SENTENCE", f"{fix} {_ranges(parts.numbers)}")
    said = ", ".join(f"`{each}`" for each in possible(fault.node, facts))
    return Refusal(f"{parts.owner} has no {parts.noun}", "SENTENCE", f"possible there: {said}")


def possible(node: NodeName, facts: NodeFacts) -> tuple[str, ...]:
    """Sentences that can be: one for every kind of fault that the host can have."""
    return tuple(str(Sentence(each, begins=True)) for each in _examples(node, facts))


def _wanted(fault: Fault, facts: NodeFacts) -> tuple[int, _Parts]:
    """Return the number of what would break, and those that there are."""
    number = fault.index if fault.kind in _BY_INDEX else fault.gpu
    parts = _parts(fault, facts)
    if fault.kind in _OF_LINKS and number in parts.numbers:
        return fault.index, _links(fault, facts)
    return number, parts


def _parts(fault: Fault, facts: NodeFacts) -> _Parts:
    """Return what of the host the fault's first number names."""
    node = str(fault.node)
    match fault.kind:
        case FaultKind.REMOTE_GONE:
            slots = () if facts.peers is None else [peer.slot for peer in facts.peers.remotes]
            return _Parts(node, "remote", "remotes", "remote", slots)
        case FaultKind.FABRIC_BROKEN | FaultKind.FABRIC_DEGRADED:
            member = [fabric.gpu for fabric in facts.fabrics if fabric.member_of is not None]
            fabric = "fabric" if has_super_pod(facts) else "NVLink fabric"
            return _Parts(node, f"{fabric} of GPU", f"{fabric} of GPUs", fabric, member)
        case kind if kind in OF_SUPER_POD:
            numbers = OF_SUPER_POD[kind][1] if has_super_pod(facts) else ()
            return _Parts(node, "possible number", "possible numbers", "super pod", numbers)
        case FaultKind.LINK_SLOW if not has_nvlink(facts):
            return _Parts(node, "NVLink", "NVLinks", "NVLink", ())
        case FaultKind.SILENT:
            return _Parts(node, "worker", "workers", "worker", [fault.gpu])
        case _:
            return _Parts(node, "GPU", "GPUs", "GPU", [gpu.index for gpu in facts.gpus])


def _links(fault: Fault, facts: NodeFacts) -> _Parts:
    """Return the links of the fault's GPU; a port that is wired to nothing cannot go down."""
    used = [p.port for p in facts.ports if p.gpu == fault.gpu and p.state is not PortState.UNUSED]
    owner = f"GPU {fault.gpu} of {fault.node}"
    return _Parts(owner, "link", "links", "link that is in use", used)


def _examples(node: NodeName, facts: NodeFacts) -> Iterator[Fault]:
    """Yield one fault of every kind that the host can have, of the first part that can have it."""
    for kind in FaultKind:
        own = Fault(kind, node)
        first = min(_parts(own, facts).numbers, default=0)
        own = replace(own, index=first) if kind in _BY_INDEX else replace(own, gpu=first)
        if _is_stated(own, facts):
            own = replace(own, index=first + 1)
        if kind in _OF_LINKS:
            own = replace(own, index=min(_links(own, facts).numbers, default=0))
        wanted, parts = _wanted(own, facts)
        if wanted in parts.numbers:
            yield own


def _is_stated(fault: Fault, facts: NodeFacts) -> bool:
    """Return whether such a fault of a super pod is what the host states without it."""
    return fault.kind in OF_SUPER_POD and apply(frozenset({fault}), facts) == facts


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers in words: `1`, `0 to 7`, `0, 2 and 5`."""
    found = sorted(set(numbers))
    if len(found) > 2 and all(after == before + 1 for before, after in pairwise(found)):
        return f"{found[0]} to {found[-1]}"
    *others, last = map(str, found)
    return f"{', '.join(others)} and {last}" if others else last
