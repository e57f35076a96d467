"""Instructions of the machine → patches for the API server."""

from collections.abc import Mapping
from typing import Any

from master.kube.objects import NODES, PODS
from master.kube.writing.writes import MANAGER_PREFIX, Patch, WriteTarget
from topo.gangs import note_codec
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.machine.gang import GangId, Selection
from topo.gangs.machine.instructions import Nominate, Open, OpenUnplanned

PODS_MANAGER = f"{MANAGER_PREFIX}nomination"
NODES_MANAGER = f"{MANAGER_PREFIX}gangs"


def pod_patch(
    asked: Nominate | Open | OpenUnplanned, namespace: str, keys: AnnotationKeys
) -> Patch:
    """Return the patch for an instruction about a pod."""
    match asked:
        case Nominate():
            return nomination_patch(asked, namespace, keys)
        case Open():
            return opening_patch(asked, namespace, keys)
        case OpenUnplanned():
            return unplanned_patch(asked, namespace, keys)


def nomination_patch(asked: Nominate, namespace: str, keys: AnnotationKeys) -> Patch:
    """Return the patch of a nomination: node, note and hold in one write.

    A status patch may contain annotations. So the hold is visible together with the nomination, and
    no reader counts the GPUs of both.
    """
    hold = None if asked.note.over else asked.note.hold
    annotations = {keys.placement: note_codec.encode_note(asked.id, asked.note), keys.hold: hold}
    return Patch(
        target=WriteTarget(PODS, asked.pod.name, namespace),
        manager=PODS_MANAGER,
        uid=asked.pod.uid,
        version=asked.version,
        subresource="status",
        fields={
            "metadata": {"annotations": annotations},
            "status": {"nominatedNodeName": asked.node},
        },
    )


def opening_patch(asked: Open, namespace: str, keys: AnnotationKeys) -> Patch:
    """Return the patch that removes our gate and adds the selector, in one write.

    No scheduler ever sees one of the two changes alone.
    """
    return Patch(
        target=WriteTarget(PODS, asked.pod.name, namespace),
        manager=PODS_MANAGER,
        uid=asked.pod.uid,
        version=asked.version,
        fields={
            "metadata": {
                "annotations": {keys.placement: note_codec.encode_note(asked.id, asked.note)}
            },
            "spec": {
                **gate_removal(keys),
                "nodeSelector": {keys.node_label_prefix + asked.id: asked.selection},
            },
        },
    )


def unplanned_patch(asked: OpenUnplanned, namespace: str, keys: AnnotationKeys) -> Patch:
    """Return the patch that removes our gate and notes the reason."""
    annotations = {keys.placement: note_codec.encode_unplanned(asked.why)}
    return Patch(
        target=WriteTarget(PODS, asked.pod.name, namespace),
        manager=PODS_MANAGER,
        uid=asked.pod.uid,
        version=asked.version,
        fields={"metadata": {"annotations": annotations}, "spec": gate_removal(keys)},
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
