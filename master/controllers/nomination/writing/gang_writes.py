"""Instructions of the machine → patches for the API server."""

from collections.abc import Mapping
from typing import Any

from master.kube.objects import NODES, PODS
from master.kube.writing.writes import MANAGER_PREFIX, Patch, WriteTarget
from topo.gangs import note_codec
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.machine.gang import GangId, Selection
from topo.gangs.machine.instructions import (
    Nominate,
    Open,
    OpenInDomain,
    OpenUnplanned,
    PodInstruction,
)
from topo.gangs.scale_in import DELETION_COST

PODS_MANAGER = f"{MANAGER_PREFIX}nomination"
NODES_MANAGER = f"{MANAGER_PREFIX}gangs"


def pod_patch(
    asked: PodInstruction,
    namespace: str,
    keys: AnnotationKeys,
    *,
    deletion_cost: int | None = None,
    domain: str = "",
) -> Patch:
    """Return the patch for an instruction about a pod; an opening also writes its deletion cost.

    `domain`: the value of the label of the domain that it is to be opened in.

    A nomination is node, note and hold in one write, because a status patch may contain
    annotations. So the hold is visible together with the nomination, and no reader counts the GPUs
    of both. An opening removes our gate and adds the selector in one write, so that no scheduler
    ever sees one of the two changes alone.
    """
    place: dict[str, str | None]
    fields: dict[str, Any]
    match asked:
        case Nominate(note=note):
            hold = note.hold if note.is_booked else None
            place = {keys.placement: note_codec.encode_note(asked.id, note), keys.hold: hold}
            fields = {"status": {"nominatedNodeName": asked.node}}
        case Open():
            place = {keys.placement: note_codec.encode_note(asked.id, asked.note)}
            selector = {keys.node_label_prefix + asked.id: asked.note.selection}
            if deletion_cost is not None:
                place[DELETION_COST] = str(deletion_cost)
            fields = {"spec": {**gate_removal(keys), "nodeSelector": selector}}
        case OpenInDomain():
            place = {}
            fields = {"spec": {**gate_removal(keys), "nodeSelector": {asked.label: domain}}}
        case OpenUnplanned():
            place = {keys.placement: note_codec.encode_unplanned(asked.why)}
            fields = {"spec": gate_removal(keys)}
    return Patch(
        target=WriteTarget(PODS, asked.pod.name, namespace),
        manager=PODS_MANAGER,
        uid=asked.pod.uid,
        version=asked.pod.version,
        subresource="status" if isinstance(asked, Nominate) else "",
        fields={"metadata": {"annotations": place}, **fields},
    )


def node_label_patch(
    name: str, uid: str, changes: Mapping[GangId, Selection | None], keys: AnnotationKeys
) -> Patch:
    """Return the patch that sets gang labels on a node; None removes a label, all others stay.

    A large gang needs one patch per node, and a merge costs the API server less than an apply.
    """
    wanted = {keys.node_label_prefix + gang_id: value for gang_id, value in sorted(changes.items())}
    return Patch(
        target=WriteTarget(NODES, name),
        manager=NODES_MANAGER,
        uid=uid,
        fields={"metadata": {"labels": wanted}},
    )


def gate_removal(keys: AnnotationKeys) -> dict[str, Any]:
    """Return a `spec` patch that removes only our gate: gates are merged by name."""
    return {"schedulingGates": [{"$patch": "delete", "name": keys.gate}]}
