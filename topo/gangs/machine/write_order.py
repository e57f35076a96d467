"""The order of writes: the writes that are due for a gang, from its plan and its observed state.

Result: for each pod, node and hold of a gang its one next write. Earlier writes are not remembered:
the observed state is compared with the plan, so that a new leader continues where an earlier one
stopped.

    1. nominate each pod, with its note           while it is not seen nominated as planned; only
                                                   the note where Volcano has to evict others; of
                                                   an opened pod once no node of 2 is left
    2. remove the label from nodes of old plans    at once
    3. label the planned nodes                     once no node of 2 is left, and every pod that is
                                                   opened already is seen nominated
    4. check that all nodes are free               once all pods are nominated and exactly the
                                                   planned nodes are labelled
    5. open all gates                              once the check passed; of a pod without GPUs by
                                                   whose node a domain is chosen once all others of
                                                   the gang have places there

A place that is given up takes back its hold, its label and its nomination, in any order. A gated
pod takes no GPUs, and a plan without its hold is no plan for the next leader either. An opened pod
takes the GPUs of its place until its note is withdrawn; once its label is gone no scheduler binds
it there.

Why it is right. Neither scheduler binds a gated pod, and an opened one only to a node whose label
has the value that it selects. Before 5 nothing is opened, so that the writes of 1 to 3 bind
nothing. When pods are opened, every node of theirs is labelled and every pod is nominated, and a
scheduler tries the nominated node first. For a move (opened pods get other nodes) 2 comes before
1 and 3: at no time does the selection have more nodes than the plan, nor nodes of two plans, so
that a gang that is bound whole is bound to one plan. With 3 before 2 it is not. Example: p0 on n0
and p1 on n2 are both lost and planned again on n1 and n3. n1 is labelled, n0 becomes free, and p1
(nominated to n3, which has no label yet) goes to n0, into the group of p0. Nor with 1 before 2: p0
and p1, a group, on n0 and n1, and p2 on n2 are planned again as n2, n3 and n0. If n1 becomes free
before its label is removed, p0 goes to n2, and p1 and p2 to what is left.

Cost: O(members + labelled nodes).

Example: a gang of two pods on nodes n0 and n1; the writes after each observation.
    nothing written       → Nominate p0 n0, Nominate p1 n1, LabelNodes n0 n1
    p0 nominated          → none: p1 and the labels are pending
    all of it             → none, but a check of the nodes
    check passed          → Open p0, Open p1
    p0 bound              → none
    p0 and p1 bound       → Release of the hold, if it has not ended by itself
"""

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, replace

from topo.gangs.machine.gang import Binding, Gang, Member, Note, PodUid, Selection
from topo.gangs.machine.instructions import (
    Instruction,
    LabelNodes,
    Nominate,
    Open,
    OpenInDomain,
    OpenUnplanned,
    Release,
    UnlabelNodes,
)
from topo.gangs.machine.record import Key, Record, holds_of
from topo.model.ids import NodeName


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a plan is written: the labels to remove, the nodes without one, the pods to nominate.

    `waiting` are the planned pods that are not bound, with their notes. `selections` are the values
    that the labels of the nodes are to have.
    """

    waiting: list[tuple[Member, Note]]
    selections: Mapping[NodeName, Selection]
    stale: list[NodeName]
    unlabelled: list[NodeName]
    unseated: frozenset[PodUid]

    @property
    def is_complete(self) -> bool:
        """Whether the plan is written completely, so that a check of its nodes is due next."""
        return not (self.stale or self.unlabelled or self.unseated)


def progress_of(record: Record) -> Progress:
    """Return how far the plan is written; O(members + labelled nodes)."""
    values, labelled = record.selections(), record.gang.labelled
    waiting = record.waiting_pods()
    return Progress(
        waiting=waiting,
        selections=values,
        stale=[node for node, value in labelled.items() if values.get(node) != value],
        unlabelled=[node for node in values if node not in labelled],
        unseated=frozenset(m.uid for m, note in waiting if not record.is_seated(m, note)),
    )


def next_writes(
    record: Record, progress: Progress, pending: Collection[Key] = frozenset()
) -> dict[Key, Instruction]:
    """Return the writes that are due now by subject; none of a pod with a `pending` one.

    O(members).
    """
    gang = record.gang
    # A hold is released as soon as no pod waits on it, whatever else is pending.
    needed = holds_of(_pods_on_holds(record, progress))
    want: dict[Key, Instruction] = {
        ("hold", hold): Release(gang.id, hold) for hold in gang.holds if hold not in needed
    }
    if record.unproven:
        return want
    for node in progress.stale:
        want["node", node] = UnlabelNodes(gang.id, (node,))
    # A node may yet get a label of an older plan.
    coming = {name for kind, name in pending if kind == "node"} - progress.selections.keys()
    is_bare = not (progress.stale or coming)
    # Step 3 waits for step 2, and for the nominations of pods that their scheduler may bind now.
    opened = {member.uid for member in gang.members if member.opened}
    if is_bare and opened.isdisjoint(progress.unseated):
        for node in progress.unlabelled:
            want["node", node] = LabelNodes(gang.id, ((node, progress.selections[node]),))
    want |= _unplanned_pod_writes(record)
    planned = _planned_pod_writes(record, progress, pending)
    if not is_bare:
        planned = {key: each for key, each in planned.items() if key[1] not in opened}
    return want | planned | _chooser_writes(record, progress)


def can_open(record: Record, progress: Progress) -> bool:
    """Whether the gates may be opened now.

    If pods are bound one by one, a group that lost a node does not delay the other groups.
    """
    is_piecemeal = record.gang.binding is Binding.PIECEMEAL
    is_free = record.checked and not record.blocked and (is_piecemeal or not record.lost)
    return (is_free or bool(record.gang.ungated)) and progress.is_complete


def _pods_on_holds(record: Record, progress: Progress) -> list[tuple[Member, Note]]:
    """Return the planned pods that need their holds; O(members).

    Where a place was given up, because it was refused, or because its pod is gone or was made again
    without a gate, opened pods no longer need its hold: they book their own nodes, and the hold
    would also keep that place. But they do until their node has its label, because without it only
    the hold bears out their note.
    """
    too_large, labelled = record.too_large_holds(), record.gang.labelled
    return [
        (member, note)
        for member, note in progress.waiting
        if note.hold not in too_large
        or member.gated
        or member.uid in progress.unseated
        or labelled.get(note.node) != note.selection
    ]


def _planned_pod_writes(
    record: Record, progress: Progress, pending: Container[Key]
) -> dict[Key, Instruction]:
    """Return the nominations that are missing, and the gates to open."""
    want: dict[Key, Instruction] = {}
    gang_id, opens = record.gang.id, can_open(record, progress)
    lost = {note.group for _, note in progress.waiting if note.node in record.lost}
    for member, note in progress.waiting:
        if ("pod", member.uid) in pending:
            continue
        if member.uid in progress.unseated:
            node = record.nominated_node(note)
            want["pod", member.uid] = Nominate(gang_id, member, note, node)
        elif opens and member.gated and not member.is_expected and note.group not in lost:
            want["pod", member.uid] = Open(gang_id, member, note)
    return want


def _chooser_writes(record: Record, progress: Progress) -> dict[Key, Instruction]:
    """Return the gates to open of pods by whose node the domain of the others is chosen.

    They go to the domain of the lowest rank once each rank has its place or has ended.
    """
    gang = record.gang
    gated = [member for member in gang.choosers if member.waits and member.gated]
    if not gated:
        return {}
    nodes = {
        m.rank: m.node or record.plan[m.uid].node
        for m in gang.members
        if m.live and (m.node is not None or m.uid in record.plan)
    }
    is_kept = len(nodes.keys() | gang.done_ranks) >= gang.request.pods and not record.lost
    why = gang.ungated or ("" if nodes or not is_kept else "the other pods of its gang have ended")
    why = why if _label_of(gang) else why or "its gang needs no domain of its own"
    if why:
        return {("pod", each.uid): OpenUnplanned(gang.id, each, why) for each in gated}
    if not is_kept or (progress.waiting and not can_open(record, progress)):
        return {}
    node, label = nodes[min(nodes)], _label_of(gang)
    return {("pod", each.uid): OpenInDomain(gang.id, each, label, node) for each in gated}


def _label_of(gang: Gang) -> str:
    """Return the label of the domain of the first part; empty where it needs none."""
    return next((run.label for run in gang.request.own_domains), "")


def _unplanned_pod_writes(record: Record) -> dict[Key, Instruction]:
    """Return the gates to open without a plan, and the places to withdraw.

    Gates are opened of the whole gang, or where a node was chosen.
    """
    want: dict[Key, Instruction] = {}
    gang = record.gang
    for member in gang.members:
        if not member.waits or member.is_expected or member.uid in record.plan:
            continue
        why = gang.ungated
        if member.fixed is not None:
            why = f"another gate keeper chose node {member.fixed} for it"
        if why and member.gated:
            want["pod", member.uid] = OpenUnplanned(gang.id, member, why)
        elif why or member.note is None:
            continue
        elif not member.note.withdrawn or record.has_unwanted_nomination(member):
            note = replace(member.note, withdrawn=True)
            want["pod", member.uid] = Nominate(gang.id, member, note, None)
    return want
