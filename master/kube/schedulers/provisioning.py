"""ProvisioningRequests and the PodTemplates that they name.

Source: k8s.io/autoscaler/cluster-autoscaler/apis, `provisioningrequest/autoscaling.x-k8s.io/v1`;
the kind is there where somebody installed its definition, as Kueue asks for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from master.kube.objects import Metadata, ObjectIdentity, OwnerReference, PodSpec, Resource
from master.kube.schema.slim import slim
from master.kube.schema.timestamps import unix_s
from topo.placement.job.request import Toleration
from topo.provisioning.course import ProvisioningRequest, RequestCondition, RequestUid


@slim
class TemplateReference:
    """The name of a PodTemplate in the namespace of the request."""

    name: str


@slim
class PodSet:
    """A number of pods of a template."""

    pod_template_ref: TemplateReference
    count: int


@slim
class ProvisioningSpec:
    """What is asked for; it never changes."""

    provisioning_class_name: str = ""
    pod_sets: tuple[PodSet, ...] = ()
    parameters: dict[str, str] = field(default_factory=dict)


@slim
class ProvisioningCondition:
    """A condition, as an API server keeps it."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


@slim
class ProvisioningStatus:
    """How far the request has come."""

    conditions: tuple[ProvisioningCondition, ...] = ()
    provisioning_class_details: dict[str, str] = field(default_factory=dict)


@slim
class ProvisioningObject:
    """A ProvisioningRequest."""

    metadata: Metadata
    spec: ProvisioningSpec = field(default_factory=ProvisioningSpec)
    status: ProvisioningStatus = field(default_factory=ProvisioningStatus)


@dataclass(frozen=True, slots=True)
class KnownRequest:
    """A request as it is kept: its class, empty for one that is made of a Workload, and its value.

    The value has the version of its object.
    """

    metadata: ObjectIdentity
    class_name: str
    value: ProvisioningRequest


def known_request(found: ProvisioningObject) -> KnownRequest:
    """Return what is kept of a request."""
    metadata, spec, status = found.metadata, found.spec, found.status
    value = ProvisioningRequest(
        uid=RequestUid(metadata.uid),
        namespace=metadata.namespace,
        name=metadata.name,
        version=metadata.resource_version,
        created_s=metadata.created_s,
        pod_sets=tuple((each.pod_template_ref.name, each.count) for each in spec.pod_sets),
        parameters=tuple(sorted(spec.parameters.items())),
        conditions=tuple(
            RequestCondition(
                each.type,
                each.status == "True",
                each.reason,
                each.message,
                unix_s(each.last_transition_time) or 0.0,
            )
            for each in status.conditions
        ),
        details=tuple(sorted(status.provisioning_class_details.items())),
        is_leaving=metadata.deletion_timestamp is not None,
        workload=next((each.name for each in metadata.owner_references if _is_workload(each)), ""),
    )
    return KnownRequest(metadata.identity, spec.provisioning_class_name, value)


def _is_workload(owner: OwnerReference) -> bool:
    """Return whether a request is made by Kueue, for the check of that Workload."""
    is_of_kueue = owner.api_version.partition("/")[0] == "kueue.x-k8s.io"
    return owner.controller and is_of_kueue and owner.kind == "Workload"


@slim
class TemplateMetadata:
    """The annotations of the pods of a template."""

    annotations: dict[str, str] = field(default_factory=dict)


@slim
class TemplateBody:
    """What the pods of a template are made from."""

    metadata: TemplateMetadata = field(default_factory=TemplateMetadata)
    spec: PodSpec = field(default_factory=PodSpec)


@slim
class PodTemplateObject:
    """A PodTemplate."""

    metadata: Metadata
    template: TemplateBody = field(default_factory=TemplateBody)


PROVISIONING_REQUESTS = Resource(
    "autoscaling.x-k8s.io/v1", "ProvisioningRequest", "provisioningrequests", ProvisioningObject
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTemplate:
    """What is kept of a template; of one in a queue also what its quota adds to it."""

    metadata: ObjectIdentity
    spec: PodSpec
    annotations: Mapping[str, str]
    selector: tuple[tuple[str, str], ...] = ()
    tolerations: frozenset[Toleration] = frozenset()


def known_template(found: PodTemplateObject) -> KnownTemplate:
    """Return what is kept of a template."""
    return template_of(found.metadata.identity, found.template)


def template_of(metadata: ObjectIdentity, body: TemplateBody) -> KnownTemplate:
    """Return what is kept of a template that stands in another object."""
    return KnownTemplate(metadata=metadata, spec=body.spec, annotations=body.metadata.annotations)


POD_TEMPLATES = Resource("v1", "PodTemplate", "podtemplates", PodTemplateObject)
