"""Where a pod that is not bound takes what it asks for: by its plan, where a fact bears that out.

An opened pod takes the GPUs of its place before it is bound, as its note says: a scheduler clears
the nomination when an attempt fails, and the plan stays. Whoever may create pods can write a note,
and a pod that no scheduler binds would take a node for ever. So a note counts here as it does for
the machine (`topo.gangs.machine.claims`): by the gang's label on the node, or by a hold that was
made for the pod's gang and books of that node as many GPUs as the pod asks for. Else the pod takes
the node that it is nominated to, which only schedulers and masters write.

Cost: O(1) for a pod on a node with the label, else O(nodes of the hold).
"""

from dataclasses import replace
from itertools import chain, islice

from master.booking.state import BookingState
from master.kube.gang_pod import ClusterPod, GangPod
from master.kube.objects import NodeObject
from master.kube.store import Store
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.hold_claims import gang_of_hold
from topo.gangs.machine.claims import is_borne_out
from topo.gangs.machine.gang import HeldPlaces, Note, Selection
from topo.placement.booking.holds import Hold


class PlanProof:
    """Judges the plans of unbound pods by the nodes and the holds of this moment."""

    def __init__(self, nodes: Store[NodeObject], state: BookingState) -> None:
        self._nodes, self._state = nodes, state
        self._prefix = AnnotationKeys(state.policy.domain).node_label_prefix

    def borne_out(self, pod: ClusterPod) -> ClusterPod:
        """Return the pod with the booking that counts: of its plan, of its nomination, or none."""
        note, seen = booked_note(pod), pod.booking
        if note is None or seen is None or self._is_borne_out(pod, note):
            return pod
        if pod.nominated is None:
            return replace(pod, booking=None)
        return replace(pod, booking=replace(seen, pod=replace(seen.pod, node=pod.nominated)))

    def _is_borne_out(self, pod: ClusterPod, note: Note) -> bool:
        node = self._nodes.objects.get(("", note.node))
        labels = node.metadata.labels if node is not None else {}
        labelled = {note.node: Selection(labels.get(f"{self._prefix}{pod.gang_id}", ""))}
        return is_borne_out(note, {}, labelled) or is_borne_out(
            note, self._holds(pod, note), labelled
        )

    def _holds(self, pod: ClusterPod, note: Note) -> HeldPlaces:
        """Return the hold of a note, for its node alone, if a master made it for the pod's gang.

        `Hold.places` counts all nodes of the hold, and the capacity asks this for each pod. What a
        hold with slack leaves of a node may be another's.
        """
        hold = self._state.find_hold(note.hold)
        if not isinstance(hold, Hold) or gang_of_hold(hold) != pod.gang_id:
            return {}
        if hold.slack and self._state.bookings.planned(hold.id).get(note.node, 0) < pod.gpus:
            return {}
        places = chain.from_iterable(group.pods for group in hold.groups)
        return {hold.id: dict(islice((each for each in places if each[0] == note.node), 1))}


def booked_note(pod: ClusterPod) -> Note | None:
    """Return the note by which an unbound pod takes a node; None for any other pod."""
    note = pod.note if isinstance(pod, GangPod) else None
    if note is None or not note.is_booked or pod.node is not None or pod.booking is None:
        return None
    return note
