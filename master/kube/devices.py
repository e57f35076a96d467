"""ResourceSlices and DeviceTaintRules: GPUs as drivers of dynamic resource allocation publish them.

Source: `k8s.io/api/resource/v1/types.go` of v0.37. A driver publishes the devices of a node in
pools; of a pool the slices of the highest generation alone count.
"""

from dataclasses import dataclass, field

from master.kube.objects import Metadata, ObjectIdentity, Resource
from master.kube.schema.slim import slim
from topo.model.ids import NodeName

_UUIDS = frozenset({"uuid", "parentUUID"})
_ADDRESSES = frozenset({"resource.kubernetes.io/pciBusID", "pciBusID"})
"""Attributes by which drivers name a GPU, and the GPU that a part of one belongs to."""


@slim
class _Attribute:
    string: str = ""


@slim
class _SliceDevice:
    name: str = ""
    attributes: dict[str, _Attribute] = field(default_factory=dict)


@slim
class _Pool:
    name: str = ""
    generation: int = 0


@slim
class _SliceSpec:
    driver: str = ""
    pool: _Pool = field(default_factory=_Pool)
    node_name: str = ""
    devices: tuple[_SliceDevice, ...] = ()


@slim
class ResourceSliceObject:
    """Devices of one pool, of which a node may take some."""

    metadata: Metadata
    spec: _SliceSpec = field(default_factory=_SliceSpec)


@dataclass(frozen=True, slots=True)
class PublishedDevice:
    """A device as its driver names it, and the GPUs that it is, or is a part of."""

    name: str
    uuids: frozenset[str]
    addresses: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSlice:
    """What is kept of a ResourceSlice; `node` is empty where its devices are of no one node."""

    metadata: ObjectIdentity
    driver: str
    pool: str
    generation: int
    node: NodeName
    devices: tuple[PublishedDevice, ...]


def device_slice(found: ResourceSliceObject) -> DeviceSlice:
    """Return what is kept of a slice: devices that name a GPU; O(devices)."""
    metadata, spec = found.metadata, found.spec
    devices = (
        PublishedDevice(
            each.name,
            uuids=frozenset(each.attributes[key].string for key in _UUIDS & each.attributes.keys()),
            addresses=frozenset(
                each.attributes[key].string.lower() for key in _ADDRESSES & each.attributes.keys()
            ),
        )
        for each in spec.devices
    )
    return DeviceSlice(
        metadata=ObjectIdentity(
            name=metadata.name, uid=metadata.uid, resource_version=metadata.resource_version
        ),
        driver=spec.driver,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        node=NodeName(spec.node_name),
        devices=tuple(each for each in devices if each.uuids or each.addresses),
    )


@slim
class DeviceSelector:
    """The one device that a rule of ours is about."""

    driver: str = ""
    pool: str = ""
    device: str = ""


@slim
class DeviceTaint:
    """A taint; `effect` is None, NoSchedule or NoExecute."""

    key: str = ""
    value: str = ""
    effect: str = ""


@slim
class DeviceTaintRuleSpec:
    """Which devices have which taint."""

    device_selector: DeviceSelector = field(default_factory=DeviceSelector)
    taint: DeviceTaint = field(default_factory=DeviceTaint)


@slim
class DeviceTaintRuleObject:
    """A taint of devices that their driver did not set."""

    metadata: Metadata
    spec: DeviceTaintRuleSpec = field(default_factory=DeviceTaintRuleSpec)


_VERSION = "resource.k8s.io/v1"
RESOURCE_SLICES = Resource(
    _VERSION, "ResourceSlice", "resourceslices", ResourceSliceObject, namespaced=False
)
DEVICE_TAINT_RULES = Resource(
    _VERSION, "DeviceTaintRule", "devicetaintrules", DeviceTaintRuleObject, namespaced=False
)
