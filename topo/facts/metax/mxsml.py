"""The JSON of our libmxsml probe: raw numbers of the library, translated here.

Source: the library's interface as public bindings document it, version 2.3.1 and older.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Literal

from annotated_types import Ge, Le, MaxLen

from topo.facts.metax.ports import link_port
from topo.facts.reading import library_json
from topo.facts.reading.identity import normal_bdf, server_uuid
from topo.facts.reading.library_json import (
    UNDEFINED,
    DeviceText,
    FailedCalls,
    LibraryText,
    Square,
)
from topo.facts.reading.text import in_range, shorten
from topo.model.errors import Refusal
from topo.model.machine import (
    MAX_GPUS,
    MAX_MEMORY_BYTES,
    MAX_NUMA,
    Gpu,
    Link,
    LinkErrorKind,
    LinkErrors,
    LinkKind,
    LinkMatrix,
    LinkPort,
    Peer,
    ServerPeers,
)
from topo.model.observation import ParsedProbe

FORMAT = "mxsml"
_AVAILABLE = 1
_LEVELS = {
    0: Link(LinkKind.PIX, "INTERNAL"),  # two dies of one board; a device with itself is X
    1: Link(LinkKind.PIX, "PIX"),
    2: Link(LinkKind.PXB, "PXB"),
    3: Link(LinkKind.PHB, "PHB"),
    4: Link(LinkKind.NUMA_NODE, "NODE"),
    5: Link(LinkKind.METAXLINK, "MX"),
    6: Link(LinkKind.SYSTEM, "SYS"),
    7: UNDEFINED,
}
_LEVELS_2_3_1 = {**_LEVELS, 7: Link(LinkKind.ETHERNET, "ETH"), 8: UNDEFINED}
"""From version 2.3.1 on level 7 is ETH and 8 is UNDEFINED; before, 7 was UNDEFINED."""


class _PortText(LibraryText):
    link: Annotated[int, Ge(0), Le(1024)]
    speed: Annotated[float, Ge(0)] | None = None
    width: Annotated[int, Ge(0), Le(1024)] | None = None
    port_state: int | None = None
    corrected: int | None = None
    uncorrected: int | None = None
    remote_bdf: str | None = None


class _DeviceText(DeviceText):
    state: int | None = None
    unavailable_reason: str | None = ""
    numa_affinity: int | None = None
    memory_bytes: int | None = None
    links: Annotated[tuple[_PortText, ...], MaxLen(1024)] = ()


class _ServersText(LibraryText):
    local: str | None
    remotes: Annotated[tuple[str | None, ...], MaxLen(64)] = ()


class _Text(LibraryText):
    format: Literal["mxsml"]
    version: str = ""
    devices: Annotated[tuple[_DeviceText, ...], MaxLen(MAX_GPUS)]
    topology: Square = ()
    servers: _ServersText | None = None
    errors: FailedCalls = ()


def read(text: str) -> ParsedProbe | Refusal:
    """Return GPUs, ports, their errors, the link matrix and peers; failed calls become warnings.

    Refused: another shape, no device, one index twice.
    """
    library = library_json.load(_Text, text, FORMAT)
    if isinstance(library, Refusal):
        return library
    devices = sorted(library.devices, key=lambda device: device.index)
    warnings = library_json.failures(library.errors)
    others = (
        tuple(_port(device.index, port) for device in devices for port in device.links),
        tuple(each for device in devices for each in _errors(device)),
        _matrix(library, devices, warnings),
        _peers(library.servers),
    )
    gpus = [_gpu(device) for device in devices]
    return library_json.understood(FORMAT, gpus, others, warnings, tool="mx-smi")


def _gpu(device: _DeviceText) -> Gpu:
    """Return a device; unavailable where its state is 0, unknown where the call failed."""
    unavailable = device.state is not None and device.state != _AVAILABLE
    reason = device.unavailable_reason or f"state {device.state}"
    return replace(
        device.gpu(),
        memory_bytes=in_range(device.memory_bytes, MAX_MEMORY_BYTES),
        numa=in_range(device.numa_affinity, MAX_NUMA),
        healthy=None if device.state is None else not unavailable,
        trouble=shorten(f"unavailable: {reason}") if unavailable else "",
    )


def _port(gpu: int, port: _PortText) -> LinkPort:
    remote = normal_bdf(port.remote_bdf or "")
    speed, width = port.speed or 0.0, port.width or 0
    return link_port(gpu, port.link, speed, width, state=port.port_state, remote=remote)


def _errors(device: _DeviceText) -> Iterator[LinkErrors]:
    """Return the counters that the library knows; a negative one has overflowed."""
    for port in device.links:
        for kind, count in (
            (LinkErrorKind.CORRECTED, port.corrected),
            (LinkErrorKind.UNCORRECTED, port.uncorrected),
        ):
            if count is not None and count >= 0:
                yield LinkErrors(device.index, port.link, kind, count)


def _matrix(library: _Text, devices: list[_DeviceText], warnings: list[str]) -> LinkMatrix | None:
    """Return the matrix over the listed devices, or None where the topology is not square."""
    size = len(devices)
    if not library.topology:
        return None
    if len(library.topology) != size or any(len(row) != size for row in library.topology):
        warnings.append(f"the topology is not {size} by {size} and was left out")
        return None
    levels = _levels(library.version)

    def link(a: int, b: int) -> Link:
        return library_json.link_at_level(levels, library.topology[a][b])

    numa = (in_range(device.numa_affinity, MAX_NUMA) for device in devices)
    return library_json.link_matrix([device.index for device in devices], link, numa)


def _levels(version: str) -> dict[int, Link]:
    parts = version.split(".")
    if not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        return _LEVELS
    return _LEVELS_2_3_1 if tuple(map(int, parts)) >= (2, 3, 1) else _LEVELS


def _peers(servers: _ServersText | None) -> ServerPeers | None:
    local = server_uuid(servers.local) if servers else None
    if servers is None or local is None:
        return None
    slots = ((slot, server_uuid(text)) for slot, text in enumerate(servers.remotes, start=1))
    return ServerPeers(local, tuple(Peer(slot, uuid) for slot, uuid in slots if uuid))
