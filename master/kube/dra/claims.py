"""Device classes, claims and their templates, as far as they say how many devices a pod takes.

Source: `k8s.io/api/resource/v1/types.go` of v0.37.
"""

from dataclasses import dataclass, field

from master.kube.dra.selectors import DeviceSelection, read_selection
from master.kube.dra.slices import DRA_VERSION
from master.kube.objects import Key, Metadata, ObjectIdentity, Resource
from master.kube.schema.slim import slim

_OF_RESOURCES = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of a claim that a scheduler makes for extended resources in a pod's requests."""
_SHOWN_CHARS = 32
_COUNTED_MODES = frozenset({"", "ExactCount"})


@slim
class _Expression:
    expression: str = ""


@slim
class _Selector:
    cel: _Expression = field(default_factory=_Expression)


@slim
class _ClassSpec:
    selectors: tuple[_Selector, ...] = ()
    extended_resource_name: str = ""


@slim
class DeviceClassObject:
    """A class of devices, and the extended resource by which pods may name it, too."""

    metadata: Metadata
    spec: _ClassSpec = field(default_factory=_ClassSpec)


@slim
class _ExactRequest:
    device_class_name: str = ""
    allocation_mode: str = ""
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[dict[str, object], ...] = ()


@slim
class _SubRequest:
    device_class_name: str = ""


@slim
class _DeviceRequest:
    name: str = ""
    exactly: _ExactRequest | None = None
    first_available: tuple[_SubRequest, ...] = ()


@slim
class _Devices:
    requests: tuple[_DeviceRequest, ...] = ()


@slim
class _ClaimSpec:
    devices: _Devices = field(default_factory=_Devices)


@slim
class _TemplateSpec:
    spec: _ClaimSpec = field(default_factory=_ClaimSpec)


@slim
class ClaimTemplateObject:
    """A ResourceClaimTemplate: of it each pod that names it gets a claim of its own."""

    metadata: Metadata
    spec: _TemplateSpec = field(default_factory=_TemplateSpec)


@slim
class _AllocatedDevice:
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool = False


@slim
class _AllocatedDevices:
    results: tuple[_AllocatedDevice, ...] = ()


@slim
class _Allocation:
    devices: _AllocatedDevices = field(default_factory=_AllocatedDevices)


@slim
class _Consumer:
    resource: str = ""
    name: str = ""


@slim
class _ClaimStatus:
    allocation: _Allocation | None = None
    reserved_for: tuple[_Consumer, ...] = ()


@slim
class ResourceClaimObject:
    """A ResourceClaim and the devices that it has."""

    metadata: Metadata
    spec: _ClaimSpec = field(default_factory=_ClaimSpec)
    status: _ClaimStatus = field(default_factory=_ClaimStatus)


DeviceId = tuple[str, str, str]
"""Driver, pool and name of a device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClass:
    """What the master keeps of a DeviceClass: the devices it chooses, and its extended resource.

    `selection` is None where an expression of the class is not read here.
    """

    metadata: ObjectIdentity
    selection: DeviceSelection | None
    extended_resource: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTemplate:
    """What the master keeps of a ResourceClaimTemplate: its least number of devices by class.

    `undecided`: classes of which it asks for no fixed number of untainted devices, each with the
    request and the field that says so.
    """

    metadata: ObjectIdentity
    devices: tuple[tuple[str, int], ...]
    undecided: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClaim:
    """What the master keeps of a ResourceClaim: its devices, and the pods that may use them.

    `classes` are those that a claim which no pod owns asks for: pods may share it.
    `is_of_resources`: the scheduler made the claim for an extended resource in a pod's requests.
    """

    metadata: ObjectIdentity
    devices: tuple[DeviceId, ...]
    pods: tuple[Key, ...]
    is_of_resources: bool
    classes: tuple[str, ...] = ()


def device_class(found: DeviceClassObject) -> DeviceClass:
    """Return what the master keeps of a class."""
    return DeviceClass(
        metadata=found.metadata.identity,
        selection=read_selection([each.cel.expression for each in found.spec.selectors]),
        extended_resource=found.spec.extended_resource_name,
    )


def claim_template(found: ClaimTemplateObject) -> ClaimTemplate:
    """Return what the master keeps of a template.

    It counts no request whose number of devices the scheduler decides (`All`, `firstAvailable`),
    that tolerates taints of devices, or that takes no device (`adminAccess`).
    """
    counts: dict[str, int] = {}
    undecided: list[tuple[str, str]] = []
    for request in found.spec.spec.devices.requests:
        if (field_name := _undecided_by(request)) is not None:
            why = f"request {request.name!r} has {field_name}"
            undecided += [(name, why) for name in _classes_of(request)]
        elif (asked := request.exactly) is not None and not asked.admin_access:
            name = asked.device_class_name
            counts[name] = counts.get(name, 0) + asked.count
    return ClaimTemplate(
        metadata=found.metadata.identity,
        devices=tuple(sorted(counts.items())),
        undecided=tuple(undecided),
    )


def _undecided_by(request: _DeviceRequest) -> str | None:
    """Return the field for which a request takes no fixed number of untainted devices."""
    asked = request.exactly
    if asked is None:
        return "firstAvailable" if request.first_available else None
    if asked.admin_access:
        return None
    if asked.allocation_mode not in _COUNTED_MODES:
        return f"allocationMode {asked.allocation_mode[:_SHOWN_CHARS]}"
    return "tolerations" if asked.tolerations else None


def _classes_of(request: _DeviceRequest) -> tuple[str, ...]:
    exact = (request.exactly.device_class_name,) if request.exactly is not None else ()
    return (*exact, *(each.device_class_name for each in request.first_available))


def device_claim(found: ResourceClaimObject) -> DeviceClaim:
    """Return what the master keeps of a claim; O(devices)."""
    metadata, allocation = found.metadata, found.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    return DeviceClaim(
        metadata=metadata.identity,
        devices=tuple(
            (each.driver, each.pool, each.device) for each in results if not each.admin_access
        ),
        pods=tuple(
            (metadata.namespace, each.name)
            for each in found.status.reserved_for
            if each.resource == "pods"
        ),
        is_of_resources=_OF_RESOURCES in metadata.annotations,
        classes=() if metadata.owner_references else _shared_classes(found.spec.devices),
    )


def _shared_classes(asked: _Devices) -> tuple[str, ...]:
    """Return the classes of the devices that a claim asks for, each once."""
    return tuple(dict.fromkeys(name for each in asked.requests for name in _classes_of(each)))


DEVICE_CLASSES = Resource(
    DRA_VERSION, "DeviceClass", "deviceclasses", DeviceClassObject, namespaced=False
)
CLAIM_TEMPLATES = Resource(
    DRA_VERSION, "ResourceClaimTemplate", "resourceclaimtemplates", ClaimTemplateObject
)
RESOURCE_CLAIMS = Resource(DRA_VERSION, "ResourceClaim", "resourceclaims", ResourceClaimObject)
