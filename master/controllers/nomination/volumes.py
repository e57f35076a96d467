"""The nodes on which the volumes of a pod can be, from its claims.

A claim that is bound ties its pods to the nodes of its volume: those of the volume's node affinity,
and of its zone and region where its labels name them. A claim that is not bound waits for its pod
where its class says so (WaitForFirstConsumer), and is then not judged; of another class, or where
it is not there, no pod that mounts it can be bound. Sources: kubernetes.io, "Persistent Volumes",
and the filters VolumeBinding and VolumeZone of kube-scheduler v1.37.

Cost: O(claims of the pod).
"""

from dataclasses import dataclass

from master.kube.gang_pod import GangPod, LabelIn
from master.kube.schema.affinity import NodeSelector
from master.kube.store import Store
from master.kube.volumes import ClaimObject, StorageClassObject, VolumeObject

_PLACES = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
"""Labels of a volume that a node of its pods must have with one of these values."""
_SEPARATOR = "__"
_DELAYED = "WaitForFirstConsumer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Volumes:
    """The claims, volumes and classes of the cluster, as they are known."""

    claims: Store[ClaimObject]
    volumes: Store[VolumeObject]
    classes: Store[StorageClassObject]

    def nodes(self, pod: GangPod) -> tuple[NodeSelector | LabelIn, ...]:
        """Return what the volumes of a pod require of its node, each; empty for no limit."""
        found: list[NodeSelector | LabelIn] = []
        for name in pod.claims:
            claim = self.claims.objects.get((pod.metadata.namespace, name))
            volume = self._volume(claim) if claim is not None else None
            if volume is None:
                continue
            affinity = volume.spec.node_affinity
            if affinity is not None and affinity.required is not None:
                found.append(affinity.required)
            found += _zones(volume)
        return tuple(found)

    def missing(self, pod: GangPod) -> str:
        """Return why a volume of the pod is not there; empty if all are, or may come yet."""
        if not (pod.claims and self.claims.synced and self.classes.synced):
            return ""
        for name in pod.claims:
            claim = self.claims.objects.get((pod.metadata.namespace, name))
            if claim is None:
                return f"PersistentVolumeClaim {name} of {pod.metadata.name} is not there"
            if not claim.spec.volume_name and not self._is_delayed(claim):
                return f"PersistentVolumeClaim {name} of {pod.metadata.name} is not bound"
            if claim.spec.volume_name and self.volumes.synced and self._volume(claim) is None:
                named = f"PersistentVolume {claim.spec.volume_name} of its claim {name}"
                return f"{named} of {pod.metadata.name} is not there"
        return ""

    def _volume(self, claim: ClaimObject) -> VolumeObject | None:
        return self.volumes.objects.get(("", claim.spec.volume_name))

    def _is_delayed(self, claim: ClaimObject) -> bool:
        found = self.classes.objects.get(("", claim.spec.storage_class_name))
        return found is not None and found.volume_binding_mode == _DELAYED


def _zones(volume: VolumeObject) -> list[LabelIn]:
    """Return the zone and the region of a volume: a label, and the values that its nodes have."""
    labels = volume.metadata.labels
    return [(key, tuple(labels[key].split(_SEPARATOR))) for key in _PLACES if labels.get(key)]
