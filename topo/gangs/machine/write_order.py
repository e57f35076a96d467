"""The order of writes: what is to be written for a gang now, from its plan and what is seen of it.

Finds, for each pod and each node of a gang, the one next write. Nothing is remembered of what was
written: what is there is compared with what the plan wants, so that who takes over from another
leader goes on where that one was.

    1. nominate each pod, with its note           while it is not seen nominated as planned;
                                                   the note alone where Volcano is to evict others
    2. take the label from nodes of earlier plans  at once
    3. label the planned nodes                     no such node is left, and every pod that is
                                                   opened already is seen nominated
    4. check that all nodes are free               all are nominated, exactly the plan is labelled
    5. open all                                    the check said so

Why it is right. Neither scheduler binds a gated pod, and an opened one only to a node whose label
has the value that it selects. Before 5 nothing is opened, so the writes of 1 to 3 bind nobody. When
pods are opened every node of theirs is labelled and every one of them nominated, and a nominated
node is tried first. Of a move (pods that are opened get other nodes) 2 comes before 3: at no time
is there more room in the selection than the plan has, so a gang that is bound whole or not at all
is bound to the plan. With 3 before 2 it is not: of p0 on n0 and p1 on n2, both lost, planned anew
on n1 and n3, n1 is labelled, n0 becomes free, and p1 (nominated to n3, which is not labelled yet)
goes to n0, into the group of p0.

Cost: O(members + labelled nodes).

Example: a gang of two pods, nodes n0 and n1, seen after each step.
    nothing              → Nominate p0 n0, Nominate p1 n1, LabelNodes n0 n1
    p0 nominated         → nothing: p1 and the labels are under way
    all of it            → Check
    Checked, nothing lost → Open p0, Open p1
    p0 bound             → nothing
    p0 and p1 bound      → Release of the hold, if it has not ended by itself
"""

from collections.abc import Container, Iterator, Mapping

from topo.gangs.machine.gang import Binding, Gang, Member, Note, Selection
from topo.gangs.machine.instructions import (
    Instruction,
    LabelNodes,
    NamedPod,
    Nominate,
    Open,
    OpenUnplanned,
    Release,
    UnlabelNodes,
)
from topo.gangs.machine.record import Key, Record
from topo.model.ids import NodeName


def wanted(record: Record, given: Container[Key] = frozenset()) -> dict[Key, Instruction]:
    """The writes that are to be under way now, by what they are about, but for those of pods and
    nodes that are `given`; O(members).
    """
    gang = record.gang
    want: dict[Key, Instruction] = {}
    needed = record.holds()
    for hold in gang.holds:
        if hold not in needed:
            want["hold", hold] = Release(gang.id, hold)
    if record.unproven:
        return want
    values = record.values()
    stale = _stale(gang, values)
    for node in stale:
        want["node", node] = UnlabelNodes(gang.id, (node,))
    if not stale and _opened_are_seated(record):
        want |= {
            ("node", node): LabelNodes(gang.id, ((node, values[node]),))
            for node in _unlabelled(gang, values)
            if ("node", node) not in given
        }
    opens = may_open(record)
    lost = _groups_with_losses(record)
    for member in gang.members:
        if ("pod", member.uid) in given:
            continue
        is_whole = not lost or gang.group_of(member.rank) not in lost
        write = _of_pod(record, member, opens=opens and is_whole)
        if write is not None:
            want["pod", member.uid] = write
    return want


def ready_for_check(record: Record) -> bool:
    """Whether the plan is written, so that a look at its nodes decides."""
    if not all(record.seats(member, note) for member, note in record.planned()):
        return False
    gang, values = record.gang, record.values()
    return not (_stale(gang, values) or _unlabelled(gang, values))


def may_open(record: Record) -> bool:
    """Whether the gates may be taken off now.

    Where pods are bound one by one, a group that lost a node holds up no other one.
    """
    alone = record.gang.binding is Binding.PIECEMEAL
    passed = record.checked and not record.blocked and (alone or not record.lost)
    return (passed or bool(record.gang.ungated)) and ready_for_check(record)


def pod_of(member: Member) -> NamedPod:
    """The pod as instructions name it."""
    return NamedPod(member.uid, member.name, member.rank)


def _of_pod(record: Record, member: Member, *, opens: bool) -> Instruction | None:
    """The next write of one pod."""
    gang = record.gang
    if not member.waits:
        return None
    note = record.plan.get(member.uid)
    if note is None:
        why = _unplanned(record, member)
        return OpenUnplanned(gang.id, pod_of(member), member.version, why) if why else None
    if not record.seats(member, note):
        return Nominate(gang.id, pod_of(member), member.version, note, record.nominee(note))
    if member.gated and opens:
        return Open(gang.id, pod_of(member), member.version, note.selection, note)
    return None


def _unplanned(record: Record, member: Member) -> str:
    """Why a pod without a plan is opened all the same; empty where it is not."""
    if not member.gated:
        return ""
    if member.fixed is not None:
        return f"another gate keeper chose node {member.fixed} for it"
    return record.gang.ungated


def _groups_with_losses(record: Record) -> set[int]:
    planned = record.planned() if record.lost else ()
    return {note.group for _, note in planned if note.node in record.lost}


def _stale(gang: Gang, values: Mapping[NodeName, Selection]) -> list[NodeName]:
    """Nodes whose label is of no use, or has another value than the plan's."""
    return [node for node, value in gang.labelled.items() if values.get(node) != value]


def _unlabelled(gang: Gang, values: Mapping[NodeName, Selection]) -> list[NodeName]:
    return [node for node in values if node not in gang.labelled]


def _opened_are_seated(record: Record) -> bool:
    return all(record.seats(*each) for each in _opened(record))


def _opened(record: Record) -> Iterator[tuple[Member, Note]]:
    return ((member, note) for member, note in record.planned() if member.opened)
