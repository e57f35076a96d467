"""One spelling for the names that tools spell differently: PCI addresses and UUIDs."""

import itertools
import re

from topo.model.ids import Bdf, GpuUuid, ServerUuid

_BDF = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE)
_BDF_INSIDE = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
_FABRIC_UUID = re.compile(r"[0-9a-f-]{8,64}", re.ASCII)
_HEX_UUID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_GPU_UUID = re.compile(r"[A-Za-z]{2,8}-[0-9A-Fa-f-]{8,64}", re.ASCII)
_NOTHING = frozenset({"", "n/a", "na", "none", "unknown", "[n/a]", "not supported"})


def normal_bdf(text: str) -> Bdf | None:
    """Return a PCI address as sysfs writes it: `3b:00.0` is `0000:3b:00.0`.

    A domain beyond four digits (VMD) keeps its digits, as in sysfs. None: not a PCI address.
    """
    match = _BDF.fullmatch(text.strip())
    if match is None:
        return None
    domain, bus, device, function = match.groups(default="0")
    return Bdf(f"{int(domain, 16):04x}:{bus}:{device}.{function}".lower())


def last_bdf(path: str) -> Bdf | None:
    """Return the innermost PCI address on a sysfs path, which is the device the path leads to."""
    found = _BDF_INSIDE.findall(path)
    return normal_bdf(found[-1]) if found else None


def known(text: str | None) -> str | None:
    """Return `text` trimmed, or None where it is a word of tools for an unknown value."""
    trimmed = (text or "").strip()
    return None if trimmed.lower() in _NOTHING else trimmed


def gpu_uuid(text: str | None) -> GpuUuid | None:
    """Return the GPU's UUID as printed (`GPU-…`), or None."""
    trimmed = known(text)
    return GpuUuid(trimmed) if trimmed and _GPU_UUID.fullmatch(trimmed) else None


def server_uuid(text: str | None) -> ServerUuid | None:
    """Return a server UUID in lower case; None for an empty slot or all zeros."""
    trimmed = (known(text) or "").lower()
    return ServerUuid(trimmed) if trimmed.strip("0-") and len(trimmed) <= 64 else None


def fabric_uuid(text: str | None) -> str | None:
    """Return an NVLink clusterUuid in lower case with hyphens; all zeros means "no fabric":
    None.
    """
    trimmed = (known(text) or "").lower()
    if _HEX_UUID.fullmatch(trimmed):
        cuts = (0, 8, 12, 16, 20, 32)
        trimmed = "-".join(trimmed[a:b] for a, b in itertools.pairwise(cuts))
    return trimmed if trimmed.strip("0-") and _FABRIC_UUID.fullmatch(trimmed) else None
