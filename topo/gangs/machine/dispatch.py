"""Pending writes: each is issued once, and again only after it was refused or is late.

A pending write is never repeated, so that a slow API server is not flooded and no two writes of a
pod race. The next observation shows whether it is done, not the API server's answer: a write by
another leader counts the same.

Cost: O(members + pending writes) per step.

Example: Nominate p0 in version 7 is issued, and late after 30 s.
    observed, p0 in version 7     → pending
    observed, p0 in version 8     → done, or about to be refused with a conflict: no more pending
    nothing for 30 s              → issued again if it is still due
"""

from collections.abc import Mapping
from dataclasses import replace

from topo.gangs.machine.events import Vanished, WriteRefused
from topo.gangs.machine.gang import Gang, PodUid
from topo.gangs.machine.instructions import (
    Instruction,
    LabelNodes,
    Nominate,
    Open,
    OpenInDomain,
    OpenUnplanned,
    PodInstruction,
    Release,
    UnlabelNodes,
)
from topo.gangs.machine.record import Key, PendingWrite, Writes
from topo.gangs.machine.settings import GangSettings


def unfinished_writes(given: Writes, gang: Gang) -> Writes:
    """Return the pending writes that this observation does not show as done; O(members + pending).

    A write of a pod names a version: once the pod has another version, the write is done or will be
    refused.
    """
    if not given:
        return given
    versions = {each.uid: each.version for each in (*gang.members, *gang.choosers)}
    return {key: each for key, each in given.items() if not _is_done(each, gang, versions)}


def unexpired_writes(given: Writes, now_s: float) -> Writes:
    """Return the pending writes that are not late; late ones may be issued again."""
    return {key: each for key, each in given.items() if each.until_s > now_s}


def refused_writes(
    given: Writes, refused: WriteRefused, now_s: float, settings: GangSettings
) -> Writes:
    """Return the pending writes after one was refused: it is issued again after a while. O(1)."""
    found = dict(given)
    for key in (("pod", refused.subject), ("node", refused.subject)):
        if key in found and found[key].version == refused.version:
            refusals = found[key].refusals + 1
            until_s = now_s + settings.refused_s(refusals)
            found[key] = replace(found[key], until_s=until_s, refusals=refusals, why=refused.why)
    return found


def issue_writes(
    given: Writes, want: Mapping[Key, Instruction], *, pending: Writes, late_s: float
) -> tuple[list[Instruction], Writes]:
    """Return the writes of a gang to issue now, and all that are pending afterwards.

    `pending` are those of `given` that are not late; their subjects get no second write. What is
    issued now is late at `late_s`. Labels are joined into one instruction each. O(wanted + given).
    """
    kept = dict(pending)
    new = {key: each for key, each in want.items() if key not in kept}
    for key, each in new.items():
        before = given.get(key)
        refusals, why = (before.refusals, before.why) if before is not None else (0, "")
        version = each.pod.version if isinstance(each, PodInstruction) else ""
        kept[key] = PendingWrite(each, late_s, version, refusals, why)
    writes = new.values()
    bare = [each for each in writes if isinstance(each, UnlabelNodes)]
    labels = [each for each in writes if isinstance(each, LabelNodes)]
    out: list[Instruction] = []
    if bare:
        out.append(UnlabelNodes(bare[0].id, tuple(node for each in bare for node in each.nodes)))
    if labels:
        out.append(LabelNodes(labels[0].id, tuple(pair for each in labels for pair in each.nodes)))
    out += (each for each in writes if not isinstance(each, LabelNodes | UnlabelNodes))
    return out, kept


def cleanup_writes(left: Vanished) -> dict[Key, Instruction]:
    """Return the writes that remove the remains of a deleted gang."""
    want: dict[Key, Instruction] = {
        ("node", node): UnlabelNodes(left.id, (node,)) for node in left.labelled
    }
    return want | {("hold", hold): Release(left.id, hold) for hold in left.holds}


def _is_done(given: PendingWrite, gang: Gang, versions: Mapping[PodUid, str]) -> bool:
    match given.instruction:
        case LabelNodes(_, ((node, value),)):
            return gang.labelled.get(node) == value
        case UnlabelNodes(_, (node,)):
            return node not in gang.labelled
        case Release(_, hold):
            return hold not in gang.holds
        case Nominate() | Open() | OpenUnplanned() | OpenInDomain():
            pod = given.instruction.pod
            return versions.get(pod.uid) != given.version
    return True
