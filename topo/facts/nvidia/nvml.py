"""The JSON of our NVML probe: raw numbers of the library, translated here.

Source: nvml.h as nvidia-ml-py 13.615 carries it.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal

from annotated_types import Ge, Le, MaxLen

from topo.facts.nvidia import fabric_health, nvlink_ports
from topo.facts.nvidia.nvlink_ports import SeenLinks
from topo.facts.reading import library_json
from topo.facts.reading.identity import fabric_uuid, known, normal_bdf
from topo.facts.reading.library_json import DeviceText, FailedCalls, LibraryText, Square
from topo.facts.reading.text import in_range, shorten
from topo.model.errors import Refusal
from topo.model.machine import (
    MAX_CLIQUE,
    MAX_GPUS,
    MAX_MEMORY_BYTES,
    Gpu,
    GpuFabric,
    Link,
    LinkKind,
    LinkMatrix,
)
from topo.model.observation import ParsedProbe

FORMAT = "nvml"
_LEVELS = {
    0: Link(LinkKind.PIX, "INTERNAL"),  # two chips of one board (K80); a device with itself is X
    10: Link(LinkKind.PIX, "PIX"),
    20: Link(LinkKind.PXB, "PXB"),
    30: Link(LinkKind.PHB, "PHB"),
    40: Link(LinkKind.NUMA_NODE, "NODE"),
    50: Link(LinkKind.SYSTEM, "SYS"),
}
"""nvmlGpuTopologyLevel_t; spaced by ten where MetaX counts by one."""
_LINK_STATES_ALIVE = frozenset({1, 2, 3})
"""Active, asleep, active with traffic disabled; 0 is inactive."""
_REMOTE_GPU = 0
_P2P_OK = 0
_NO_HANDLE = "nvmlDeviceGetHandleByIndex"


class _PortText(LibraryText):
    link: Annotated[int, Ge(0), Le(1024)]
    state: int | None = None
    remote_bdf: str | None = None
    remote_type: int | None = None
    speed_mbps: int | None = None


class _FabricText(LibraryText):
    version: int = 1
    state: int
    status: int = 0
    cluster_uuid: str | None = None
    clique: Annotated[int, Ge(0), Le(MAX_CLIQUE)] | None = None
    health_mask: Annotated[int, Ge(0)] | None = None
    summary: int | None = None


class _PlatformText(LibraryText):
    chassis_serial: str | None = None
    tray: int | str | None = None


class _DeviceText(DeviceText):
    memory_bytes: int | None = None
    fabric: _FabricText | None = None
    platform: _PlatformText | None = None
    links: Annotated[tuple[_PortText, ...], MaxLen(1024)] = ()


class _Text(LibraryText):
    format: Literal["nvml"]
    driver: str | None = None
    devices: Annotated[tuple[_DeviceText, ...], MaxLen(MAX_GPUS)]
    topology: Square = ()
    p2p: Square | None = None
    errors: FailedCalls = ()


def read(text: str) -> ParsedProbe | Refusal:
    """Return GPUs, NVLink ports, the link matrix and the fabric of each GPU.

    A device whose handle the library does not give is a GPU all the same, an unhealthy one.
    Refused: another shape, no device, one index twice.
    """
    library = library_json.load(_Text, text, FORMAT)
    if isinstance(library, Refusal):
        return library
    devices = {device.index: device for device in library.devices}
    warnings = library_json.failures(library.errors)
    others = (
        nvlink_ports.link_ports(_seen(device) for device in library.devices),
        _matrix(library, devices, warnings),
        tuple(f for _, device in sorted(devices.items()) if (f := _fabric(device)) is not None),
    )
    gpus = [_gpu(device) for device in library.devices] + _lost(library, devices)
    return library_json.understood(FORMAT, gpus, others, warnings, tool="nvidia-smi")


def _gpu(device: _DeviceText) -> Gpu:
    """Return a device. NVML's NUMA node is that of the GPU's own memory (GB200: 2, 10, …): left
    out.
    """
    return replace(device.gpu(), memory_bytes=in_range(device.memory_bytes, MAX_MEMORY_BYTES))


def _lost(library: _Text, devices: Mapping[int, _DeviceText]) -> list[Gpu]:
    codes = {
        call.device: call.code
        for call in library.errors
        if call.call == _NO_HANDLE and call.device is not None
    }
    return [
        Gpu(index, healthy=False, trouble=f"no handle: {fabric_health.status_word(code)}")
        for index, code in codes.items()
        if 0 <= index < MAX_GPUS and index not in devices
    ]


def _seen(device: _DeviceText) -> SeenLinks:
    remotes = {
        port.link: str(remote)
        for port in device.links
        if (remote := normal_bdf(port.remote_bdf or "")) is not None
    }
    active = {port.link: port.state in _LINK_STATES_ALIVE for port in device.links}
    speeds = {p.link: p.speed_mbps / 1000 for p in device.links if p.speed_mbps is not None}
    return SeenLinks(device.index, device.name or "", active, remotes=remotes, speeds=speeds)


def _fabric(device: _DeviceText) -> GpuFabric | None:
    said_of = device.fabric
    if said_of is None:
        return None
    health = fabric_health.from_mask(said_of.health_mask or 0, said_of.summary or 0)
    place = device.platform or _PlatformText()
    tray = None if place.tray is None else known(shorten(str(place.tray)))
    return GpuFabric(
        gpu=device.index,
        state=fabric_health.STATES.get(said_of.state, f"state {said_of.state}"),
        status=fabric_health.status_word(said_of.status),
        cluster_uuid=fabric_uuid(said_of.cluster_uuid),
        clique=said_of.clique,
        healthy=health.healthy,
        trouble=health.trouble,
        rack=known(shorten(place.chassis_serial or "")),
        tray=tray,
    )


def _matrix(
    library: _Text, devices: Mapping[int, _DeviceText], warnings: list[str]
) -> LinkMatrix | None:
    """Return the matrix in nvidia-smi's terms: NVLink where links are active, else the PCI
    ancestor.
    """
    rows = library.topology
    if not rows:
        return None
    if any(len(row) != len(rows) for row in rows) or max(devices, default=0) >= len(rows):
        warnings.append("the topology is not square over all devices and was left out")
        return None
    nvlinks = _nvlinks(library, devices)

    def link(a: int, b: int) -> Link:
        count = nvlinks.get((a, b), 0)
        if count:
            return Link(LinkKind.NVLINK, f"NV{count}", count)
        return library_json.link_at_level(_LEVELS, rows[a][b])

    return library_json.link_matrix(range(len(rows)), link, (None,) * len(rows))


def _nvlinks(library: _Text, devices: Mapping[int, _DeviceText]) -> dict[tuple[int, int], int]:
    """Return how many NVLinks join two GPUs of this host, for the pairs that any join.

    A link whose far end is a GPU of this host counts for that pair. All others end in NVSwitches
    (in containers the switch cannot be identified), through which every GPU reaches every other,
    with as many links as the lesser of the two has.
    """
    at = {normal_bdf(device.bdf or ""): index for index, device in devices.items()}
    direct: Counter[tuple[int, int]] = Counter()
    switched: Counter[int] = Counter()
    for index, device in devices.items():
        for port in device.links:
            if port.state in _LINK_STATES_ALIVE:
                far = normal_bdf(port.remote_bdf or "")
                if far is not None and far in at:
                    direct[index, at[far]] += 1
                elif port.remote_type != _REMOTE_GPU:
                    switched[index] += 1
    through = {
        (a, b): min(switched[a], switched[b])
        for a in switched
        for b in switched
        if _peer_to_peer(library, a, b)
    }
    return {**through, **direct}


def _peer_to_peer(library: _Text, a: int, b: int) -> bool:
    """Return False only where the source asked for NVLink peer-to-peer and got a no."""
    asked = library.p2p
    if asked is None or len(asked) <= max(a, b) or len(asked[a]) <= b:
        return True
    return asked[a][b] in {_P2P_OK, None}
