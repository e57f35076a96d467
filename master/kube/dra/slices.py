"""ResourceSlices: the devices of nodes as drivers of dynamic resource allocation publish them.

Source: `k8s.io/api/resource/v1/types.go` of v0.37. A driver publishes the devices of a node in
pools; of a pool the slices of the highest generation alone count.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from pydantic import StrictBool, StrictInt

from master.kube.dra.selectors import Fact, fact
from master.kube.objects import Metadata, ObjectIdentity, Resource
from master.kube.schema.slim import slim
from topo.model.ids import NodeName

_UUIDS = frozenset({"uuid", "parentUUID"})
_ADDRESSES = frozenset({"resource.kubernetes.io/pciBusID", "pciBusID"})
"""Attributes by which drivers name a GPU, and the GPU that a part of one belongs to."""
DRA_VERSION = "resource.k8s.io/v1"
KEEPS_OFF = frozenset({"NoSchedule", "NoExecute"})
"""Effects of a taint with which no new claim gets a device."""
SHARED_FACTS = 4096
"""Sets of facts that are kept, so that devices of one type share them."""


@slim
class _Attribute:
    string: str = ""
    bool: StrictBool | None = None
    int: StrictInt | None = None


@slim
class _PublishedTaint:
    effect: str = ""


@slim
class _SliceDevice:
    name: str = ""
    attributes: dict[str, _Attribute] = field(default_factory=dict)
    taints: tuple[_PublishedTaint, ...] = ()
    allow_multiple_allocations: bool = False


@slim
class _Pool:
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


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
    """A device as its driver names it, and the GPUs that it is, or is a part of.

    `facts`: its attributes, without those that name this one device alone. `is_tainted`: its driver
    keeps new claims off it; `is_shared`: several claims may have it at once.
    """

    name: str
    uuids: frozenset[str]
    addresses: frozenset[str]
    facts: frozenset[Fact] = frozenset()
    is_tainted: bool = False
    is_shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSlice:
    """What the master keeps of a ResourceSlice.

    `node` is empty where its devices are of no one node. `slices`: how many slices its pool has in
    this generation.
    """

    metadata: ObjectIdentity
    driver: str
    pool: str
    generation: int
    slices: int
    node: NodeName
    devices: tuple[PublishedDevice, ...]


def device_slice(found: ResourceSliceObject) -> DeviceSlice:
    """Return what the master keeps of a slice; O(devices and their attributes)."""
    metadata, spec = found.metadata, found.spec
    devices = (
        PublishedDevice(
            each.name,
            uuids=frozenset(each.attributes[key].string for key in _UUIDS & each.attributes.keys()),
            addresses=frozenset(
                each.attributes[key].string.lower() for key in _ADDRESSES & each.attributes.keys()
            ),
            facts=_shared(frozenset(_facts(spec.driver, each))),
            is_tainted=any(taint.effect in KEEPS_OFF for taint in each.taints),
            is_shared=each.allow_multiple_allocations,
        )
        for each in spec.devices
    )
    return DeviceSlice(
        metadata=metadata.identity,
        driver=spec.driver,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        slices=spec.pool.resource_slice_count,
        node=NodeName(spec.node_name),
        devices=tuple(devices),
    )


def _facts(driver: str, device: _SliceDevice) -> Iterator[Fact]:
    for name, value in device.attributes.items():
        stated = value.bool if value.bool is not None else value.int
        known = stated if stated is not None else value.string
        found = fact(driver, name, known) if known != "" else None
        if found is not None:
            yield found


@lru_cache(maxsize=SHARED_FACTS)
def _shared(facts: frozenset[Fact]) -> frozenset[Fact]:
    return facts


def newest(slices: Iterable[DeviceSlice]) -> Iterator[DeviceSlice]:
    """Yield the slices of the newest generation of each pool; O(slices)."""
    given = tuple(slices)
    generations: dict[tuple[str, str], int] = {}
    for each in given:
        pool = each.driver, each.pool
        generations[pool] = max(generations.get(pool, 0), each.generation)
    return (each for each in given if each.generation == generations[each.driver, each.pool])


RESOURCE_SLICES = Resource(
    DRA_VERSION, "ResourceSlice", "resourceslices", ResourceSliceObject, namespaced=False
)
