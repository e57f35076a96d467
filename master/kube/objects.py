"""Slim models of Kubernetes objects: only the fields that decide something.

Two readings are equal when none of these fields differs, so a heartbeat is no change. Quantities
stay text (`"8"`, `"3920m"`). Fields: API reference of Kubernetes v1.36 (core/v1).
"""

import dataclasses
from collections.abc import Callable
from dataclasses import field
from typing import Annotated, Any, Generic, Protocol, TypeVar
from urllib.parse import quote

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from master.kube.schema.affinity import Affinity
from master.kube.schema.pod_references import (
    PodClaim,
    PodClaimStatus,
    PodSchedulingGroup,
    PodVolume,
)
from master.kube.schema.slim import slim
from master.kube.schema.timestamps import unix_s
from topo.gangs.annotation_keys import CONDITION
from topo.model.pod_requests import PodRequests

_OURS = f"/{CONDITION}"
UNFINISHED = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
"""The query for pods that have not ended: finished ones use no resources, and may be many."""
SUCCEEDED_PHASE = "Succeeded"
ENDED = {
    "fieldSelector": "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown",
}
"""The query for pods that have succeeded or failed."""
LINK_CHECK = "TopoLinkCheck"
"""The condition of a node that says whether links of it are suspected."""
POD_SCHEDULED, SCHEDULING_GATED = "PodScheduled", "SchedulingGated"
"""The condition of a pod by its scheduler, and its reason while the pod has a gate."""
UNSCHEDULABLE = "Unschedulable"
"""The reason of a pod's condition `PodScheduled` if its scheduler cannot bind it."""


@slim
class OwnerReference:
    """The owner of an object; at most one of an object's owners is its `controller`."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False

    @property
    def document(self) -> dict[str, str]:
        """The reference as it is written on an object that is to go with this owner."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
        }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ObjectIdentity:
    """The identity of an object. `deletion_timestamp` is set while it is being deleted."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = field(default="", compare=False)
    deletion_timestamp: str | None = None


@slim
class Metadata(ObjectIdentity):
    """The metadata of an object."""

    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    creation_timestamp: str = ""
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def created_s(self) -> float:
        """The Unix time of its creation; 0 where that cannot be read."""
        return unix_s(self.creation_timestamp) or 0.0

    @property
    def identity(self) -> ObjectIdentity:
        """The identity alone, for what is kept of an object."""
        return ObjectIdentity(
            name=self.name,
            namespace=self.namespace,
            uid=self.uid,
            resource_version=self.resource_version,
            deletion_timestamp=self.deletion_timestamp,
        )


@slim
class VersionedMetadata(Metadata):
    """The metadata of an object of which another version is another reading, whatever differs.

    So is a copy made of such an object never of an older version than the object that is known.
    """

    resource_version: str = ""


@slim
class NodeTaint:
    """A taint: it keeps pods without a toleration away."""

    key: str
    effect: str
    value: str = ""
    time_added: str = ""

    @property
    def document(self) -> dict[str, str]:
        """The taint as it is written, with all that was read of it."""
        found = {"key": self.key, "value": self.value, "effect": self.effect}
        return {**found, **({"timeAdded": self.time_added} if self.time_added else {})}


@slim
class ObjectCondition:
    """A condition that a controller reports; `status` is True, False or Unknown."""

    type: str
    status: str
    reason: str = ""


@slim
class ToldCondition(ObjectCondition):
    """A condition with its message."""

    message: str = ""


def _of_node(conditions: tuple[ToldCondition, ...]) -> tuple[ToldCondition, ...]:
    return tuple(each for each in conditions if each.type in {"Ready", LINK_CHECK})


@slim
class NodeAddress:
    """An address of a node; `type` is Hostname, InternalIP, ExternalIP, …"""

    type: str
    address: str


@slim
class NodeSpec:
    """The desired state of a node."""

    unschedulable: bool = False
    taints: tuple[NodeTaint, ...] = ()
    provider_id: str = Field("", validation_alias="providerID")


@slim
class NodeSystemInfo:
    """What the kubelet reports of the machine."""

    system_uuid: str = Field("", validation_alias="systemUUID")


@slim
class NodeStatus:
    """A node's allocatable resources, its `Ready` condition and that of this product."""

    allocatable: dict[str, str] = field(default_factory=dict)
    conditions: Annotated[tuple[ToldCondition, ...], AfterValidator(_of_node)] = ()
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeSystemInfo = field(default_factory=NodeSystemInfo)


@slim
class NodeObject:
    """A node."""

    metadata: Metadata
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


@slim
class QuotaSpec:
    """A quota with scopes counts some pods only, such as those of a priority class.

    `hard` are the limits that its writer wants, before they are in force.
    """

    hard: dict[str, str] = field(default_factory=dict)
    scopes: tuple[str, ...] = ()
    scope_selector: dict[str, object] | None = None


@slim
class QuotaStatus:
    """The limits that are in force, and what is used of each, by resource."""

    hard: dict[str, str] = field(default_factory=dict)
    used: dict[str, str] = field(default_factory=dict)


@slim
class QuotaObject:
    """A ResourceQuota: it keeps pods of its namespace from being created."""

    metadata: Metadata
    spec: QuotaSpec = field(default_factory=QuotaSpec)
    status: QuotaStatus = field(default_factory=QuotaStatus)


@slim
class SchedulingGate:
    """A gate that keeps a pod from being scheduled."""

    name: str


@slim
class PodToleration:
    """A tolerated taint; an empty key with `Exists` tolerates all."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@slim
class PodSpec(PodRequests):
    """Where a pod runs, where it may run and what it requests."""

    node_name: str = ""
    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[PodToleration, ...] = ()
    affinity: Affinity | None = None
    priority: int = 0
    priority_class_name: str = ""
    preemption_policy: str = ""
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    volumes: tuple[PodVolume, ...] = ()
    resource_claims: tuple[PodClaim, ...] = ()

    @property
    def group_name(self) -> str:
        """The name of its PodGroup of Kubernetes; empty for none."""
        return self.scheduling_group.pod_group_name if self.scheduling_group is not None else ""


class ReportedCondition(TypedDict, total=False):
    """A condition of a pod. A dictionary, which costs less: pods have many, and ours is rare."""

    type: str
    status: str
    reason: str
    message: str
    lastTransitionTime: str | None


def is_verdict(condition: ReportedCondition) -> bool:
    """Return whether a condition is what a scheduler says of a pod that it tried, and not bound.

    Schedulers differ in the reason: Volcano says `Schedulable` of a pod for which it evicts others.
    The API server writes the reason `SchedulingGated`; no scheduler tries such a pod. A scheduler
    writes no reason for a pod that it bound.
    """
    reason = condition.get("reason")
    return condition.get("type") == POD_SCHEDULED and bool(reason) and reason != SCHEDULING_GATED


def _placed(conditions: list[ReportedCondition]) -> list[ReportedCondition]:
    """Keep only the conditions of this product, and what a scheduler says of a pod."""
    return [each for each in conditions if is_verdict(each) or each.get("type", "").endswith(_OURS)]


@slim
class PodStatus:
    """The phase of a pod: Pending, Running, Succeeded, Failed or Unknown."""

    phase: str = ""
    nominated_node_name: str = ""
    resource_claim_statuses: tuple[PodClaimStatus, ...] = ()
    conditions: Annotated[list[ReportedCondition], AfterValidator(_placed)] = field(
        default_factory=list
    )


@slim
class PodObject:
    """A pod."""

    metadata: Metadata
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


@slim
class WrittenFields:
    """Which client wrote fields of an object, and by which operation."""

    manager: str = ""
    operation: str = ""


@slim
class OwnedMetadata(Metadata):
    """The metadata of an object with its writers."""

    managed_fields: tuple[WrittenFields, ...] = ()


@slim
class OwnedNode(NodeObject):
    """A node with the writers of its fields."""

    metadata: OwnedMetadata


@slim
class SelectingSpec:
    """Where a pod runs, what it selects, and what it waits for."""

    node_name: str = ""
    node_selector: dict[str, str] = field(default_factory=dict)
    scheduling_gates: tuple[SchedulingGate, ...] = ()


@slim
class SelectingPod:
    """A pod of which little is read: there are many."""

    metadata: Metadata
    spec: SelectingSpec = field(default_factory=SelectingSpec)


@slim
class ConfigMapObject:
    """A ConfigMap; `binary_data` is base64."""

    metadata: Metadata
    data: dict[str, str] = field(default_factory=dict)
    binary_data: dict[str, str] = field(default_factory=dict)


@slim
class BareObject:
    """An object of which only the metadata is read."""

    metadata: Metadata


@slim
class SecretObject:
    """A Secret; `data` is base64."""

    metadata: Metadata
    data: dict[str, str] | None = None


@slim
class WebhookClientConfig:
    """How API servers reach a webhook; `ca_bundle` is base64."""

    ca_bundle: str = ""


@slim
class Webhook:
    """A webhook of a configuration."""

    name: str
    client_config: WebhookClientConfig = field(default_factory=WebhookClientConfig)


@slim
class WebhookConfigurationObject:
    """A MutatingWebhookConfiguration."""

    metadata: Metadata
    webhooks: tuple[Webhook, ...] = ()


class KubeObject(Protocol):
    """An object with metadata."""

    @property
    def metadata(self) -> ObjectIdentity:
        """Its identity."""
        ...


T_co = TypeVar("T_co", bound=KubeObject, covariant=True)
T_parsed = TypeVar("T_parsed", bound=KubeObject)
Key = tuple[str, str]
"""Namespace (empty for a cluster-wide object) and name."""


def key_of(metadata: ObjectIdentity) -> Key:
    """Return the key of an object among those of its resource."""
    return metadata.namespace, metadata.name


@dataclasses.dataclass(frozen=True, slots=True)
class Resource(Generic[T_co]):
    """A kind of object and its place in the API; `model` has the fields that are read.

    Resources are equal whatever is read of them: a write names the object, not the model.
    """

    api_version: str
    kind: str
    plural: str
    model: type[T_co] = field(compare=False)
    namespaced: bool = True


def parsed(resource: Resource[Any], parse: Callable[[Any], T_parsed]) -> Resource[T_parsed]:
    """Return the resource with each object parsed as soon as it is decoded."""
    model: Any = Annotated[resource.model, AfterValidator(parse)]
    return dataclasses.replace(resource, model=model)


def collection_path(resource: Resource[KubeObject], namespace: str = "") -> str:
    """Return the path of a list; without a namespace that of all namespaces."""
    inside = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    root = "apis" if "/" in resource.api_version else "api"
    return f"/{root}/{resource.api_version}{inside}/{resource.plural}"


def object_path(resource: Resource[KubeObject], name: str, namespace: str = "") -> str:
    """Return the path of one object."""
    return f"{collection_path(resource, namespace)}/{quote(name, safe='')}"


QUOTAS = Resource("v1", "ResourceQuota", "resourcequotas", QuotaObject)
NODES = Resource("v1", "Node", "nodes", NodeObject, namespaced=False)
OWNED_NODES = Resource("v1", "Node", "nodes", OwnedNode, namespaced=False)
PODS = Resource("v1", "Pod", "pods", PodObject)
SELECTING_PODS = Resource("v1", "Pod", "pods", SelectingPod)
CONFIG_MAPS = Resource("v1", "ConfigMap", "configmaps", ConfigMapObject)
EVENTS = Resource("events.k8s.io/v1", "Event", "events", BareObject)
DEPLOYMENTS = Resource("apps/v1", "Deployment", "deployments", BareObject)
SECRETS = Resource("v1", "Secret", "secrets", SecretObject)
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io/v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    WebhookConfigurationObject,
    namespaced=False,
)
