"""Whether a node is Ready, and every reason why it is not."""

from topo.discovery.groups.membership import Membership
from topo.discovery.groups.node_links import wires
from topo.discovery.groups.tiers import innermost_kind
from topo.discovery.modes import WITHOUT_WORKERS, DiscoverySettings, Mode
from topo.discovery.node.hardware import GPUS
from topo.discovery.node.health import Subject
from topo.discovery.node.peer_claims import LINK
from topo.discovery.node.record import NodeRecord
from topo.model.conditions.tree import NodeCondition
from topo.model.forest import Node, Reason, Status
from topo.model.ids import NodeName, ServerUuid
from topo.model.isolation import ObjectError

NO_WORKER = Reason.of(NodeCondition.NO_WORKER)
"""Why a node that only the cluster names is in no group."""


def judge_reported(
    membership: Membership,
    settings: DiscoverySettings,
    record: NodeRecord,
    *,
    of_cluster: Reason | None = None,
    missing_tier: Reason | None,
    expected_gpus: int,
) -> Node:
    """Return a node that a worker reports.

    `of_cluster`: why the cluster starts no job there. `missing_tier`: why it is in no innermost
    group. `expected_gpus`: GPUs of its equals in its group.
    """
    reasons: tuple[Reason, ...] = (of_cluster,) if of_cluster is not None else ()
    reasons += _reasons(membership, settings, record, missing_tier)
    if (fewer := _fewer_gpus(record, expected_gpus)) is not None:
        reasons += (fewer,)
    status = Status.NOT_READY if reasons else Status.READY
    ends = wires(record, membership.wiring) if record.claims else ()
    return Node(record.name, status, reasons, record.gpus, record.gpu_type, ends)


def judge_unreported(
    membership: Membership,
    settings: DiscoverySettings,
    node: NodeName,
    *,
    of_cluster: Reason | None = None,
    gpus: int = 0,
) -> Node:
    """Return a node that the config file or the cluster names and no worker reports.

    `gpus`: those that the cluster states, 0 where it states none.
    """
    place = membership.declared.places.get(node)
    reasons: tuple[Reason, ...] = (of_cluster,) if of_cluster is not None else ()
    is_placed = isinstance(membership.labelled.find(node), tuple) or node in membership.fabric.paths
    is_of_cluster = settings.mode in WITHOUT_WORKERS - {Mode.CONFIG}
    if place is None and not (is_of_cluster or (settings.mode is Mode.CONFIG and is_placed)):
        return Node(node, Status.NOT_READY, (*reasons, NO_WORKER))
    if place is not None and place.status is Status.NOT_READY:
        reasons += (Reason.of(NodeCondition.CONFIG),)
    status = Status.NOT_READY if reasons else Status.READY
    return Node(node, status, reasons, gpus or settings.gpus_per_node)


def judge_unjudged(record: NodeRecord | None, node: NodeName, error: ObjectError) -> Node:
    """Return a node for which finding its status raised an error."""
    gpus, gpu_type = (record.gpus, record.gpu_type) if record is not None else (0, "")
    return Node(node, Status.NOT_READY, (unusable_report(error),), gpus, gpu_type)


def unusable_report(error: ObjectError) -> Reason:
    """Return the reason of a node whose last report could not be used."""
    text = f"its last report could not be used, by an error of topo-master: {error}"
    return Reason(NodeCondition.REPORT_UNUSABLE, text)


def is_shown(record: NodeRecord, shown: Node | None) -> bool:
    """Return whether a node is shown with the GPUs and in the slots that it states now."""
    if shown is None or (shown.gpus, shown.gpu_type) != (record.gpus, record.gpu_type):
        return False
    claimed = {(slot, uuid) for uuid, claim in record.claims.items() for slot in claim.slots}
    return claimed == {(wire.slot, wire.server) for wire in shown.wires}


def _reasons(
    membership: Membership,
    settings: DiscoverySettings,
    record: NodeRecord,
    missing_tier: Reason | None,
) -> tuple[Reason, ...]:
    reasons: list[Reason] = []
    if record.error is not None:
        reasons.append(unusable_report(record.error))
    if record.stale:
        beats, stale_s = settings.stale_beats, settings.stale_s
        text = f"its worker is stale: no report within {beats} beats ({stale_s:g} s)"
        reasons.append(Reason(NodeCondition.WORKER_STALE, text))
    machine = membership.machines.machine(record.name)
    if machine is not None and machine.status is Status.NOT_READY:
        reasons.append(Reason.of(NodeCondition.MANAGER))
    if missing_tier is not None:
        kind = innermost_kind(settings.mode)
        reasons.append(Reason(missing_tier.code, f"in no {kind}: {missing_tier.text}"))
    troubles = record.troubles
    for subject, reason in sorted(troubles.items()) if troubles else ():
        reasons.append(_named(membership, record.name, subject, reason))
    return tuple(reasons)


def _fewer_gpus(record: NodeRecord, expected_gpus: int) -> Reason | None:
    """Return the reason of a node that never showed as many GPUs as its equals."""
    known = max(record.hardware.gpus or 0, record.gpus)
    if known >= expected_gpus or GPUS in record.troubles:
        return None
    text = f"{known} GPUs, where the others of its group have {expected_gpus}"
    return Reason(NodeCondition.GPUS_FEWER, text)


def _named(membership: Membership, node: NodeName, subject: Subject, reason: Reason) -> Reason:
    """Return a dead link's reason with the node that people know, not only its server UUID."""
    kind, which = subject
    if kind != LINK:
        return reason
    other = membership.wiring.neighbour_behind(node, ServerUuid(which))
    if other is None:
        return reason
    return Reason(reason.code, f"the link to {other} is down: {reason.text}")
