"""Reads pods: an error of the parser stays with its pod, which then counts on the safe side."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from master.kube.gang_pod import FINISHED, ClusterPod, EndedPod, GangPod, ended_pod
from master.kube.objects import PodObject
from master.object_errors import ObjectErrors, ObjectKind
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.machine.gang import GangId, Selection
from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.model.isolation import ObjectError, attempt
from topo.model.pod_requests import requested
from topo.model.quantity import MOST
from topo.placement.booking.events import Pod, PodPhase, PodSeen
from topo.placement.job.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class PodReader:
    """Parses pods by `parse`.

    One for which that raises an error takes all cards of its node if it names any, and is a gang
    of its own without valid terms, so that its gate is opened and no other gang counts it.
    """

    parse: Callable[[PodObject], ClusterPod]
    policy: Policy
    keys: AnnotationKeys
    errors: ObjectErrors

    def read(self, found: PodObject) -> ClusterPod:
        """Return the pod; O(containers)."""
        return self._read(found, "pods")

    def read_ended(self, found: PodObject) -> EndedPod:
        """Return what is kept of a pod that has succeeded; O(containers)."""
        return ended_pod(self._read(found, "ended-pods"))

    def _read(self, found: PodObject, store: str) -> ClusterPod:
        """Return the pod; an error is shown as one of the reflector of this name."""
        name = f"{store} {found.metadata.namespace}/{found.metadata.name}"
        parsed = self.errors.run(ObjectKind.OBJECT, name, lambda: self.parse(found))
        return self._unparsed(found, parsed) if isinstance(parsed, ObjectError) else parsed

    def _unparsed(self, found: PodObject, error: ObjectError) -> ClusterPod:
        metadata, spec = found.metadata, found.spec
        gated = any(each.name == self.keys.gate for each in spec.scheduling_gates)
        amounts = attempt(lambda: requested(spec, self._cards))
        names_cards = isinstance(amounts, ObjectError) or bool(amounts or spec.resource_claims)
        text = f"pod {metadata.namespace}/{metadata.name}: it cannot be read, so it counts as all"
        common: dict[str, Any] = {
            "metadata": metadata.identity,
            "gang_id": GangId(metadata.uid),
            "node": spec.node_name or None,
            "phase": found.status.phase,
            "gated": gated,
            "resource": self.policy.gpu_resources[0] if names_cards else "",
            "gpus": MOST if names_cards else 0,
            "booking": self._booking(found) if names_cards else None,
            "names_cards": names_cards,
            "doubts": (f"{text} GPUs of its node: {error}",) if names_cards else (),
            "finished": found.status.phase in FINISHED,
            "terminating": metadata.deletion_timestamp is not None,
        }
        if not gated:
            return ClusterPod(**common)
        terms = Refusal(
            f"the pod cannot be read: {error}", "pod", "report it: this is an error of topo-master"
        )
        return GangPod(**common, is_placed_here=True, terms=terms, selection=Selection(""))

    @property
    def _cards(self) -> tuple[str, ...]:
        return (*self.policy.gpu_resources, *self.policy.shared_resources)

    def _booking(self, found: PodObject) -> PodSeen | None:
        metadata = found.metadata
        if not found.spec.node_name or found.status.phase in FINISHED:
            return None
        is_leaving = metadata.deletion_timestamp is not None
        pod = Pod(
            uid=metadata.uid,
            namespace=metadata.namespace,
            name=metadata.name,
            node=NodeName(found.spec.node_name),
            gpus=MOST,
            hold=None,
        )
        return PodSeen(pod, PodPhase.TERMINATING if is_leaving else PodPhase.BOUND)
