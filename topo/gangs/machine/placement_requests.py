"""The requests of a gang: for a placement that it needs, for its turn, for a check of its nodes.

`placement_needs` says which placement is due. A request has what answers it: which pods keep their
nodes, which holds it replaces, and which nodes may not be used.

Cost: O(members) for each.
"""

from dataclasses import replace

from topo.gangs.machine.gang import Binding, Gang
from topo.gangs.machine.instructions import Check, Place
from topo.gangs.machine.pending_queue import QueueRequest
from topo.gangs.machine.placement_needs import PlacementNeed, kept_node
from topo.gangs.machine.record import Purpose, Record, holds_of, opened_selections, selection_scope
from topo.gangs.machine.settings import GangSettings
from topo.gangs.machine.write_order import Progress
from topo.model.ids import NodeName
from topo.placement.job.request import PlacementMode, Request


def _requested(record: Record, need: PlacementNeed, now_s: float) -> Request:
    """Return the request that a placement is part of: enough pods to start are asked as a job."""
    request = current_request(record.gang, now_s)
    is_start = need.purpose is Purpose.START
    return replace(request, pods=len(need.members)) if is_start else request


def preempts_s(record: Record, settings: GangSettings) -> float | None:
    """Return when a gang in the queue may be planned over other pods; None for never."""
    if settings.preempt_s is None or record.queued_since_s is None:
        return None
    may = record.gang.preempts and not record.is_released
    return record.queued_since_s + settings.preempt_s if may else None


def queue_request(
    record: Record, need: PlacementNeed, now_s: float, settings: GangSettings
) -> QueueRequest:
    """Return the current request of a gang in the queue."""
    due_s = preempts_s(record, settings)
    request = _requested(record, need, now_s)
    # What is booked for one gang is refused to no other.
    alone = len(need.members) < request.pods or bool(record.gang.booked)
    may_evict = due_s is not None and due_s <= now_s and not alone
    over = record.gang.priority if may_evict else None
    keeper = record.gang.namespace if any(pod.is_expected for pod in need.members) else ""
    return QueueRequest(request, need.uids if alone else frozenset(), over, keeper)


def place_request(record: Record, need: PlacementNeed, now_s: float, *, ask: int) -> Place:
    """Return the request for a need, without the fields that the queue adds; O(members).

    The request replaces the gang's holds. Opened pods book by themselves where they are planned;
    the new hold books for the remaining pods that are gated or not yet seen as planned.
    """
    gang = record.gang
    uids = need.uids
    kept = tuple(
        (member.rank, node)
        for member in gang.members
        if member.uid not in uids and (node := kept_node(record, member)) is not None
    )
    held = tuple(
        (member, note.node)
        for member, note in record.waiting_pods()
        if member.uid not in uids
        and not note.over
        and note.node not in record.lost
        and (member.gated or not record.is_seated(member, note))
    )
    return Place(
        id=gang.id,
        ask=ask,
        request=_requested(record, need, now_s),
        wanted=need.members,
        kept=kept,
        held=held,
        replaced=(*gang.holds, *gang.booked),
        without=_unusable_nodes(record, need),
        takes=gang.takes,
        fewest_gpus=gang.fewest_gpus,
        over=gang.priority
        if need.purpose is Purpose.WHOLE and record.over and record.lost
        else None,
        mixed=may_exchange_pods(gang),
    )


def check_request(record: Record, progress: Progress, now_s: float, *, ask: int) -> Check | None:
    """Return the check of the nodes that is due before more pods are opened; None if none is due.

    O(members).
    """
    gang = record.gang
    if record.checked or record.check is not None:
        return None
    if not (record.unproven or progress.is_complete):
        return None
    waiting = tuple((member, note.node) for member, note in progress.waiting)
    # A placement leaves out surplus pods (`kept_node`): with them a check drops what it found.
    bound = tuple(
        (m.rank, m.node)
        for m in gang.members
        if m.live and m.node is not None and m.uid not in record.surplus
    )
    if not (waiting or record.strayed):
        return None
    return Check(
        id=gang.id,
        ask=ask,
        request=current_request(gang, now_s),
        waiting=waiting,
        bound=bound,
        holds=tuple(sorted(holds_of(progress.waiting))),
        takes=gang.takes,
        over=gang.priority if record.over else None,
    )


def may_exchange_pods(gang: Gang) -> bool:
    """Whether the gang's scheduler may exchange its pods among nodes that it clears for them.

    Volcano's action `preempt` goes by the score of a node, not by nominations (`normalPreempt` in
    pkg/scheduler/actions/preempt/preempt.go, v1.14); kube-scheduler's pods select their group.
    """
    required = gang.request.mode is PlacementMode.REQUIRED
    return gang.binding is Binding.WHOLE and required


def current_request(gang: Gang, now_s: float) -> Request:
    """Return the gang's request at `now_s`: after its wait, groups are only preferred."""
    if gang.wait_s is not None and now_s >= gang.created_s + gang.wait_s:
        return replace(gang.request, mode=PlacementMode.PREFERRED)
    return gang.request


def _unusable_nodes(record: Record, need: PlacementNeed) -> tuple[NodeName, ...]:
    """Return the free nodes on which these pods may not be placed.

    Its scheduler refused the node, pods of their groups select others, or another pod of the gang
    is planned there over pods of lower priority: nothing is booked for that pod.
    """
    others = record.waiting_pods() if record.over else []
    over = {note.node for member, note in others if note.over and member.uid not in need.uids}
    return tuple(sorted({*record.avoided, *_unselectable_nodes(record, need), *over}))


def _unselectable_nodes(record: Record, need: PlacementNeed) -> tuple[NodeName, ...]:
    """Return the nodes whose label value these pods do not select, or pods of their groups."""
    gang, uids = record.gang, need.uids
    by_scope = opened_selections(gang)
    for member, note in record.waiting_pods():
        if member.uid not in uids:
            by_scope.setdefault(selection_scope(gang, note.group), note.selection)
    scopes = {selection_scope(gang, gang.group_of(each.rank)) for each in need.members}
    selected = {each.selection for each in need.members if each.opened and each.selection}
    selected |= {by_scope[scope] for scope in scopes & by_scope.keys()}
    if not selected:
        return ()
    values = {} if need.purpose is Purpose.WHOLE else record.selections()
    return tuple(sorted(node for node, value in values.items() if {value} != selected))
