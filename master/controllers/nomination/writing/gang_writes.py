"""What is to be done for a gang → writes to the API server."""

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


def of_pod(asked: Nominate | Open | OpenUnplanned, namespace: str, keys: AnnotationKeys) -> Patch:
    """The write that an instruction about a pod asks for."""
    match asked:
        case Nominate():
            return nomination(asked, namespace, keys)
        case Open():
            return opening(asked, namespace, keys)
        case OpenUnplanned():
            return opening_unplanned(asked, namespace, keys)


def nomination(asked: Nominate, namespace: str, keys: AnnotationKeys) -> Patch:
    """Node, note and hold in one write: the status takes annotations along, so the GPUs of the
    nomination are never counted beside those of its hold.
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


def opening(asked: Open, namespace: str, keys: AnnotationKeys) -> Patch:
    """Our gate off and the selector on, in one write: no scheduler sees one without the other."""
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
                **without_gate(keys),
                "nodeSelector": {keys.node_label(asked.id): asked.selection},
            },
        },
    )


def opening_unplanned(asked: OpenUnplanned, namespace: str, keys: AnnotationKeys) -> Patch:
    """Our gate off, and nothing else but why."""
    annotations = {keys.placement: note_codec.encode_unplanned(asked.why)}
    return Patch(
        target=WriteTarget(PODS, asked.pod.name, namespace),
        manager=PODS_MANAGER,
        uid=asked.pod.uid,
        version=asked.version,
        fields={"metadata": {"annotations": annotations}, "spec": without_gate(keys)},
    )


def node_labels(
    name: str, uid: str, changes: Mapping[GangId, Selection | None], keys: AnnotationKeys
) -> Patch:
    """Labels of gangs that a node is to have, or not any more (None); all others stay.

    A large gang has one for each of its nodes, and a merge costs the API server less than an apply.
    """
    wanted = {keys.node_label(gang_id): value for gang_id, value in sorted(changes.items())}
    return Patch(
        target=WriteTarget(NODES, name),
        manager=NODES_MANAGER,
        uid=uid,
        fields={"metadata": {"labels": wanted}},
    )


def without_gate(keys: AnnotationKeys) -> dict[str, Any]:
    """The spec of a patch that takes our gate off, and no other: such lists are merged by keys."""
    return {"schedulingGates": [{"$patch": "delete", "name": keys.gate}]}
