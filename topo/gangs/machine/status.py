"""The status of a nominated gang from its record: for Events, `topo why` and `GET /v1/gangs`."""

from dataclasses import replace

from topo.gangs.machine.instructions import ReportStatus
from topo.gangs.machine.pending_queue import PendingQueue
from topo.gangs.machine.placement_needs import Blocker, Need, PlacementNeed, placement_need
from topo.gangs.machine.record import Record
from topo.gangs.status import GangStatus
from topo.model.conditions.gang_states import GangState
from topo.model.words import listed

UNGROUPED = "`topo doctor` says what to do; gpu-group-wait of a job lets it run ungrouped after it"


def status_of(record: Record, queue: PendingQueue, ahead: int | None) -> GangStatus:
    """Return the status of the gang now; `ahead`: of how many it is behind there. O(members)."""
    gang, need = record.gang, placement_need(record)
    known = record.reported if is_undecided(record, need) else None
    state, text = known or state_of(record, queue, need)
    nodes = {uid: note.node for uid, note in record.plan.items()}
    return GangStatus(
        state=state,
        text=text,
        ahead=ahead,
        places=tuple(
            (member.rank, place)
            for member in gang.members
            if member.live and (place := member.node or nodes.get(member.uid)) is not None
        ),
    )


def is_undecided(record: Record, need: Need) -> bool:
    """Return whether a placement outside the queue is asked for, whose answer decides the state.

    Until then the machine keeps the state that it reported last. Else it would report two states
    whenever it looks for room in vain.
    """
    return record.asked is not None and isinstance(need, PlacementNeed) and not need.in_queue


def state_of(record: Record, queue: PendingQueue, need: Need) -> tuple[GangState, str]:
    """Return the state and its reason; `need` is the gang's `placement_need`. O(members).

    The tests are ordered by importance: problems that a person has to fix come before those that
    the machine fixes itself.
    """
    refused = next((each for each in record.given.values() if each.refusals > 1), None)
    if refused is not None:
        return GangState.WRITE_REFUSED, refused.why
    if record.gang.ungated:
        return GangState.WAIVED, record.gang.ungated
    if record.split:
        return GangState.SPLIT, record.split
    return _of_placement(record, queue, need)


def with_report(
    record: Record, found: tuple[GangState, str]
) -> tuple[Record, tuple[ReportStatus, ...]]:
    """Return the record with its state marked as reported, and the report if it has changed.

    Of missing pods only the first count is reported, because the others follow within moments.
    """
    before, state = record.reported, found[0]
    is_counted = state is GangState.PODS_MISSING and before is not None and before[0] is state
    if found == before or is_counted:
        return record, ()
    return replace(record, reported=found), (ReportStatus(record.gang.id, *found),)


def _of_placement(record: Record, queue: PendingQueue, need: Need) -> tuple[GangState, str]:
    if record.over and record.is_released:
        return GangState.PREEMPTS, f"its scheduler may evict {record.evicts or 'pods'} for it"
    if isinstance(need, PlacementNeed):
        if need.in_queue:
            found = _in_queue(record, queue)
            return _growing(record, found[1]) or found
        if record.no_room is not None:
            return _without_nodes(record, record.no_room.text)
    if isinstance(need, Blocker) and not need.some:
        return need.state, need.text
    return _by_plan(record, need if isinstance(need, Blocker) else None)


def _without_nodes(record: Record, text: str) -> tuple[GangState, str]:
    bound = sum(member.live and member.node is not None for member in record.gang.members)
    lost = [f"{node} ({why})" for node, why in record.lost.items()]
    because = f"; lost: {listed(lost)}" if lost else ""
    if not bound:
        return GangState.DISPLACED, f"none of its pods runs: {text}{because}"
    total = record.gang.request.pods
    return GangState.HALF_BOUND, f"{bound} of {total} pods run: {text}{because}"


def _in_queue(record: Record, queue: PendingQueue) -> tuple[GangState, str]:
    gang_id = record.gang.id
    answer = queue.answer(gang_id) if gang_id in queue else None
    if answer is None and queue.head not in {None, gang_id}:
        return GangState.BEHIND, f"it comes after {queue.head_name}, which waits for room"
    if answer is None:
        return GangState.IN_LINE, "its turn comes"
    if answer.behind:
        kept_for = queue.head_name or "another gang"
        return GangState.BEHIND, f"its room was kept for {kept_for}: {answer.text}"
    if answer.ungrouped:
        return GangState.NO_GROUPS, f"{answer.text}; {UNGROUPED}"
    return (GangState.NEVER_FITS if answer.never else GangState.NO_ROOM), answer.text


def _growing(record: Record, text: str) -> tuple[GangState, str] | None:
    """Return the state of a gang of which enough pods run; None for another one."""
    gang = record.gang
    running = sum(member.live and member.node is not None for member in gang.members)
    if not gang.starts_in_part or running < gang.at_least:
        return None
    return GangState.GROWING, f"{running} of {gang.request.pods} pods run; for the others: {text}"


def _by_plan(record: Record, blocker: Blocker | None) -> tuple[GangState, str]:
    waiting = [member for member, _ in record.waiting_pods() if not member.is_expected]
    if any(member.gated for member in waiting):
        inside = next((note.inside for _, note in record.waiting_pods() if note.inside), "")
        where = f", all of them inside {inside}" if inside else ""
        return GangState.PLACED, f"its nodes are being prepared{where}"
    if waiting:
        return GangState.OPENED, "its scheduler may bind it"
    if blocker is not None:
        return blocker.state, blocker.text
    if any(member.opened for member in record.gang.members):
        return GangState.OPENED, "its scheduler may bind it, without a plan"
    return _unplanned(record)


def _unplanned(record: Record) -> tuple[GangState, str]:
    """Return the state of a gang whose pods need no nodes now."""
    if choosing := [member for member in record.gang.choosers if member.waits]:
        if any(member.gated for member in choosing):
            return GangState.PLACED, "its nodes are being prepared"
        said = choosing[0].unscheduled or "its scheduler may bind it"
        return GangState.OPENED, f"{choosing[0].name} goes to the domain of the others: {said}"
    if expected := sum(member.is_expected for member in record.gang.members):
        pods = f"{expected} of {record.gang.request.pods} pods"
        return GangState.PODS_MISSING, f"{pods} are made later: their places are kept"
    if any(member.waits for member in record.gang.members):
        return GangState.WAIVED, "its pods name their nodes themselves"
    ended = not any(member.live for member in record.gang.members)
    return GangState.BOUND, "all of its pods have ended" if ended else "all of its pods run"
