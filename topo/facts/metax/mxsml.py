"""The JSON of our libmxsml probe: raw numbers of the library, translated here.

Source: the library's interface as public bindings document it, version 2.3.1 and older.
"""

import re
from typing import Annotated, Literal

from annotated_types import Ge, Le, MaxLen

from topo.facts.metax import ports
from topo.facts.metax.ports import SeenPort
from topo.facts.reading.identity import gpu_uuid, normal_bdf, said, server_uuid
from topo.facts.reading.library_json import FailedCall, LibraryText, Square, failures, load
from topo.facts.reading.text import bounded, sane, shorten
from topo.model.errors import Refusal
from topo.model.machine import (
    MAX_GPUS,
    MAX_MEMORY_BYTES,
    MAX_NUMA,
    Gpu,
    Link,
    LinkKind,
    LinkMatrix,
    LinkPort,
    Peer,
    ServerPeers,
)
from topo.model.observation import ParsedProbe

FORMAT = "mxsml"
_NAMED = re.compile(r'"format"\s{0,64}:\s{0,64}"mxsml"')
_AVAILABLE = 1
_LEVELS = {
    0: Link(LinkKind.PIX, "INTERNAL"),  # two dies of one board; a device with itself is X
    1: Link(LinkKind.PIX, "PIX"),
    2: Link(LinkKind.PXB, "PXB"),
    3: Link(LinkKind.PHB, "PHB"),
    4: Link(LinkKind.NUMA_NODE, "NODE"),
    5: Link(LinkKind.METAXLINK, "MX"),
    6: Link(LinkKind.SYSTEM, "SYS"),
}
_ETHERNET = 7
_SELF = Link(LinkKind.SELF, "X")
_UNDEFINED = Link(LinkKind.NONE, "NA")
_ETHERNET_SINCE = (2, 3, 1)
"""From this version on level 7 is ETH and 8 is UNDEFINED; before, 7 was UNDEFINED."""


class _PortText(LibraryText):
    link: Annotated[int, Ge(0), Le(1024)]
    speed: Annotated[float, Ge(0)] | None = None
    width: Annotated[int, Ge(0), Le(1024)] | None = None
    port_state: int | None = None
    remote_bdf: str | None = None


class _DeviceText(LibraryText):
    index: Annotated[int, Ge(0), Le(MAX_GPUS - 1)]
    uuid: str | None = None
    bdf: str | None = None
    name: str | None = None
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
    errors: Annotated[tuple[FailedCall, ...], MaxLen(10_000)] = ()


def recognises(text: str) -> bool:
    """Whether `text` says that it is this format. O(len(text))."""
    return _NAMED.search(text) is not None


def read(text: str) -> ParsedProbe | Refusal:
    """GPUs, ports, the link matrix and the server's peers; failed calls become warnings.

    Refused: another shape, no device, one index twice.
    """
    said_by_library = load(_Text, text, FORMAT)
    if isinstance(said_by_library, Refusal):
        return said_by_library
    devices = sorted(said_by_library.devices, key=lambda device: device.index)
    if len({device.index for device in devices}) < len(devices) or not devices:
        what = "a device is listed twice" if devices else "the library lists no device"
        return Refusal(what, "devices", "check `mx-smi -L` on the host")
    warnings = failures(said_by_library.errors)
    facts = (
        tuple(_gpu(device) for device in devices),
        tuple(_port(device.index, port) for device in devices for port in device.links),
        _matrix(said_by_library, devices, warnings),
        _peers(said_by_library.servers),
    )
    return ParsedProbe(FORMAT, tuple(fact for fact in facts if fact), bounded(warnings))


def _gpu(device: _DeviceText) -> Gpu:
    """A device; unavailable where its state is 0, unsaid where the call failed."""
    unavailable = device.state is not None and device.state != _AVAILABLE
    reason = device.unavailable_reason or f"state {device.state}"
    return Gpu(
        index=device.index,
        uuid=gpu_uuid(device.uuid),
        bdf=normal_bdf(device.bdf or ""),
        model=said(shorten(device.name or "")),
        memory_bytes=sane(device.memory_bytes, MAX_MEMORY_BYTES),
        numa=sane(device.numa_affinity, MAX_NUMA),
        healthy=None if device.state is None else not unavailable,
        trouble=shorten(f"unavailable: {reason}") if unavailable else "",
    )


def _port(gpu: int, port: _PortText) -> LinkPort:
    remote = normal_bdf(port.remote_bdf or "")
    seen = SeenPort(gpu, port.link, port.speed or 0.0, port.width or 0, port.port_state, remote)
    return ports.judged(seen)


def _matrix(library: _Text, devices: list[_DeviceText], warnings: list[str]) -> LinkMatrix | None:
    """The matrix over the listed devices, or None where the topology is not square."""
    size = len(devices)
    if not library.topology:
        return None
    if len(library.topology) != size or any(len(row) != size for row in library.topology):
        warnings.append(f"the topology is not {size} by {size} and was left out")
        return None
    ethernet = _ethernet_known(library.version)
    links = tuple(
        tuple(_link(level, ethernet) if i != j else _SELF for j, level in enumerate(row))
        for i, row in enumerate(library.topology)
    )
    unknown = sum(link.kind is LinkKind.UNKNOWN for row in links for link in row)
    return LinkMatrix(
        gpus=tuple(f"GPU{device.index}" for device in devices),
        nics=(),
        links=links,
        numa=tuple(sane(device.numa_affinity, MAX_NUMA) for device in devices),
        cpus=("",) * size,
        unknown_codes=unknown,
    )


def _link(level: int | None, ethernet_known: bool) -> Link:  # noqa: FBT001 - a fact of the version
    if level is None or level < 0 or level == _ETHERNET + ethernet_known:
        return _UNDEFINED
    if level == _ETHERNET:
        return Link(LinkKind.ETHERNET, "ETH")
    return _LEVELS.get(level) or Link(LinkKind.UNKNOWN, shorten(str(level), 16))


def _ethernet_known(version: str) -> bool:
    parts = version.split(".")
    if not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        return False
    return tuple(int(part) for part in parts) >= _ETHERNET_SINCE


def _peers(servers: _ServersText | None) -> ServerPeers | None:
    local = server_uuid(servers.local) if servers else None
    if servers is None or local is None:
        return None
    slots = ((slot, server_uuid(text)) for slot, text in enumerate(servers.remotes, start=1))
    return ServerPeers(local, tuple(Peer(slot, uuid) for slot, uuid in slots if uuid))
