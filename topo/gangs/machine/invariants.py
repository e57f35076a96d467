"""The invariants of a gang's record and of all gangs, for `Gangs.validate`: after every event."""

from collections.abc import Iterator

from topo.gangs.machine.gang import Binding
from topo.gangs.machine.instructions import (
    LabelNodes,
    Nominate,
    Open,
    OpenInDomain,
    OpenUnplanned,
    Release,
    UnlabelNodes,
)
from topo.gangs.machine.pending_queue import PendingQueue
from topo.gangs.machine.placement_needs import PlacementNeed, placement_need
from topo.gangs.machine.record import Key, PendingWrite, Record, is_covered
from topo.gangs.machine.registry.gangs_state import GangsState
from topo.gangs.machine.write_order import can_open, next_writes, progress_of


def invariants(record: Record) -> Iterator[tuple[bool, str]]:
    """Yield each invariant as (does it fail, what fails); O(members + pending writes)."""
    gang, plan = record.gang, record.plan
    live = {member.uid: member for member in gang.members if member.live}
    waiting = list(record.waiting_pods())
    yield not plan.keys() <= live.keys(), "a pod that is gone has a place"
    yield not record.surplus.isdisjoint(plan), "a pod without a rank of its own has a place"
    groups = {uid: gang.group_of(live[uid].rank) for uid in plan}
    yield groups != {uid: note.group for uid, note in plan.items()}, "a note names another group"
    selections = {note.selection for _, note in waiting}
    one = gang.binding is not Binding.WHOLE or len(selections) <= 1
    yield not one, "the pods of a gang that is bound whole select different values"
    wrong = [m for m, note in waiting if m.opened and m.selection not in {"", note.selection}]
    yield bool(wrong), "an opened pod selects another value than its node is to have"
    over = {note.over for _, note in waiting}
    held = {note.hold for _, note in waiting} & set(gang.holds)
    yield over == {True} and bool(held), "a plan over others' pods has a hold"
    if not record.is_released and plan:
        yield len(over) != 1, "a plan is partly over others' pods"
        yield len({note.hold for note in plan.values()}) != 1, "a plan has several holds"
        yield not is_covered(record), "a plan has gaps"
    given = record.given.items()
    yield any(key != _about(each) for key, each in given), "a write is kept under another name"
    progress = progress_of(record)
    opens = [each for each in next_writes(record, progress).values() if isinstance(each, Open)]
    yield (
        bool(opens) and not can_open(record, progress),
        "a gate is opened before the plan is written",
    )
    checked = record.checked or gang.ungated
    yield bool(opens) and not checked, "a gate is opened before its node was looked at"


def machine_invariants(state: GangsState, queue: PendingQueue) -> Iterator[tuple[bool, str]]:
    """Yield each invariant of all gangs together as (does it fail, what fails); O(members)."""
    records = {record.gang.id: record for record in state.records}
    unplanned = [*(each.left.id for each in state.gone), *(a.gang.id for a in state.set_aside)]
    yield len(unplanned) != len({*unplanned}), "a gang is gone and set aside"
    yield not records.keys().isdisjoint(unplanned), "a gang is planned, and gone or set aside"
    is_asked = state.turn is None or records[state.turn].asked is not None
    yield not is_asked, "nothing is asked"
    yield not records.keys() >= {*state.stranded}, "a gang that is gone waits for room"
    if not state.leading:
        return
    needs = {gang_id: placement_need(record) for gang_id, record in records.items()}
    in_queue = {g for g, need in needs.items() if isinstance(need, PlacementNeed) and need.in_queue}
    yield in_queue != set(queue.waiting()), "the queue is not of those that need a turn"
    yield from queue.invariants()


def _about(given: PendingWrite) -> Key:
    match given.instruction:
        case LabelNodes(_, ((node, _),)) | UnlabelNodes(_, (node,)):
            return "node", node
        case Release(_, hold):
            return "hold", hold
        case Nominate() | Open() | OpenUnplanned() | OpenInDomain():
            return "pod", given.instruction.pod.uid
    return "", ""
