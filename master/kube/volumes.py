"""Claims, volumes and storage classes, as far as they say on which nodes a pod can run.

Fields: API reference of Kubernetes v1.37, core/v1 and storage.k8s.io/v1.
"""

from dataclasses import field

from master.kube.objects import Metadata, Resource
from master.kube.schema.affinity import NodeSelector
from master.kube.schema.slim import slim


@slim
class _ClaimSpec:
    volume_name: str = ""
    storage_class_name: str = ""


@slim
class ClaimObject:
    """A PersistentVolumeClaim; `spec.volume_name` is empty until it is bound."""

    metadata: Metadata
    spec: _ClaimSpec = field(default_factory=_ClaimSpec)


@slim
class _VolumeNodes:
    required: NodeSelector | None = None


@slim
class _ClaimReference:
    namespace: str = ""
    name: str = ""


@slim
class _VolumeSpec:
    node_affinity: _VolumeNodes | None = None
    claim_ref: _ClaimReference | None = None


@slim
class VolumeObject:
    """A PersistentVolume, its claim and the nodes that reach it.

    Its labels may name its zone and region.
    """

    metadata: Metadata
    spec: _VolumeSpec = field(default_factory=_VolumeSpec)


@slim
class StorageClassObject:
    """A class of storage; Immediate: its claims are bound before a pod of theirs has a node."""

    metadata: Metadata
    volume_binding_mode: str = "Immediate"


CLAIMS = Resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims", ClaimObject)
VOLUMES = Resource("v1", "PersistentVolume", "persistentvolumes", VolumeObject, namespaced=False)
STORAGE_CLASSES = Resource(
    "storage.k8s.io/v1", "StorageClass", "storageclasses", StorageClassObject, namespaced=False
)
