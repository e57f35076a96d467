"""Opened pods that their scheduler refuses: after a while their nodes count as lost for the gang.

A plan counts GPUs. A scheduler also looks at processors, memory, ports, volumes and affinities, so
it may refuse a planned node for ever. Then the gang is placed on other nodes, and where there are
none its places are given up (`drop_lost_places`), so that it keeps no GPUs from others.

Why it is right. A scheduler that does not run, or has not come to the pods, states no reason, and
the plan stays. kube-scheduler clears the nomination of a single pod that it refuses, and sets it
again when it evicts others for the pod: such a pod is left alone. In a PodGroup it clears those of
the pods that would fit, and gives them no reason of their own. A plan over pods of lower priority
waits for evictions in any case. After `avoid_s` the nodes are tried again, since what they lacked
may be there by then.

Cost: O(members).

Example, bind_s 30, avoid_s 300: p0 and p1 are opened at 0 on n0 and n1.
    5    p0 refused: "insufficient cpu"    → nothing yet
    30   still so                          → n0 is lost until 330: p0 moves, or the places go
    330  still without other room          → n0 may be planned again
"""

from dataclasses import replace

from topo.gangs.machine.record import Record
from topo.gangs.machine.settings import GangSettings
from topo.model.ids import NodeName


def follow_unbound_pods(record: Record, now_s: float, settings: GangSettings) -> Record:
    """Return the record with the nodes lost that its scheduler refuses for too long; O(members)."""
    record = _drop_expired(record, now_s)
    waiting = [member for member, _ in record.waiting_pods() if not member.is_expected]
    if not waiting or any(member.gated for member in waiting):
        return record if record.opened_since_s is None else replace(record, opened_since_s=None)
    since_s = record.opened_since_s
    if since_s is None:
        return replace(record, opened_since_s=now_s)
    refused = _refused_nodes(record) if now_s >= since_s + settings.bind_s else {}
    if not refused:
        return record
    avoided = dict.fromkeys(refused, now_s + settings.avoid_s)
    lost = {**record.lost, **refused}
    return replace(record, lost=lost, avoided={**record.avoided, **avoided}, check=None)


def next_looks_s(record: Record, settings: GangSettings) -> list[float]:
    """Return the times at which `follow_unbound_pods` may find something without an event."""
    since_s = record.opened_since_s
    return [*record.avoided.values(), *([] if since_s is None else [since_s + settings.bind_s])]


def _drop_expired(record: Record, now_s: float) -> Record:
    avoided = {node: until_s for node, until_s in record.avoided.items() if until_s > now_s}
    if len(avoided) == len(record.avoided):
        return record
    return replace(record, avoided=avoided, no_room=None)


def _refused_nodes(record: Record) -> dict[NodeName, str]:
    """Return the planned nodes of opened pods that their scheduler refuses, with its words."""
    is_together = record.gang.binding.is_together
    return {
        note.node: f"the scheduler says of {member.name}: {member.unscheduled}"
        for member, note in record.waiting_pods()
        if member.unscheduled and not note.over and (is_together or member.nominated is None)
    }
