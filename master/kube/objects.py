"""The objects of Kubernetes that the master reads: of each only what decides something.

Two readings are equal when nothing of that differs, so a heartbeat is no news. Quantities stay the
text that they are (`"8"`, `"3920m"`). Fields: API reference of Kubernetes v1.36 (core/v1) and
`topology.volcano.sh/v1alpha1` of Volcano v1.14.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import field
from typing import Annotated, Any, Generic, Protocol, TypeVar
from urllib.parse import quote

from pydantic import AfterValidator, AliasGenerator, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass

_CONFIG = ConfigDict(
    alias_generator=AliasGenerator(validation_alias=to_camel),
    populate_by_name=True,
    coerce_numbers_to_str=True,  # a custom resource may hold a quantity as a number
)
slim = dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)


@slim
class OwnerReference:
    """The object that another one belongs to; at most one of an object's owners is `controller`."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of an object. `deletion_timestamp` is set while it waits for its end.

    The version grows with every write, heartbeats too, and takes no part in equality.
    """

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = field(default="", compare=False)
    deletion_timestamp: str | None = None


@slim
class Metadata(Identity):
    """The metadata of an object."""

    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    creation_timestamp: str = ""
    owner_references: tuple[OwnerReference, ...] = ()


@slim
class Taint:
    """What keeps pods without its toleration away."""

    key: str
    effect: str
    value: str = ""


@slim
class Condition:
    """A state that a controller vouches for; `status` is True, False or Unknown."""

    type: str
    status: str
    reason: str = ""


def _ready(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    return tuple(each for each in conditions if each.type == "Ready")


@slim
class NodeAddress:
    """A name or number of a node; `type` is Hostname, InternalIP, ExternalIP, …"""

    type: str
    address: str


@slim
class NodeSpec:
    """What is asked of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = Field("", validation_alias="providerID")


@slim
class NodeSystemInfo:
    """What the kubelet says of the machine."""

    system_uuid: str = Field("", validation_alias="systemUUID")


@slim
class NodeStatus:
    """What a node has for pods, and its condition `Ready`; the others decide nothing here."""

    allocatable: dict[str, str] = field(default_factory=dict)
    conditions: Annotated[tuple[Condition, ...], AfterValidator(_ready)] = ()
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeSystemInfo = field(default_factory=NodeSystemInfo)


@slim
class NodeObject:
    """A node."""

    metadata: Metadata
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


@slim
class Resources:
    """What a container asks for and may use at most."""

    requests: dict[str, str] = field(default_factory=dict)
    limits: dict[str, str] = field(default_factory=dict)


@slim
class Container:
    """One container; `restart_policy` is `Always` for an init container that stays (a sidecar)."""

    name: str = ""
    resources: Resources = field(default_factory=Resources)
    restart_policy: str = ""


@slim
class SchedulingGate:
    """What keeps a pod from being scheduled."""

    name: str


@slim
class Toleration:
    """A taint that a pod bears; an empty key with `Exists` bears all."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@slim
class Requirement:
    """What a label, or a field, of a node must be; `operator` is In, NotIn, Exists, …"""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@slim
class NodeSelectorTerm:
    """All of these must hold; a term without any holds for no node."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


@slim
class NodeSelector:
    """One of these must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


@slim
class NodeAffinity:
    """Which nodes a pod must have; what it would rather have is for the scheduler alone."""

    required: NodeSelector | None = Field(
        None, validation_alias="requiredDuringSchedulingIgnoredDuringExecution"
    )


@slim
class Affinity:
    """Of a pod's affinities that to nodes."""

    node_affinity: NodeAffinity | None = None


@slim
class PodSpec:
    """Where a pod runs, where it may run and what it takes."""

    node_name: str = ""
    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None
    priority: int = 0
    priority_class_name: str = ""
    preemption_policy: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: dict[str, str] = field(default_factory=dict)
    scheduling_gates: tuple[SchedulingGate, ...] = ()


@slim
class PodStatus:
    """How far a pod is; `phase` is Pending, Running, Succeeded, Failed or Unknown."""

    phase: str = ""
    nominated_node_name: str = ""


@slim
class PodObject:
    """A pod."""

    metadata: Metadata
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


@slim
class ConfigMapObject:
    """A ConfigMap; `binary_data` is base64."""

    metadata: Metadata
    data: dict[str, str] = field(default_factory=dict)
    binary_data: dict[str, str] = field(default_factory=dict)


@slim
class ExactMatch:
    """One name."""

    name: str


@slim
class MemberSelector:
    """Which objects a member stands for; None where it is chosen in another way."""

    exact_match: ExactMatch | None = None


@slim
class HyperNodeMember:
    """A node or a HyperNode below; `type` is Node or HyperNode."""

    type: str
    selector: MemberSelector = field(default_factory=MemberSelector)


@slim
class HyperNodeSpec:
    """A group and its tier; 1 is closest to the nodes."""

    tier: int
    tier_name: str = ""
    members: tuple[HyperNodeMember, ...] = ()


@slim
class HyperNodeObject:
    """Volcano's group of nodes or of groups."""

    metadata: Metadata
    spec: HyperNodeSpec


@slim
class BareObject:
    """An object of which only who it is was read."""

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


@slim
class LeaseSpec:
    """Who holds a lease and since when; times are RFC 3339."""

    holder_identity: str | None = None
    lease_duration_seconds: Annotated[float | None, Field(ge=0)] = None
    lease_transitions: Annotated[int | None, Field(ge=0)] = None
    acquire_time: str | None = None
    renew_time: str | None = None


@slim
class LeaseObject:
    """A Lease."""

    metadata: Metadata
    spec: LeaseSpec = field(default_factory=LeaseSpec)


class KubeObject(Protocol):
    """What every object has."""

    @property
    def metadata(self) -> Identity:
        """Its identity."""
        ...


T_co = TypeVar("T_co", bound=KubeObject, covariant=True)
T_parsed = TypeVar("T_parsed", bound=KubeObject)
Key = tuple[str, str]
"""Namespace (empty for what has none) and name."""


def key_of(metadata: Identity) -> Key:
    """Return the key of an object among those of its resource."""
    return metadata.namespace, metadata.name


@dataclasses.dataclass(frozen=True, slots=True)
class Resource(Generic[T_co]):
    """A kind of object and where the API has it; `model` is what is read of one.

    Resources are equal whatever is read of them: a write names the object, not the model.
    """

    api_version: str
    kind: str
    plural: str
    model: type[T_co] = field(compare=False)
    namespaced: bool = True

    def __hash__(self) -> int:
        """Of what tells them apart: targets of writes are looked up several times for each."""
        return hash(self.plural)

    @property
    def base(self) -> str:
        """The path that the paths of this API begin with."""
        return f"/{'apis' if '/' in self.api_version else 'api'}/{self.api_version}"


def parsed(resource: Resource[Any], parse: Callable[[Any], T_parsed]) -> Resource[T_parsed]:
    """Return the resource with each object parsed as soon as it is decoded."""
    model: Any = Annotated[resource.model, AfterValidator(parse)]
    return dataclasses.replace(resource, model=model)


def collection_path(resource: Resource[KubeObject], namespace: str = "") -> str:
    """Where the objects are listed and created; of all namespaces without one."""
    inside = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{resource.base}{inside}/{resource.plural}"


def object_path(resource: Resource[KubeObject], name: str, namespace: str = "") -> str:
    """Where one object is."""
    return f"{collection_path(resource, namespace)}/{quote(name, safe='')}"


NODES = Resource("v1", "Node", "nodes", NodeObject, namespaced=False)
PODS = Resource("v1", "Pod", "pods", PodObject)
CONFIG_MAPS = Resource("v1", "ConfigMap", "configmaps", ConfigMapObject)
EVENTS = Resource("events.k8s.io/v1", "Event", "events", BareObject)
DEPLOYMENTS = Resource("apps/v1", "Deployment", "deployments", BareObject)
LEASES = Resource("coordination.k8s.io/v1", "Lease", "leases", LeaseObject)
HYPERNODES = Resource(
    "topology.volcano.sh/v1alpha1", "HyperNode", "hypernodes", HyperNodeObject, namespaced=False
)
SECRETS = Resource("v1", "Secret", "secrets", SecretObject)
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io/v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    WebhookConfigurationObject,
    namespaced=False,
)
