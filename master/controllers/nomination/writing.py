"""What is to be done for a gang → writes to the API server."""

from collections.abc import Mapping
from typing import Any

from master.controllers.nomination import note
from master.kube.objects import NODES, PODS
from master.kube.writes import MANAGER_PREFIX, Patch, WriteTarget
from topo.gangs.gang import GangId, Selection
from topo.gangs.instructions import Nominate, Open, OpenUnplanned
from topo.gangs.words import Words

PODS_MANAGER = f"{MANAGER_PREFIX}nomination"
NODES_MANAGER = f"{MANAGER_PREFIX}gangs"


def of_pod(asked: Nominate | Open | OpenUnplanned, namespace: str, words: Words) -> Patch:
    """The write that an instruction about a pod asks for."""
    match asked:
        case Nominate():
            return nomination(asked, namespace, words)
        case Open():
            return opening(asked, namespace, words)
        case OpenUnplanned():
            return opening_unplanned(asked, namespace, words)


def nomination(asked: Nominate, namespace: str, words: Words) -> Patch:
    """Node, note and hold in one write: the status takes annotations along, so the GPUs of the
    nomination are never counted beside those of its hold.
    """
    hold = None if asked.note.over else asked.note.hold
    annotations = {words.placement: note.written(asked.id, asked.note), words.hold: hold}
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


def opening(asked: Open, namespace: str, words: Words) -> Patch:
    """Our gate off and the selector on, in one write: no scheduler sees one without the other."""
    return Patch(
        target=WriteTarget(PODS, asked.pod.name, namespace),
        manager=PODS_MANAGER,
        uid=asked.pod.uid,
        version=asked.version,
        fields={
            "metadata": {"annotations": {words.placement: note.written(asked.id, asked.note)}},
            "spec": {
                **without_gate(words),
                "nodeSelector": {words.node_label(asked.id): asked.selection},
            },
        },
    )


def opening_unplanned(asked: OpenUnplanned, namespace: str, words: Words) -> Patch:
    """Our gate off, and nothing else but why."""
    annotations = {words.placement: note.unplanned(asked.why)}
    return Patch(
        target=WriteTarget(PODS, asked.pod.name, namespace),
        manager=PODS_MANAGER,
        uid=asked.pod.uid,
        version=asked.version,
        fields={"metadata": {"annotations": annotations}, "spec": without_gate(words)},
    )


def node_labels(
    name: str, uid: str, changes: Mapping[GangId, Selection | None], words: Words
) -> Patch:
    """Labels of gangs that a node is to have, or not any more (None); all others stay.

    A large gang has one for each of its nodes, and a merge costs the API server less than an apply.
    """
    wanted = {words.node_label(gang_id): value for gang_id, value in sorted(changes.items())}
    return Patch(
        target=WriteTarget(NODES, name),
        manager=NODES_MANAGER,
        uid=uid,
        fields={"metadata": {"labels": wanted}},
    )


def without_gate(words: Words) -> dict[str, Any]:
    """The spec of a patch that takes our gate off, and no other: such lists are merged by keys."""
    return {"schedulingGates": [{"$patch": "delete", "name": words.gate}]}
