"""Where a gang stands and why, in words: for Events, `topo why` and `GET /v1/gangs`."""

from dataclasses import dataclass

from topo.gangs.machine.gang import GangId
from topo.gangs.machine.pending_queue import PendingQueue
from topo.gangs.machine.placement_requests import Blocker, PlacementNeed, needed
from topo.gangs.machine.record import Record
from topo.model.conditions.gang_states import GangState
from topo.model.ids import NodeName
from topo.placement.job.words import listed

UNGROUPED = "`topo doctor` says what to do; gpu-group-wait of a job lets it run ungrouped after it"


@dataclass(frozen=True, slots=True)
class Standing:
    """A gang's reason and its words; in line also the number of gangs before it.

    `would_fit` is the smallest change that would let it in, where somebody has looked for it;
    `places` where its pods are or go, by rank.
    """

    id: GangId
    reason: GangState
    text: str
    ahead: int | None = None
    would_fit: str = ""
    places: tuple[tuple[int, NodeName], ...] = ()


def standing(record: Record, line: PendingQueue) -> Standing:
    """Where the gang stands now; O(members), and O(gangs) for one in line."""
    gang = record.gang
    reason, text = reason_of(record, line)
    nodes = {uid: note.node for uid, note in record.plan.items()}
    return Standing(
        id=gang.id,
        reason=reason,
        text=text,
        ahead=line.ahead(gang.id) if gang.id in line else None,
        places=tuple(
            (member.rank, place)
            for member in gang.members
            if member.live and (place := member.node or nodes.get(member.uid)) is not None
        ),
    )


def reason_of(record: Record, line: PendingQueue) -> tuple[GangState, str]:
    """The reason and its words; O(members)."""
    refused = next((each for each in record.given.values() if each.refusals > 1), None)
    if refused is not None:
        return GangState.WRITE_REFUSED, refused.why
    if record.gang.ungated:
        return GangState.WAIVED, record.gang.ungated
    if record.split:
        return GangState.SPLIT, record.split
    return _of_placement(record, line)


def _of_placement(record: Record, line: PendingQueue) -> tuple[GangState, str]:
    need = needed(record)
    if record.over and record.released:
        return GangState.PREEMPTS, f"its scheduler may evict {record.evicts or 'pods'} for it"
    if isinstance(need, PlacementNeed):
        if need.in_line:
            return _in_line(record, line)
        if record.no_room is not None:
            return _stranded(record, record.no_room.text)
    if isinstance(need, Blocker) and not need.some:
        return need.reason, need.text
    return _written(record, need if isinstance(need, Blocker) else None)


def _stranded(record: Record, text: str) -> tuple[GangState, str]:
    bound = sum(member.live and member.node is not None for member in record.gang.members)
    lost = [f"{node} ({why})" for node, why in record.lost.items()]
    because = f"; lost: {listed(lost)}" if lost else ""
    if not bound:
        return GangState.DISPLACED, f"none of its pods runs: {text}{because}"
    total = record.gang.request.pods
    return GangState.HALF_BOUND, f"{bound} of {total} pods run: {text}{because}"


def _in_line(record: Record, line: PendingQueue) -> tuple[GangState, str]:
    gang_id = record.gang.id
    answer = line.answer(gang_id) if gang_id in line else None
    if answer is None and line.head not in {None, gang_id}:
        return GangState.BEHIND, f"it comes after {line.head}, which waits for room"
    if answer is None:
        return GangState.IN_LINE, "its turn comes"
    if answer.behind:
        return GangState.BEHIND, f"its room was kept for {line.head}: {answer.text}"
    if answer.ungrouped:
        return GangState.NO_GROUPS, f"{answer.text}; {UNGROUPED}"
    return (GangState.NEVER_FITS if answer.never else GangState.NO_ROOM), answer.text


def _written(record: Record, lack: Blocker | None) -> tuple[GangState, str]:
    waiting = list(record.planned())
    if any(member.gated for member, _ in waiting):
        return GangState.PLACED, "its nodes are being prepared"
    if waiting:
        return GangState.OPENED, "its scheduler may bind it"
    if lack is not None:
        return lack.reason, lack.text
    if any(member.opened for member in record.gang.members):
        return GangState.OPENED, "its scheduler may bind it, without a plan"
    ended = not any(member.live for member in record.gang.members)
    return GangState.BOUND, "all of its pods have ended" if ended else "all of its pods run"
