"""The topology metrics of mx-exporter (port 8000, Prometheus text format 0.0.4).

Source: metric names, labels and values of mx-exporter 0.13.2 (MetaX-MACA/mxExporter,
default-counters.csv). `mxlkId` counts from 1; the value of a remote `mx_server_info` is its slot;
`mx_server_conn_status` carries the local server's UUID and judges all of its links at once.
Lines that are no samples (`...`, proxies' messages) are passed over.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from topo.facts.metax.ports import link_port
from topo.facts.reading import folding
from topo.facts.reading.identity import gpu_uuid, known, normal_bdf, server_uuid
from topo.facts.reading.text import numbered_lines, shorten, stated, whole
from topo.model.errors import Refusal
from topo.model.ids import ServerUuid
from topo.model.machine import (
    MAX_GPUS,
    Gpu,
    LinkErrorKind,
    LinkErrors,
    LinkPort,
    Peer,
    ServerPeers,
)
from topo.model.observation import ParsedProbe

FORMAT = "mx-exporter"
_RECOGNISED = re.compile(r"^(?:# (?:HELP|TYPE) )?mx_[a-z_]{1,60}[ {]", re.MULTILINE | re.ASCII)
_SAMPLE = re.compile(r"(mx_[a-z_]{1,60})(?:\{(.{0,4000})\})?\s+(\S{1,40})(?:\s+-?[0-9]{1,20})?\s*")
_LABEL = re.compile(r'([A-Za-z_]\w{0,60})\s*=\s*"((?:[^"\\]|\\.){0,1000})"')
_ESCAPED = re.compile(r"\\(.)")
_KIB = 1024
_ERRORS = {"ce": LinkErrorKind.CORRECTED, "ue": LinkErrorKind.UNCORRECTED}
"""The exporter's words for what PCI Express calls correctable and uncorrectable."""
_FAMILIES = frozenset(
    {
        "mx_device_type",
        "mx_gpu_state",
        "mx_topo_info",
        "mx_memory_total",
        "mx_mxlk_speed",
        "mx_mxlk_width",
        "mx_mxlk_aer_count",
        "mx_server_info",
        "mx_server_conn_status",
    }
)


@dataclass(frozen=True, slots=True)
class _Sample:
    family: str
    labels: Mapping[str, str]
    number: float

    def whole(self, label: str) -> int | None:
        """Return a label's number from 0, or None where it is missing or no number."""
        return whole(self.labels.get(label, ""), 4)


@dataclass(slots=True)
class _Device:
    """The samples of one deviceId; dies of one device share it."""

    uuid: str = ""
    bdf: str = ""
    model: str = ""
    memory_kib: float = 0.0
    states: list[float] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    speeds: dict[int, float] = field(default_factory=dict)
    widths: dict[int, float] = field(default_factory=dict)
    errors: dict[tuple[int, LinkErrorKind], float] = field(default_factory=dict)
    families: set[str] = field(default_factory=set)


def recognises(text: str) -> bool:
    """Return whether `text` has a metric of mx-exporter. O(len(text))."""
    return "mx_" in text and _RECOGNISED.search(text) is not None


def read(text: str) -> ParsedProbe | Refusal:
    """Return GPUs, ports and the server's peers, as far as the scrape has them. O(len(text)).

    Refused: a scrape without one of the metrics that this version reads.
    """
    devices: dict[int, _Device] = {}
    servers: list[_Sample] = []
    warnings = _open_lines(text)
    strange: set[str] = set()
    for sample in _samples(text):
        if sample.family.startswith("mx_server_"):
            servers.append(sample)
            continue
        index = sample.whole("deviceId")
        if index is not None and index < MAX_GPUS:
            _note(devices.setdefault(index, _Device()), sample)
        elif "deviceId" in sample.labels:
            strange.add(shorten(sample.labels["deviceId"], 16))
    warnings += [f"no host has a device {each!r}: left out" for each in sorted(strange)]
    warnings += _gaps(devices)
    facts = (
        tuple(_gpu(index, device) for index, device in sorted(devices.items())),
        tuple(_ports(devices, warnings)),
        tuple(_errors(devices)),
        _peers(servers, warnings),
    )
    if not any(facts):
        return folding.nothing(
            "no device and no server among the metrics",
            warnings,
            "enable mx_device_type, mx_mxlk_speed, mx_mxlk_width and mx_server_info in the "
            "exporter's counters file, or let the worker use libmxsml",
        )
    return stated(FORMAT, facts, warnings)


def _gaps(devices: Mapping[int, _Device]) -> Iterator[str]:
    """Return warnings about what one device lacks and others have: its number, a family, a link.

    An exporter counts devices from 0 and gives each the same metrics. What lacks was cut off, or
    belongs to a card that does not answer; by itself the scrape is that of a smaller, healthy host.
    """
    absent = [index for index in range(max(devices, default=0)) if index not in devices]
    if absent:
        yield f"no metric of GPU {_few(absent)}: the scrape is cut, or the card does not answer"
    for family in sorted(set().union(*(device.families for device in devices.values()))):
        lacking = [i for i, device in sorted(devices.items()) if family not in device.families]
        if lacking:
            having = len(devices) - len(lacking)
            yield f"no {family} of GPU {_few(lacking)}, where {having} others have it"
    wired: dict[str, set[int]] = {}
    for device in devices.values():
        wired.setdefault(device.model, set()).update(device.speeds)
    for index, device in sorted(devices.items()):
        gone = sorted(wired[device.model] - device.speeds.keys())
        if gone and device.speeds:
            numbers = [link + 1 for link in gone]
            yield f"GPU {index}: no metric of link {_few(numbers)}, which others of its model have"


def _few(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:8])) + (", …" if len(numbers) > 8 else "")


def _samples(text: str) -> Iterator[_Sample]:
    """Return the samples of the families that matter, with a finite value."""
    for _, line in numbered_lines(text):
        match = _SAMPLE.fullmatch(line) if line.startswith("mx_") else None
        if match is None or match.group(1) not in _FAMILIES:
            continue
        number = _number(match.group(3))
        if number is not None:
            labels = {key: _plain(word) for key, word in _LABEL.findall(match.group(2) or "")}
            yield _Sample(match.group(1), labels, number)


def _open_lines(text: str) -> list[str]:
    """Return warnings about samples that are cut, and numbers that stand alone below one."""
    found: list[str] = []
    above = False
    for number, line in numbered_lines(text):
        sample = line.startswith("mx_") and line.partition("{")[0].split(" ")[0] in _FAMILIES
        alone = above and not sample and _number(line) is not None
        if alone or (sample and _SAMPLE.fullmatch(line) is None):
            found.append(folding.rest(number))
        above = sample
    return found


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None


def _plain(word: str) -> str:
    return _ESCAPED.sub(lambda m: "\n" if m.group(1) == "n" else m.group(1), word)


def _note(device: _Device, sample: _Sample) -> None:
    labels = sample.labels
    device.families.add(sample.family)
    device.uuid = device.uuid or labels.get("uuid", "")
    device.bdf = device.bdf or labels.get("bdfId", labels.get("bdf", ""))
    device.model = device.model or labels.get("deviceType", labels.get("modelName", ""))
    if sample.family == "mx_gpu_state":
        device.states.append(sample.number)
        if sample.number != 1 and labels.get("unavailable_reason"):
            device.reasons.append(labels["unavailable_reason"])
    elif sample.family == "mx_memory_total" and labels.get("type") == "vram":
        device.memory_kib += max(sample.number, 0.0)
    elif sample.family in {"mx_mxlk_speed", "mx_mxlk_width"}:
        port = sample.whole("mxlkId")
        if port:
            speeds = sample.family == "mx_mxlk_speed"
            (device.speeds if speeds else device.widths)[port - 1] = sample.number
    elif sample.family == "mx_mxlk_aer_count":
        port, kind = sample.whole("mxlkId"), _ERRORS.get(labels.get("type", ""))
        if port and port <= 1024 and kind and sample.number >= 0:
            device.errors[port - 1, kind] = sample.number


def _gpu(index: int, device: _Device) -> Gpu:
    """Return a device; healthy if and only if every die is available, unknown without a state."""
    healthy = all(state == 1 for state in device.states) if device.states else None
    reasons = "; ".join(dict.fromkeys(device.reasons)) or "no reason given"
    return Gpu(
        index=index,
        uuid=gpu_uuid(device.uuid),
        bdf=normal_bdf(device.bdf),
        model=known(shorten(device.model)),
        memory_bytes=int(min(device.memory_kib, 2**50)) * _KIB or None,
        healthy=healthy,
        trouble=shorten(f"unavailable: {reasons}") if healthy is False else "",
    )


def _ports(devices: Mapping[int, _Device], warnings: list[str]) -> Iterator[LinkPort]:
    for index, device in sorted(devices.items()):
        both = device.speeds.keys() & device.widths.keys()
        for port in sorted(both):
            width = int(min(max(device.widths[port], 0), 1024))
            yield link_port(index, port, device.speeds[port], width)
        half = device.speeds.keys() ^ device.widths.keys()
        if half:
            warnings.append(f"GPU {index}: {len(half)} ports have a speed or a width, not both")


def _errors(devices: Mapping[int, _Device]) -> Iterator[LinkErrors]:
    for index, device in sorted(devices.items()):
        for (link, kind), count in sorted(device.errors.items()):
            yield LinkErrors(index, link, kind, int(min(count, 2**62)))


def _peers(samples: list[_Sample], warnings: list[str]) -> ServerPeers | None:
    own, slots, status = _servers(samples)
    if len(own) != 1:
        if own or slots:
            warnings.append(f"{len(own)} local server UUIDs instead of one: peers are left out")
        return None
    local = own.pop()
    if status.get(local) is False:
        warnings.append("the exporter judges some link of this server as unhealthy")
    everything = True if status.get(local) else None
    remotes = sorted((slot, uuid) for uuid, slot in slots.items())
    return ServerPeers(
        local, tuple(Peer(slot, uuid, status.get(uuid, everything)) for slot, uuid in remotes)
    )


def _servers(
    samples: list[_Sample],
) -> tuple[set[ServerUuid], dict[ServerUuid, int], dict[ServerUuid, bool]]:
    """Return the local UUIDs (there should be one), the slot of each remote, and the statuses."""
    own: set[ServerUuid] = set()
    slots: dict[ServerUuid, int] = {}
    status: dict[ServerUuid, bool] = {}
    for sample in samples:
        uuid = server_uuid(sample.labels.get("server_uuid"))
        if uuid is None:
            continue
        if sample.family == "mx_server_conn_status":
            status[uuid] = sample.number == 1
        elif sample.labels.get("kind") == "local":
            own.add(uuid)
        elif sample.labels.get("kind") == "remote" and 1 <= sample.number <= 64:
            slots[uuid] = int(sample.number)
    return own, slots, status
